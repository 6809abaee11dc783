// Elements of the page. What comes from a model or a runtime only ever becomes text.

/**
 * @param {string} tag
 * @param {Object<string, string>} attributes
 * @param {...(Node | string)} children
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** @param {string} id */
export const byId = (id) => document.getElementById(id);

/**
 * A table whose first column are headings of its rows.
 * @param {string} caption
 * @param {string[]} heads
 * @param {(Node | string)[][]} rows
 */
export function table(caption, heads, rows) {
  const head = heads.map((text) => make('th', { scope: 'col' }, text));
  const body = rows.map(([first, ...cells]) =>
    make('tr', {}, make('th', { scope: 'row' }, first), ...cells.map((cell) => make('td', {}, cell))),
  );
  return make(
    'table',
    {},
    make('caption', { class: 'hidden' }, caption),
    make('thead', {}, make('tr', {}, ...head)),
    make('tbody', {}, ...body),
  );
}
