// Elements of tensors that are held as raw bytes in ONNX's layout (little-endian, 4-bit types packed, strings as a JSON
// list), and how they are written.

/** @typedef {{name: string, type: string, dims: number[], bytes: Uint8Array}} RawTensor */

const VIEWS = {
  float32: Float32Array,
  float64: Float64Array,
  int8: Int8Array,
  uint8: Uint8Array,
  int16: Int16Array,
  uint16: Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  bool: Uint8Array,
};
const DIGITS = 7; // of a measurement that are shown
const ROUND = { float16: Math.f16round ?? Math.fround, float32: Math.fround };
const LONGEST_TEXT = 60;

/**
 * The elements in order: numbers (0 and 1 for bool), bigints for 64-bit integers, or strings.
 * @param {RawTensor} tensor
 * @returns {ArrayLike<number | bigint | string>}
 */
export function elements({ type, dims, bytes }) {
  if (type === 'string') return JSON.parse(new TextDecoder().decode(bytes));
  if (type === 'int4' || type === 'uint4') return nibbles(bytes, countOf(dims), type === 'int4');
  const { buffer } = bytes.slice(); // a copy begins at a multiple of eight, as the wider types need it
  if (type === 'float16') {
    return typeof Float16Array === 'undefined' ? halves(new Uint16Array(buffer)) : new Float16Array(buffer);
  }
  if (!VIEWS[type]) throw new TypeError(`no tensor type ${type}`);
  return new VIEWS[type](buffer);
}

/** @param {number[]} dims */
export const countOf = (dims) => dims.reduce((product, size) => product * size, 1);

/** @param {string} type */
export const isFloating = (type) => type.startsWith('float');

/**
 * @param {Uint16Array} bits IEEE 754 half precision
 * @returns {Float32Array} the same numbers, exactly
 */
export function halves(bits) {
  return Float32Array.from(bits, (half) => {
    const sign = half & 0x8000 ? -1 : 1;
    const exponent = (half >> 10) & 0x1f;
    const mantissa = half & 0x3ff;
    if (exponent === 0x1f) return mantissa ? NaN : sign * Infinity;
    return sign * (exponent ? 2 ** (exponent - 25) * (mantissa + 0x400) : 2 ** -24 * mantissa);
  });
}

function nibbles(bytes, count, signed) {
  return Array.from({ length: count }, (_, at) => {
    const nibble = (bytes[at >> 1] >> (at & 1 ? 4 : 0)) & 0xf;
    return signed && nibble > 7 ? nibble - 16 : nibble;
  });
}

/**
 * Position of an element by axis.
 * @param {number} at its number in the flat order
 * @param {number[]} dims
 */
export function indexOf(at, dims) {
  const index = [];
  for (let axis = dims.length - 1; axis >= 0; axis--) {
    index.unshift(at % dims[axis]);
    at = Math.floor(at / dims[axis]);
  }
  return index;
}

/** @param {number} value a measurement, shortened where it has more digits than anyone reads */
export function shown(value) {
  return Number.isInteger(value) && Math.abs(value) < 1e15 ? String(value) : String(Number(value.toPrecision(DIGITS)));
}

/**
 * One element as text.
 * @param {number | bigint | string} value
 * @param {string} type
 */
export function shownElement(value, type) {
  if (type === 'bool') return value ? 'true' : 'false';
  if (type === 'string') {
    const text = JSON.stringify(value);
    return text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)}…` : text;
  }
  return ROUND[type] ? shortest(value, ROUND[type]) : String(value);
}

/** As few digits as tell a number of a narrow type from its neighbours. */
function shortest(value, round) {
  for (let digits = 1; digits < 9; digits++) {
    const fewer = Number(value.toPrecision(digits));
    if (round(fewer) === value) return String(fewer);
  }
  return String(Number(value.toPrecision(9)));
}

/** @param {string} text base64 */
export function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}
