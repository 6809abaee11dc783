// One run of the model on one side, in a worker of its own that does not outlive it.

/**
 * @typedef {object} Run
 * @property {string} status ok, create error, run error, shader error, hang, lost device or dead process
 * @property {import('./values.js').RawTensor[]} outputs
 * @property {string[]} errors in full text
 * @property {string[]} console what the runtime said there
 * @property {string} version of onnxruntime-web
 * @property {string} files bundle and WebAssembly file
 * @property {object | null} adapter
 */

import { SetupError, loadBundle } from './packages.js';

/** Runs of the page. One at a time: a runtime that is asked to do two things at once breaks. */
export class Runner {
  /**
   * @param {string} workerSource
   * @param {{anchor: Uint8Array, model: Uint8Array, feeds: object[], outputs: string[]}} data
   */
  constructor(workerSource, data) {
    this.address = URL.createObjectURL(new Blob([workerSource], { type: 'text/javascript' }));
    this.data = data;
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
    const order = { ...loaded, ...this.data, provider: side.provider, session: side.session };
    const worker = new Worker(this.address);
    let clock;
    const run = { status: 'ok', outputs: [], errors: [], console: [], version: '', files: '', adapter: null };
    run.files = `${loaded.name}, ${loaded.wasm}`;
    try {
      return await new Promise((resolve, reject) => {
        const end = (status, ...errors) => resolve({ ...run, status, errors });
        clock = setTimeout(() => end('hang', `no answer within ${limit} s`), limit * 1000);
        signal.addEventListener('abort', () => reject(signal.reason));
        worker.onerror = (event) => {
          event.preventDefault();
          end('dead process', event.message ?? 'the worker went away');
        };
        worker.onmessage = ({ data }) => {
          if (data.setupError) reject(new SetupError(startFailure(loaded.name, side.provider.name, data.setupError)));
          if (data.started) Object.assign(run, { version: data.started.versions.web ?? '', adapter: data.adapter });
          if (data.report) resolve({ ...run, ...told(data.report) });
        };
        worker.postMessage(order);
      });
    } finally {
      clearTimeout(clock);
      worker.terminate();
    }
  }
}

const startFailure = (bundle, provider, text) => `${bundle} does not start with provider ${provider}: ${text}`;

/** What a report tells: the errors once each, and what the console has beside them. */
function told({ status, outputs, message, late, deviceErrors, console }) {
  const errors = [...new Set([message, ...late, ...deviceErrors].map((text) => text.trim()))].filter(Boolean);
  return { status, outputs, errors, console };
}
