// Two more measures of how far tensors are apart, as in oracle/distance.py. They decide nothing.

const BITS = { float16: Uint16Array, float32: Uint32Array, float64: BigUint64Array };

/**
 * Cosine similarity over elements that are finite in both; null where one side is all zeros.
 * @param {ArrayLike<number | bigint>} expected
 * @param {ArrayLike<number | bigint>} actual
 * @returns {number | null}
 */
export function cosine(expected, actual) {
  let [largest, other] = [0, 0];
  eachPair(expected, actual, (right, given) => {
    largest = Math.max(largest, Math.abs(right));
    other = Math.max(other, Math.abs(given));
  });
  if (!largest || !other) return null;
  let [dot, length, otherLength] = [0, 0, 0];
  eachPair(expected, actual, (right, given) => {
    const [one, two] = [right / largest, given / other]; // so that no square overflows
    dot += one * two;
    length += one * one;
    otherLength += two * two;
  });
  return Math.max(-1, Math.min(1, dot / (Math.sqrt(length) * Math.sqrt(otherLength))));
}

/** Calls with both elements as numbers, where both are finite. */
function eachPair(expected, actual, look) {
  for (let i = 0; i < expected.length; i++) {
    const [right, given] = [Number(expected[i]), Number(actual[i])];
    if (Number.isFinite(right) && Number.isFinite(given)) look(right, given);
  }
}

/**
 * The largest distance in units in the last place, over elements that are finite in both, in digits.
 * @param {import('./values.js').RawTensor} reference of a floating-point type
 * @param {import('./values.js').RawTensor} suspect of the same type and shape
 * @param {ArrayLike<number>} expected
 * @param {ArrayLike<number>} actual
 * @returns {string}
 */
export function ulps(reference, suspect, expected, actual) {
  const [right, given] = [reference, suspect].map(({ type, bytes }) => new BITS[type](bytes.slice().buffer));
  const width = right.BYTES_PER_ELEMENT;
  const ordinal = width === 8 ? (bits) => wideOrdinal(bits) : (bits) => narrowOrdinal(bits, 2 ** (8 * width - 1));
  let largest = width === 8 ? 0n : 0;
  for (let i = 0; i < right.length; i++) {
    if (right[i] === given[i] || !Number.isFinite(expected[i]) || !Number.isFinite(actual[i])) continue;
    const [one, other] = [ordinal(right[i]), ordinal(given[i])];
    const distance = one > other ? one - other : other - one;
    if (distance > largest) largest = distance;
  }
  return String(largest);
}

// The position of a number among all of its type; both zeros have the same.
const narrowOrdinal = (bits, sign) => (bits >= sign ? sign - bits : bits);
const SIGN = 1n << 63n;
const wideOrdinal = (bits) => (bits >= SIGN ? SIGN - bits : bits);
