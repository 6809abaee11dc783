// One run of the model on one side, in a worker of its own that does not outlive it.

/**
 * @typedef {object} Run
 * @property {string} status ok, create error, run error, shader error, hang, lost device or out of memory
 * @property {import('./values.js').RawTensor[]} outputs
 * @property {string[]} errors in full text
 * @property {string[]} console what the runtime said there
 * @property {string} version of onnxruntime-web
 * @property {string} files bundle and WebAssembly file
 * @property {object | null} adapter
 * @property {string} [seconds] what took how long, in words
 * @property {number[]} [repeated] seconds of each further run
 */

import { SetupError, loadBundle } from './packages.js';

/** Runs of the page. One at a time: a runtime that is asked to do two things at once breaks. */
export class Runner {
  /**
   * @param {string} workerSource
   * @param {{anchor: Uint8Array, model: Uint8Array, feeds: object[], outputs: string[]}} data
   * @param {object} rules `no_memory`: patterns of what says that memory ran out, and of names in it
   */
  constructor(workerSource, data, { no_memory: noMemory, slower }) {
    this.address = URL.createObjectURL(new Blob([workerSource], { type: 'text/javascript' }));
    this.data = data;
    this.repeats = slower ? { repeats: slower.repeats, repeatSeconds: slower.repeat_seconds } : {};
    const [words, names] = [new RegExp(noMemory.words), new RegExp(noMemory.names, 'gm')];
    this.saysNoMemory = (message) => words.test(message.replace(names, ''));
  }

  /**
   * @param {import('./form.js').Side} side
   * @param {number} limit seconds
   * @param {AbortSignal} signal ends it
   * @returns {Promise<Run>} rejected with a SetupError where the runtime does not start
   */
  async run(side, limit, signal) {
    const loaded = await loadBundle(side.source, side.bundle);
    signal.throwIfAborted();
    const { provider, session, runs } = side;
    const order = { ...loaded, ...this.data, repeats: { ...this.repeats, runs }, provider, session };
    const worker = new Worker(this.address);
    let clock;
    const run = { status: 'ok', outputs: [], errors: [], console: [], version: '', files: '', adapter: null };
    run.files = `${loaded.name}, ${loaded.wasm}`;
    try {
      return await new Promise((resolve, reject) => {
        const late = { status: 'hang', errors: [`no answer within ${limit} s`] };
        clock = setTimeout(() => resolve({ ...run, ...late }), limit * 1000);
        signal.addEventListener('abort', () => reject(signal.reason));
        worker.onerror = (event) => {
          event.preventDefault(); // once it has started, what nobody catches is among its console lines
          if (!run.version) reject(new SetupError(`the worker does not start: ${event.message ?? 'no reason told'}`));
        };
        worker.onmessage = ({ data }) => {
          if (data.setupError) reject(new SetupError(startFailure(loaded.name, provider.name, data.setupError)));
          if (data.started) Object.assign(run, { version: data.started.versions.web ?? '', adapter: data.adapter });
          if (data.report) resolve({ ...run, ...told(data.report), status: this.statusOf(data.report) });
        };
        worker.postMessage(order);
      });
    } finally {
      clearTimeout(clock);
      worker.terminate();
    }
  }

  /** As `status_of` in runtimes/browser/result.py: after a refusal to grow an error may have any words. */
  statusOf({ status, message, deviceErrors, refusedMemory }) {
    if (status === 'ok' || status === 'lost device') return status;
    const said = [message, ...deviceErrors.filter((error) => error.startsWith('GPUOutOfMemoryError'))];
    return refusedMemory || said.some(this.saysNoMemory) ? 'out of memory' : status;
  }
}

const startFailure = (bundle, provider, text) => `${bundle} does not start with provider ${provider}: ${text}`;

/** What a report tells: the errors once each, and what the console has beside them. */
function told({ outputs, message, late, deviceErrors, console, secondsCreate, secondsRun, secondsRepeated }) {
  const errors = [...new Set([message, ...late, ...deviceErrors].map((text) => text.trim()))].filter(Boolean);
  const again = secondsRepeated.map((time) => `, ${time.toFixed(4)} s`);
  const seconds = `create ${secondsCreate.toFixed(3)} s, run ${secondsRun.toFixed(3)} s${again.join('')}`;
  return { outputs, errors, console, seconds, repeated: secondsRepeated };
}
