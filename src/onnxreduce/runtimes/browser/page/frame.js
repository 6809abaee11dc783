// One frame holds one instance of onnxruntime-web, with its own WebAssembly memory and GPU device, and runs models in
// it one after the other. Whatever it cannot vouch for it reports; who drops the frame is the caller's business.
// The repro page (emit/page) runs this file too, in a worker: nothing here may need a document.

import { ConsoleWatch } from './console.js';
import { DeviceWatch, nextTask } from './devices.js';
import { errorText } from './errors.js';
import { shareModules } from './modules.js';
import { fromTensor, onDevice, toTensor } from './tensors.js';

const LOST_GRACE = 1000; // milliseconds that a run gets to end by itself after its device was lost

const messages = new ConsoleWatch();
const devices = new DeviceWatch();

let ort;
let config;
let wasm;
let anchor;

/**
 * Import the bundle and try its provider with a one-node model, which also sets up the WebAssembly module and the
 * device.
 * @param {import('./host.js').FrameConfig} given
 * @param {ArrayBuffer} anchorModel
 * @param {import('./modules.js').ModuleCache} modules
 */
async function start(given, anchorModel, modules) {
  config = given;
  wasm = shareModules(modules);
  const begun = performance.now();
  try {
    ort = await import(config.bundle);
    ort.env.wasm.numThreads = config.threads;
    ort.env.wasm.proxy = false;
    if (config.wasmPaths) ort.env.wasm.wasmPaths = config.wasmPaths;
    anchor = await ort.InferenceSession.create(new Uint8Array(anchorModel), { executionProviders: [config.provider] });
    // The native provider destroys its device with the last session and would compile every pipeline again.
    if (!keepsAnchor()) await anchor.release();
    await devices.drain();
  } catch (error) {
    return { error: errorText(error, wasm.memories), console: messages.take() };
  }
  return {
    seconds: (performance.now() - begun) / 1000,
    versions: { ...ort.env.versions },
    wasm: [...wasm.files],
    console: messages.take(),
  };
}

const keepsAnchor = () => config.provider.name === 'webgpu' && !wasm.files.some((name) => name.includes('.jsep.'));

/**
 * Run a model once.
 * @param {import('./host.js').Job} job
 * @param {{model: ArrayBuffer, feeds: ArrayBuffer[], external: ArrayBuffer[]}} bytes in the job's order
 * @returns {Promise<{report: object, buffers: Uint8Array[]}>}
 */
async function run(job, bytes) {
  await nextTask();
  // What came after the run before was reported: this frame cannot be trusted.
  const late = devices.take();
  if (devices.lost !== null) late.push(`the device was lost: ${devices.lost}`);
  messages.take();
  const report = { status: 'ok', message: '', late, outputs: [], secondsCreate: 0, secondsRun: 0, secondsRepeated: [] };
  const buffers = [];
  wasm.refused = false;
  if (!late.length) {
    const lost = new Promise((resolve) => {
      devices.onLost = resolve;
    });
    const work = evaluate(job, bytes, report, buffers);
    const loss = lost.then(() => new Promise((resolve) => setTimeout(resolve, LOST_GRACE)));
    await Promise.race([work, loss]);
    if (devices.lost !== null) {
      const words = [`the device was lost: ${devices.lost}`, report.message];
      Object.assign(report, { status: 'lost device', message: words.filter(Boolean).join('\n') });
    }
  }
  report.refusedMemory = wasm.refused;
  report.deviceErrors = devices.take();
  report.console = messages.take();
  report.wasmBytes = [...wasm.memories].reduce((sum, memory) => sum + memory.buffer.byteLength, 0);
  if (report.status === 'ok' && report.deviceErrors.length) report.status = 'shader error';
  return { report, buffers };
}

async function evaluate(job, bytes, report, buffers) {
  let session;
  let begun = performance.now();
  try {
    session = await ort.InferenceSession.create(new Uint8Array(bytes.model), {
      ...job.options,
      executionProviders: [config.provider],
      externalData: job.external.map(({ path }, i) => ({ path, data: new Uint8Array(bytes.external[i]) })),
    });
  } catch (error) {
    fail(report, 'create error', error);
  }
  report.secondsCreate = (performance.now() - begun) / 1000;
  if (session) {
    try {
      const place = job.options.enableGraphCapture ? onDevice : toTensor;
      const feeds = {};
      for (const [i, { name, type, dims }] of job.feeds.entries()) {
        feeds[name] = await place(ort, type, dims, bytes.feeds[i]);
      }
      begun = performance.now();
      let results = await session.run(feeds, job.outputs);
      for (let again = 1; again < job.runs; again++) results = await session.run(feeds, job.outputs);
      for (const name of job.outputs) {
        const { type, dims, bytes: data } = await fromTensor(results[name]);
        report.outputs.push({ name, type, dims, length: data.byteLength });
        buffers.push(data);
      }
      report.secondsRun = (performance.now() - begun) / 1000;
      await runAgain(session, feeds, job, report.secondsRepeated);
    } catch (error) {
      fail(report, 'run error', error);
      report.outputs.length = 0;
      buffers.length = 0;
    }
    report.secondsRun ||= (performance.now() - begun) / 1000;
    try {
      await session.release();
    } catch (error) {
      report.dirty = errorText(error, wasm.memories);
    }
  }
  await devices.drain();
}

/**
 * Time the further runs that a job asks for; none begins once they have taken too long.
 * @param {object} session
 * @param {object} feeds
 * @param {import('./host.js').Job} job
 * @param {number[]} seconds of each, which are added
 */
async function runAgain(session, feeds, job, seconds) {
  let sum = 0;
  while (seconds.length < job.repeats && sum < job.repeatSeconds) {
    const begun = performance.now();
    const results = await session.run(feeds, job.outputs);
    for (const name of job.outputs) await fromTensor(results[name]);
    seconds.push((performance.now() - begun) / 1000);
    sum += seconds.at(-1);
  }
}

function fail(report, status, error) {
  report.status = status;
  report.message = errorText(error, wasm.memories);
  // A trap says that the instance is broken, by this model or by one before it.
  report.trap = error instanceof WebAssembly.RuntimeError || error instanceof RangeError || /Aborted\(/.test(report.message);
}

/** Free what does not go with the frame itself. */
function stop() {
  devices.onLost = () => {};
  devices.destroy();
}

/** @typedef {{start: typeof start, run: typeof run, stop: typeof stop}} FrameApi */
globalThis.onnxreduceFrame = { start, run, stop };
