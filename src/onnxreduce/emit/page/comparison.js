// How far one output is from what it should be: oracle/comparison.py, in the browser. All figures that decide come from
// there with the page (`tolerance`).

import { cosine, ulps } from './distance.js';
import { countOf, elements, indexOf, isFloating } from './values.js';

/**
 * @typedef {object} Tolerance
 * @property {number} absolute
 * @property {Object<string, number>} relative by type of floats, as a share of the tensor's scale
 * @property {Object<string, number>} fill by type, `*` for others: magnitudes from here on do not set the scale
 */

/**
 * @typedef {object} Difference One output compared; `kind` is null where it agrees.
 * @property {string} output
 * @property {string | null} kind
 * @property {string} dtype
 * @property {number[]} shape
 * @property {number} absolute largest absolute difference
 * @property {number} relative that over the tensor's scale
 * @property {number} wrong of `total` elements
 * @property {number} total
 * @property {number} not_finite NaN or Inf where the reference is finite
 * @property {number[]} first index of the first wrong element
 * @property {string} note
 * @property {number | null} cosine
 * @property {string | null} ulp
 * @property {number} nan elements of which one side alone is NaN, the first at `first_nan`
 * @property {number[]} first_nan
 * @property {Uint8Array} [marks] a `MARK` for each element
 * @property {ArrayLike<*>} [expected]
 * @property {ArrayLike<*>} [actual]
 */

/** How bad an element is, in rising order. For exact types there are only `equal` and `far`. */
export const MARK = { equal: 0, within: 1, ten: 2, hundred: 3, thousand: 4, far: 5, notFinite: 6 };

/**
 * @param {import('./values.js').RawTensor} reference
 * @param {import('./values.js').RawTensor | undefined} suspect
 * @param {Tolerance} tolerance
 * @returns {Difference}
 */
export function compare(reference, suspect, tolerance) {
  const { name, type, dims } = reference;
  const total = countOf(dims);
  const agreeing = {
    output: name, kind: null, dtype: type, shape: dims, absolute: 0, relative: 0, wrong: 0, total, not_finite: 0,
    first: [], note: '', cosine: null, ulp: null, nan: 0, first_nan: [],
  };
  if (!suspect) return { ...agreeing, kind: 'wrong shape', note: 'no such output', wrong: total };
  if (suspect.type !== type) {
    return { ...agreeing, kind: 'wrong dtype', note: `dtype ${suspect.type}, expected ${type}`, wrong: total };
  }
  if (String(suspect.dims) !== String(dims)) {
    const note = `shape [${suspect.dims.join(', ')}], expected [${dims.join(', ')}]`;
    return { ...agreeing, kind: 'wrong shape', note, wrong: total };
  }
  const expected = elements(reference);
  const actual = elements(suspect);
  const found = isFloating(type) ? floating(expected, actual, type, tolerance) : exact(expected, actual);
  const place = (at) => (at < 0 ? [] : indexOf(at, dims));
  const { at, nanAt = -1, ...measures } = found;
  const ulp = isFloating(type) ? ulps(reference, suspect, expected, actual) : null;
  const similar = type === 'string' ? null : cosine(expected, actual);
  const places = { first: place(at), first_nan: place(nanAt) };
  return { ...agreeing, ...measures, ...places, ulp, cosine: similar, expected, actual };
}

function floating(expected, actual, type, tolerance) {
  const relative = tolerance.relative[type];
  const scale = scaleOf(expected, tolerance.fill[type] ?? tolerance.fill['*']);
  const marks = new Uint8Array(expected.length);
  let [absolute, wrong, notFinite, nan, at, nanAt, anything] = [0, 0, 0, 0, -1, -1, false];
  for (let i = 0; i < expected.length; i++) {
    const [right, given] = [expected[i], actual[i]];
    anything ||= given !== 0;
    if (right === given || (Number.isNaN(right) && Number.isNaN(given))) continue;
    const distance = Math.abs(given - right);
    const finite = Number.isFinite(right);
    const lost = finite && !Number.isFinite(given);
    const allowed = tolerance.absolute + relative * Math.max(scale, finite ? Math.abs(right) : 0);
    if (Number.isFinite(distance)) absolute = Math.max(absolute, distance);
    if (lost) notFinite++;
    if (Number.isNaN(right) || Number.isNaN(given)) {
      nan++;
      if (nanAt < 0) nanAt = i;
    }
    if (distance <= allowed && !lost) {
      marks[i] = MARK.within;
      continue;
    }
    if (at < 0) at = i;
    wrong++;
    marks[i] = markOf(distance, allowed);
  }
  let kind = null;
  if (wrong) kind = notFinite ? 'NaN or Inf' : anything ? 'numeric mismatch' : 'all zeros';
  const far = scale ? absolute / scale : absolute;
  return { kind, absolute, relative: far, wrong, not_finite: notFinite, nan, at, nanAt, marks };
}

function markOf(distance, allowed) {
  if (!Number.isFinite(distance)) return MARK.notFinite;
  if (distance > 1000 * allowed) return MARK.far;
  return distance > 100 * allowed ? MARK.thousand : distance > 10 * allowed ? MARK.hundred : MARK.ten;
}

/** Largest magnitude of the finite elements, fills of attention masks left out where there are others. */
function scaleOf(expected, fill) {
  let [ordinary, some, largest] = [0, false, 0];
  for (let i = 0; i < expected.length; i++) {
    const magnitude = Math.abs(expected[i]);
    if (!Number.isFinite(magnitude)) continue;
    largest = Math.max(largest, magnitude);
    if (magnitude < fill) {
      some = true;
      ordinary = Math.max(ordinary, magnitude);
    }
  }
  return some ? ordinary : largest;
}

function exact(expected, actual) {
  const marks = new Uint8Array(expected.length);
  let [absolute, scale, wrong, at] = [0, 0, 0, -1];
  for (let i = 0; i < expected.length; i++) {
    const [right, given] = [expected[i], actual[i]];
    if (typeof right !== 'string') {
      absolute = Math.max(absolute, Math.abs(Number(right) - Number(given)));
      scale = Math.max(scale, Math.abs(Number(right)));
    }
    if (right === given) continue;
    if (at < 0) at = i;
    wrong++;
    marks[i] = MARK.far;
  }
  const kind = wrong ? 'numeric mismatch' : null;
  return { kind, absolute, relative: absolute / Math.max(scale, 1), wrong, not_finite: 0, at, marks };
}
