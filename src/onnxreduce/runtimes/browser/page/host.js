// The host page: it outlives the runtimes. It owns the frames (one instance of onnxruntime-web each), keeps what they
// share (compiled WebAssembly modules and fetched tensors), and runs one job at a time, since a runtime that is asked
// to do two things at once breaks.

import { fromBase64, toBase64 } from './base64.js';
import { BlobCache } from './blobs.js';
import { ModuleCache } from './modules.js';
import { adapterFacts } from './devices.js';

// A quarter of the machine's memory, as far as the browser tells (GiB, rounded), and 2 GiB at most: with them a model's
// weights travel once. What does not fit is fetched again for each run.
const BLOB_CACHE_BYTES = Math.min(2 ** 31, (navigator.deviceMemory ?? 4) * 2 ** 28);

const root = new URL('..', location.href);
const blobs = new BlobCache(new URL('blob/', root), BLOB_CACHE_BYTES);
const modules = new ModuleCache();

/** @type {Map<string, {element: HTMLIFrameElement, api: import('./frame.js').FrameApi}>} */
const frames = new Map();

/**
 * @typedef {object} FrameConfig What a new frame is to hold.
 * @property {string} frame its name
 * @property {string} bundle address of the bundle to import
 * @property {{name: string}} provider the one execution provider, with its options
 * @property {number} threads
 * @property {{wasm: string, mjs?: string}} [wasmPaths] where the bundle cannot find its own files
 * @property {string} anchor digest of a one-node model to try the provider with
 */

/**
 * @typedef {object} Job One model to run; blobs are named by their digest.
 * @property {string} id
 * @property {string} frame
 * @property {string} model
 * @property {{name: string, type: string, dims: number[], digest: string}[]} feeds
 * @property {string[]} outputs
 * @property {{path: string, digest: string}[]} external
 * @property {Record<string, string>} small blobs that came along, in base64 by digest: a request each would cost more
 * @property {number} smallBytes size up to which a result goes back the same way
 * @property {object} options session options
 * @property {number} runs how often the session runs; the last one's outputs count
 * @property {number} repeats further runs, to be timed
 * @property {number} repeatSeconds after which no further run begins
 */

/**
 * Make a frame and start its runtime.
 * @param {FrameConfig} config
 * @returns {Promise<object>} facts about the runtime, or `{error}`
 */
async function startFrame(config) {
  const element = document.createElement('iframe');
  const loaded = new Promise((resolve) => element.addEventListener('load', resolve, { once: true }));
  element.src = 'frame.html';
  document.body.append(element);
  await loaded;
  const api = element.contentWindow.onnxreduceFrame;
  frames.set(config.frame, { element, api });
  const facts = await api.start(config, await blobs.fetch(config.anchor), modules);
  if (facts.error) dropFrame(config.frame);
  return facts;
}

/**
 * Take a frame away with all that it holds.
 * @param {string} name
 */
function dropFrame(name) {
  const frame = frames.get(name);
  if (!frame) return;
  frames.delete(name);
  frame.api.stop();
  frame.element.remove();
}

/**
 * Fetch a job's tensors ahead of its run, so that their transfer is not on the run's clock.
 * @param {Job} job
 */
async function prepare(job) {
  for (const { digest } of [...job.feeds, ...job.external]) await blobs.get(digest);
}

/**
 * Run a job and post what it gave.
 * @param {Job} job
 * @returns {Promise<string | null>} a small result at once, in base64; null for one that was posted
 */
async function run(job) {
  const small = new Map(Object.entries(job.small).map(([digest, text]) => [digest, fromBase64(text)]));
  const get = (digest) => small.get(digest) ?? blobs.get(digest);
  const [model, feeds, external] = await Promise.all([
    small.get(job.model) ?? blobs.fetch(job.model),
    Promise.all(job.feeds.map((feed) => get(feed.digest))),
    Promise.all(job.external.map((file) => get(file.digest))),
  ]);
  const { report, buffers } = await frames.get(job.frame).api.run(job, { model, feeds, external });
  const parts = pack(report, buffers);
  const size = parts.reduce((sum, part) => sum + part.byteLength, 0);
  if (size <= job.smallBytes) return toBase64(parts);
  const response = await fetch(new URL(`result/${job.id}`, root), { method: 'POST', body: new Blob(parts) });
  if (!response.ok) throw new Error(`the result was refused with status ${response.status}`);
  return null;
}

/**
 * One body for a report and its buffers: the length of the header (32 bits, little-endian), the header as JSON padded
 * with spaces to a multiple of 8 bytes less 4, then each buffer padded with zeros to a multiple of 8 bytes.
 * @param {object} report
 * @param {Uint8Array[]} buffers
 * @returns {Uint8Array[]} the body in parts
 */
function pack(report, buffers) {
  const text = new TextEncoder().encode(JSON.stringify(report));
  const header = new Uint8Array(Math.ceil((text.length + 4) / 8) * 8).fill(0x20);
  new DataView(header.buffer).setUint32(0, header.length - 4, true);
  header.set(text, 4);
  const parts = [header];
  for (const buffer of buffers) parts.push(buffer, new Uint8Array(-buffer.byteLength & 7));
  return parts;
}

window.onnxreduce = { adapterFacts, startFrame, dropFrame, prepare, run };
