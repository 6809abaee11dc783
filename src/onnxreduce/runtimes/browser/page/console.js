// onnxruntime colours its log lines and dates them; neither belongs into a message that is to be compared.
const COLOURS = /\x1b\[[0-9;]*m/g;
const DATE = /^\d{4}-\d\d-\d\d [0-9:.]+ /;

/** Collects what the runtime says on the console, and errors that nobody caught. */
export class ConsoleWatch {
  constructor() {
    /** @type {string[]} */
    this.lines = [];
    for (const level of ['warn', 'error']) {
      console[level] = (...words) => this.add(words.map(String).join(' '));
    }
    addEventListener('error', ({ message }) => this.add(`uncaught: ${message}`));
    addEventListener('unhandledrejection', ({ reason }) => this.add(`unhandled rejection: ${reason}`));
  }

  /** @param {string} text */
  add(text) {
    const line = text.replaceAll(COLOURS, '').replace(DATE, '').trim();
    if (this.lines.length < 100 && !this.lines.includes(line)) this.lines.push(line);
  }

  /** @returns {string[]} the lines that came since the last call */
  take() {
    return this.lines.splice(0);
  }
}
