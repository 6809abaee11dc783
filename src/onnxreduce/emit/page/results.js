// What a run gave, beside what onnxreduce measured.

import { MARK } from './comparison.js';
import { byId, make, table } from './elements.js';
import { heatmap } from './heatmap.js';
import { indexOf, shown, shownElement } from './values.js';
import { besideMeasured } from './verdict.js';

const LISTED = 16; // wrong elements that are listed
const AGREES = 'agrees';
const OUTCOMES = { fails: 'Fails', agrees: 'Agrees', unresolved: 'Unresolved' };

/** @type {(() => void)[]} what paints the maps on the page */
let painters = [];

export function paintAgain() {
  for (const paint of painters) paint();
}

/**
 * @param {import('./verdict.js').Verdict} verdict
 * @param {object | null} measured
 */
export function showVerdict(verdict, measured) {
  const line = `${OUTCOMES[verdict.outcome]}: ${verdict.text}`;
  const beside = besideMeasured(verdict, measured);
  const element = byId('verdict');
  element.className = verdict.outcome;
  element.dataset.kind = verdict.kind;
  element.textContent = beside ? `${line}. This is ${beside}.` : `${line}.`;
  if (verdict.outcome === 'agrees' && beside) element.textContent = `${line}; ${beside}.`;
}

/**
 * One part a output, those that agree closed.
 * @param {string[]} outputs
 * @param {import('./comparison.js').Difference[] | null} differences null before a run
 * @param {object | null} measured
 */
export function showOutputs(outputs, differences, measured) {
  painters = [];
  const here = new Map((differences ?? []).map((difference) => [difference.output, difference]));
  const there = new Map((measured?.differences ?? []).map((difference) => [difference.output, difference]));
  const parts = outputs.map((name) => outputPart(name, here.get(name), there.get(name)));
  byId('outputs').replaceChildren(...parts);
  paintAgain();
}

function outputPart(name, here, there) {
  const kind = (here ?? there)?.kind ?? (here || there ? AGREES : 'not compared');
  const badge = make('span', { class: kind === AGREES ? 'badge right' : 'badge' }, kind);
  const part = make('details', { class: 'output' }, make('summary', {}, make('h3', {}, name), badge));
  part.open = kind !== AGREES;
  const body = make('div', { class: 'pair' }, figures(name, here, there));
  if (here?.marks?.some((mark) => mark !== MARK.equal)) {
    const { figure, draw } = heatmap(here);
    painters.push(draw);
    body.append(figure);
  }
  part.append(body);
  if (here?.wrong && here.marks) part.append(wrongElements(here));
  return part;
}

function figures(name, here, there) {
  const heads = [here && 'This page', there && 'As measured by onnxreduce'].filter(Boolean);
  const list = (items) => `[${items.join(', ')}]`;
  const at = here?.expected && here.wrong ? flat(here) : -1;
  // of the measured run the first wrong element is the first of its samples: index, reference, suspect
  const value = (which, sample) => (one) =>
    one === there ? (one.samples[0]?.[sample].replace(/\.0$/, '') ?? '–') : at < 0 ? '–' : shownElement(here[which][at], here.dtype);
  const rows = [
    ['Verdict', (one) => one.kind ?? AGREES],
    ['Type', (one) => one.dtype],
    ['Shape', (one) => list(one.shape)],
    ['Largest absolute difference', (one) => measure(one.absolute)],
    ['Relative to scale', (one) => measure(one.relative)],
    ['Wrong elements', (one) => `${one.wrong} of ${one.total}`],
    ['Cosine similarity', (one) => (one.cosine === null ? '–' : measure(one.cosine))],
    ['Units in the last place', (one) => one.ulp ?? '–'],
    ['NaN or Inf', (one) => String(one.not_finite)],
    ['First wrong index', (one) => (one.wrong && !one.note ? list(one.first) : '–')],
  ];
  if (at >= 0 || there?.samples.length) {
    rows.push(['Reference there', value('expected', 1)], ['Suspect there', value('actual', 2)]);
  }
  if (here?.note || there?.note) rows.push(['Note', (one) => one.note || '–']);
  const cells = rows.map(([label, tell]) => [label, ...[here, there].filter(Boolean).map(tell)]);
  return heads.length ? table(`Output ${name}`, ['', ...heads], cells) : make('p', {}, 'Nothing to compare.');
}

/** A measurement, with all its digits for whoever copies or points at it. */
function measure(value) {
  if (value === null) return 'not finite';
  return make('data', { value: String(value), title: String(value) }, shown(value));
}

const flat = ({ first, shape }) => first.reduce((at, index, axis) => at * shape[axis] + index, 0);

function wrongElements(difference) {
  const { marks, expected, actual, shape, dtype, wrong } = difference;
  const rows = [];
  for (let at = 0; at < marks.length && rows.length < LISTED; at++) {
    if (marks[at] <= MARK.within) continue;
    const values = [expected[at], actual[at]].map((value) => shownElement(value, dtype));
    rows.push([`[${indexOf(at, shape).join(', ')}]`, ...values]);
  }
  const title = wrong > rows.length ? `The first ${rows.length} of ${wrong} wrong elements` : 'All wrong elements';
  const heads = ['Index', 'Reference', 'Suspect'];
  return make('details', {}, make('summary', {}, title), table(title, heads, rows));
}

/**
 * Errors and console lines of both sides, in full.
 * @param {Object<string, import('./runs.js').Run>} runs
 */
export function showErrors(runs) {
  const parts = [];
  for (const [side, { status, errors, console }] of Object.entries(runs)) {
    if (errors.length) {
      parts.push(make('h3', {}, `${side}: ${status}`), make('pre', { tabindex: '0' }, errors.join('\n')));
    }
    if (console.length) {
      const title = make('summary', {}, `${side}: what the runtime said on the console`);
      parts.push(make('details', {}, title, make('pre', { tabindex: '0' }, console.join('\n'))));
    }
  }
  byId('errors').replaceChildren(...parts);
}

/**
 * Browser, package and adapter.
 * @param {Object<string, import('./runs.js').Run>} runs
 * @param {object} facts
 */
export function showEnvironment(runs, facts) {
  const rows = [['Browser', navigator.userAgent, facts.suspect.browser || '–']];
  for (const [side, run] of Object.entries(runs)) {
    const here = [run.version && `onnxruntime-web ${run.version}`, run.files].filter(Boolean).join(', ');
    rows.push([side, here, facts[side.toLowerCase()].name]);
    if (run.seconds) rows.push([`${side}, time`, run.seconds, '–']);
  }
  const adapter = Object.values(runs).findLast((run) => run.adapter)?.adapter;
  const said = (text) => (adapter ? text || 'not told' : '–');
  rows.push(
    ['Adapter', adapter ? adapterWords(adapter) : '–', facts.suspect.adapter || '–'],
    ['Vendor', said(adapter?.vendor), '–'],
    ['Architecture', said(adapter?.architecture), '–'],
    ['Device', said(adapter?.device), '–'],
    ['Description', said(adapter?.description), '–'],
    ['Driver', said(adapter?.driver), facts.suspect.adapter_driver || '–'],
    ['Fallback adapter', adapter ? (adapter.fallback ? 'yes' : 'no') : '–', facts.suspect.adapter_software || '–'],
  );
  byId('environment').replaceChildren(table('Where it ran', ['', 'This page', 'As measured by onnxreduce'], rows));
}

const adapterWords = ({ vendor, architecture, description }) =>
  [vendor, architecture, description].filter(Boolean).join(' ') || 'unknown adapter';
