// Where an output differs, as a map: one cell an element, or the worst of several where there are too many.

import { MARK } from './comparison.js';
import { make } from './elements.js';
import { indexOf, isFloating, shownElement } from './values.js';

const MOST_COLUMNS = 640; // cells, and about the width of the map on a wide page in pixels
const MOST_ROWS = 320;
const LARGEST_CELL = 24; // pixels
const LABELS = {
  equal: 'equal',
  within: 'within tolerance',
  ten: 'up to 10 times the tolerance',
  hundred: 'up to 100 times',
  thousand: 'up to 1000 times',
  far: 'more',
  notFinite: 'NaN or Inf on one side',
};
const EXACT_LABELS = { equal: 'equal', far: 'different' };

/**
 * A shape as rows and columns: the last axis across, all before it down; a vector in lines where it is long.
 * @param {number[]} dims
 * @param {number} total
 */
export function grid(dims, total) {
  const axes = dims.flatMap((size, axis) => (size > 1 ? [axis] : []));
  if (axes.length < 2) {
    const columns = Math.max(1, Math.min(total, MOST_COLUMNS));
    const rows = Math.ceil(total / columns);
    return { rows, columns, words: rows > 1 ? `${columns} elements a line` : 'one line' };
  }
  const last = axes.at(-1);
  const columns = dims[last];
  const down = axes.length > 2 ? `axes ${axes.slice(0, -1).join(', ')}` : `axis ${axes[0]}`;
  return { rows: total / columns, columns, words: `${down} down, axis ${last} across` };
}

/**
 * The worst element of each cell.
 * @param {Uint8Array} marks
 * @param {{rows: number, columns: number}} shape
 */
export function pooled(marks, { rows, columns }) {
  const down = Math.ceil(rows / MOST_ROWS);
  const across = Math.ceil(columns / MOST_COLUMNS);
  const [height, width] = [Math.ceil(rows / down), Math.ceil(columns / across)];
  const worst = new Uint8Array(width * height);
  const places = new Float64Array(width * height).fill(-1);
  for (let at = 0; at < marks.length; at++) {
    const cell = Math.floor(Math.floor(at / columns) / down) * width + Math.floor((at % columns) / across);
    if (places[cell] < 0 || marks[at] > worst[cell]) {
      worst[cell] = marks[at];
      places[cell] = at;
    }
  }
  return { width, height, down, across, worst, places };
}

/**
 * The map of a difference with its legend.
 * @param {import('./comparison.js').Difference} difference one with `marks`
 * @returns {{figure: HTMLElement, draw: () => void}} `draw` is called again where colours have changed
 */
export function heatmap(difference) {
  const { output, dtype, shape, marks, wrong, total } = difference;
  const layout = grid(shape, total);
  const cells = pooled(marks, layout);
  const words = `${wrong} of ${total} elements wrong; ${layout.words}`;
  const canvas = make('canvas', { role: 'img', 'aria-label': `Map of ${output}: ${words}` });
  [canvas.width, canvas.height] = [cells.width, cells.height];
  const [across, down] = [cellSize(MOST_COLUMNS, cells.width), cellSize(MOST_ROWS, cells.height)];
  canvas.style.width = `${cells.width * across}px`;
  canvas.style.height = `${cells.height * down}px`;
  const several = cells.down * cells.across > 1;
  const many = several ? `; a cell is the worst of ${cells.down} × ${cells.across} elements` : '';
  const pointed = make('p', { class: 'pointed' }, 'Point at a cell to read its element.');
  canvas.addEventListener('pointermove', (event) => {
    const at = cells.places[cellAt(canvas, event)];
    if (at >= 0) pointed.textContent = elementWords(difference, at);
  });
  const caption = make('figcaption', {}, `${words}${many}`);
  const figure = make('figure', {}, canvas, caption, legend(dtype), pointed);
  return { figure, draw: () => paint(canvas, cells) };
}

const cellSize = (room, count) => Math.min(LARGEST_CELL, Math.max(1, Math.floor(room / count)));

function cellAt(canvas, event) {
  const box = canvas.getBoundingClientRect();
  const column = Math.floor(((event.clientX - box.left) / box.width) * canvas.width);
  const row = Math.floor(((event.clientY - box.top) / box.height) * canvas.height);
  return row * canvas.width + column;
}

/** @returns {string} index and both values of an element */
export function elementWords({ shape, dtype, expected, actual }, at) {
  const [right, given] = [expected[at], actual[at]].map((value) => shownElement(value, dtype));
  return `[${indexOf(at, shape).join(', ')}]: reference ${right}, suspect ${given}`;
}

function paint(canvas, { width, height, worst, places }) {
  const style = getComputedStyle(canvas);
  const context = canvas.getContext('2d');
  context.clearRect(0, 0, width, height);
  for (const [name, mark] of Object.entries(MARK)) {
    context.fillStyle = style.getPropertyValue(`--mark-${name.toLowerCase()}`);
    for (let cell = 0; cell < worst.length; cell++) {
      if (worst[cell] === mark && places[cell] >= 0) context.fillRect(cell % width, Math.floor(cell / width), 1, 1);
    }
  }
}

function legend(dtype) {
  const labels = isFloating(dtype) ? LABELS : EXACT_LABELS;
  const items = Object.entries(labels).map(([name, label]) =>
    make('li', {}, make('span', { class: `swatch mark-${name.toLowerCase()}`, 'aria-hidden': 'true' }), label),
  );
  return make('ul', { class: 'legend', 'aria-label': 'Colours' }, ...items);
}
