// The worker behind the page: the tool's own frame code (runtimes/browser/page) with one instance of onnxruntime-web,
// for one run. Two bundles never meet in one worker, and a run that never ends is ended with its worker.

import { adapterFacts } from './devices.js';
import { run, start } from './frame.js';

/**
 * @typedef {object} Order What a worker is asked.
 * @property {string} bundle source of the bundle
 * @property {string | null} glue source of the WebAssembly glue, where the bundle does not hold it
 * @property {string} wasm name of the WebAssembly file
 * @property {WebAssembly.Module} module that file, compiled
 * @property {object} provider
 * @property {object} session its options
 * @property {Uint8Array} anchor a model that shows that the provider starts
 * @property {Uint8Array} model
 * @property {import('./values.js').RawTensor[]} feeds
 * @property {string[]} outputs
 * @property {{runs: number, repeats?: number, repeatSeconds?: number}} repeats how often it runs, and is timed again
 */

onmessage = async ({ data }) => {
  try {
    await obey(data);
  } catch (error) {
    postMessage({ setupError: String(error) });
  }
};

/** @param {Order} order */
async function obey(order) {
  // Chrome lets a file:// page's worker import only what the worker itself has made an address for. The name of the
  // WebAssembly file goes into an address that is never asked: the frame code has the compiled module for it.
  const wasmPaths = { wasm: `https://onnxruntime-web.invalid/${order.wasm}` };
  if (order.glue !== null) wasmPaths.mjs = addressOf(order.glue);
  const config = { bundle: addressOf(order.bundle), provider: order.provider, threads: 1, wasmPaths };
  const facts = await start(config, order.anchor, { compile: async () => order.module });
  if (facts.error) {
    postMessage({ setupError: [facts.error, ...facts.console].join('\n') });
    return;
  }
  postMessage({ started: facts, adapter: order.provider.name === 'webgpu' ? await adapterFacts() : null });
  const job = { feeds: order.feeds, outputs: order.outputs, external: [], options: order.session, ...order.repeats };
  const feeds = order.feeds.map(({ bytes }) => bytes.slice().buffer);
  const { report, buffers } = await run(job, { model: order.model, feeds, external: [] });
  const outputs = report.outputs.map(({ name, type, dims }, i) => ({ name, type, dims, bytes: buffers[i].slice() }));
  postMessage({ report: { ...report, outputs } });
}

/** @param {string} source of a module */
function addressOf(source) {
  return URL.createObjectURL(new Blob([source], { type: 'text/javascript' }));
}
