/** Collects what the runtime says on the console, and errors that nobody caught. */
export class ConsoleWatch {
  constructor() {
    /** @type {string[]} */
    this.lines = [];
    for (const level of ['warn', 'error']) {
      console[level] = (...words) => this.add(words.map(String).join(' '));
    }
    window.addEventListener('error', ({ message }) => this.add(`uncaught: ${message}`));
    window.addEventListener('unhandledrejection', ({ reason }) => this.add(`unhandled rejection: ${reason}`));
  }

  /** @param {string} line */
  add(line) {
    if (this.lines.length < 100 && !this.lines.includes(line)) this.lines.push(line);
  }

  /** @returns {string[]} the lines that came since the last call */
  take() {
    return this.lines.splice(0);
  }
}
