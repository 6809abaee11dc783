// From two runs to one verdict, as oracle/differential.py gives it.

import { compare } from './comparison.js';
import { shown } from './values.js';

const KINDS = {
  'create error': 'error at create',
  'run error': 'error at run',
  'shader error': 'shader error',
  hang: 'hang',
  'lost device': 'lost device',
  'out of memory': 'out of memory',
};
const SLOW = 'slower than';
const ORDER = ['wrong dtype', 'wrong shape', 'NaN or Inf', 'numeric mismatch', 'all zeros'];
// One family: corrupted values become NaN or zeros, or not, by what the nodes after them do.
const WRONG_VALUES = ['NaN or Inf', 'numeric mismatch', 'all zeros'];

/**
 * @typedef {object} Verdict
 * @property {'fails' | 'agrees' | 'unresolved'} outcome
 * @property {string} kind class of the failure
 * @property {string} text in a sentence
 * @property {import('./comparison.js').Difference[]} differences
 */

/**
 * @param {import('./runs.js').Run} reference
 * @param {import('./runs.js').Run} suspect
 * @param {{tolerance: import('./comparison.js').Tolerance, slower: object | null}} rules
 * @returns {Verdict}
 */
export function judge(reference, suspect, { tolerance, slower }) {
  const verdict = judgeOutputs(reference, suspect, tolerance);
  if (!slower || verdict.outcome === 'unresolved' || suspect.status !== 'ok') return verdict;
  const slow = slowness(reference, suspect, slower);
  if (!slow || (verdict.outcome === 'fails' && !slower.first)) return verdict;
  return { ...verdict, outcome: 'fails', kind: SLOW, text: `${SLOW} ${slower.factor} times the reference: ${slow}` };
}

/** As oracle/speed.py. */
function slowness(reference, suspect, { factor, shortest }) {
  if (!reference.repeated?.length || !suspect.repeated?.length) return '';
  const [right, given] = [reference, suspect].map(({ repeated }) => median(repeated));
  if (given <= shortest || given <= factor * right) return '';
  return `${shown(1000 * given)} ms a run against ${shown(1000 * right)} ms`;
}

function median(values) {
  const sorted = values.toSorted((one, other) => one - other);
  const middle = sorted.length / 2;
  return (sorted[Math.ceil(middle) - 1] + sorted[Math.floor(middle)]) / 2;
}

function judgeOutputs(reference, suspect, tolerance) {
  if (reference.status !== 'ok') {
    return { outcome: 'unresolved', kind: '', text: `the reference fails: ${reference.status}`, differences: [] };
  }
  const ran = suspect.status === 'ok' || suspect.status === 'shader error';
  const given = new Map(suspect.outputs.map((tensor) => [tensor.name, tensor]));
  const differences = ran ? reference.outputs.map((right) => compare(right, given.get(right.name), tolerance)) : [];
  const wrong = differences.filter(({ kind }) => kind !== null);
  const count = `${wrong.length} of ${differences.length} outputs wrong`;
  if (suspect.status !== 'ok') {
    const kind = KINDS[suspect.status];
    return { outcome: 'fails', kind, text: ran ? `${kind}, ${count}` : kind, differences };
  }
  if (!wrong.length) {
    const total = differences.length;
    return { outcome: 'agrees', kind: '', text: `${total} of ${total} outputs are right`, differences };
  }
  const kind = ORDER.find((each) => wrong.some((difference) => difference.kind === each));
  return { outcome: 'fails', kind, text: `${kind}, ${count}`, differences };
}

/**
 * How a verdict stands to what onnxreduce measured.
 * @param {Verdict} verdict
 * @param {{outcome: string, kind: string} | null} measured
 */
export function besideMeasured(verdict, measured) {
  if (!measured || measured.outcome !== 'fails' || verdict.outcome === 'unresolved') return '';
  if (verdict.outcome === 'agrees') return `the fault that onnxreduce measured (${measured.kind}) does not show here`;
  const kinds = [verdict.kind, measured.kind];
  const same = verdict.kind === measured.kind || kinds.every((kind) => WRONG_VALUES.includes(kind));
  return same ? 'the fault that onnxreduce measured' : `not the fault that onnxreduce measured (${measured.kind})`;
}
