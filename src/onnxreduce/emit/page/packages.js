// Where the files of onnxruntime-web come from: an address below which they are served, or a folder of the reader's.

/** Files by word, as in runtimes/browser/ort_web.py. A local build may have the plain module only. */
export const BUNDLES = {
  default: ['ort.bundle.min.mjs', 'ort.min.mjs', 'ort.mjs'],
  all: ['ort.all.bundle.min.mjs', 'ort.all.min.mjs', 'ort.all.mjs'],
  webgpu: ['ort.webgpu.bundle.min.mjs', 'ort.webgpu.min.mjs', 'ort.webgpu.mjs'],
  jspi: ['ort.jspi.bundle.min.mjs', 'ort.jspi.min.mjs', 'ort.jspi.mjs'],
  wasm: ['ort.wasm.bundle.min.mjs', 'ort.wasm.min.mjs', 'ort.wasm.mjs'],
};
const GLUE = /ort-wasm[\w.-]*\.mjs/;

/**
 * @typedef {object} Bundle
 * @property {string} name
 * @property {string} bundle its source
 * @property {string | null} glue source of the WebAssembly glue, where the bundle does not hold it
 * @property {string} wasm name of the WebAssembly file
 * @property {WebAssembly.Module} module that file, compiled
 */

/** A problem with the package or the settings, told in words that say what to do. */
export class SetupError extends Error {}

/** Files below an address: the dist folder, or the package's folder with dist in it. */
export class ServedPackage {
  /** @param {string} address relative ones count from the page */
  constructor(address) {
    let base;
    try {
      base = new URL(address.endsWith('/') ? address : `${address}/`, document.baseURI);
    } catch {
      throw new SetupError(`${address} is no address`);
    }
    if (!/^https?:$/.test(base.protocol)) {
      throw new SetupError(`a page cannot read from ${base.protocol}// addresses: choose the folder instead`);
    }
    this.base = base;
    this.label = base.href;
    /** @type {Map<string, Promise<Bundle>>} */
    this.bundles = new Map();
  }

  /**
   * @param {string} name
   * @returns {Promise<ArrayBuffer | null>} null where there is none
   */
  async read(name) {
    for (const folder of ['', 'dist/']) {
      const bytes = await this.fetch(new URL(folder + name, this.base));
      if (bytes) {
        this.base = new URL(folder, this.base);
        return bytes;
      }
    }
    return null;
  }

  async fetch(address) {
    let response;
    try {
      response = await fetch(address, { credentials: 'omit' });
    } catch (error) {
      throw new SetupError(
        `${address} cannot be fetched (${error.message}). A server on another origin than this page must allow it ` +
          '(CORS): open this page through the same server, or choose the folder instead.',
      );
    }
    if (response.status === 404) return null;
    if (!response.ok) throw new SetupError(`${address} was refused with status ${response.status}`);
    return response.arrayBuffer();
  }
}

/** Files that the reader has chosen: of several with a name the one nearest to the chosen folder. */
export class ChosenPackage {
  /** @param {Iterable<File>} files */
  constructor(files) {
    /** @type {Map<string, File>} */
    this.files = new Map();
    for (const file of files) {
      const known = this.files.get(file.name);
      if (!known || depth(file) < depth(known)) this.files.set(file.name, file);
    }
    this.label = `folder ${[...files][0]?.webkitRelativePath.split('/')[0] ?? ''}`;
    this.bundles = new Map();
  }

  /** @param {string} name */
  async read(name) {
    return (await this.files.get(name)?.arrayBuffer()) ?? null;
  }
}

const depth = (file) => file.webkitRelativePath.split('/').length;

/**
 * What a worker needs of a package for a bundle, fetched and compiled once.
 * @param {ServedPackage | ChosenPackage} source
 * @param {string} word
 * @returns {Promise<Bundle>}
 */
export function loadBundle(source, word) {
  if (!source.bundles.has(word)) {
    const loaded = load(source, word);
    source.bundles.set(word, loaded);
    loaded.catch(() => source.bundles.delete(word));
  }
  return source.bundles.get(word);
}

async function load(source, word) {
  for (const name of BUNDLES[word]) {
    const bytes = await source.read(name);
    if (!bytes) continue;
    const bundle = new TextDecoder().decode(bytes);
    const glueName = GLUE.exec(bundle)?.[0];
    if (!glueName) throw new SetupError(`${name} in ${source.label} is no bundle of onnxruntime-web`);
    const wasm = glueName.replace(/mjs$/, 'wasm');
    // A bundle that holds the glue holds what the glue says: the name of its WebAssembly file.
    const inside = name.includes('.bundle.') && bundle.includes(wasm);
    const glue = inside ? null : new TextDecoder().decode(await needed(source, glueName));
    return { name, bundle, glue, wasm, module: await WebAssembly.compile(await needed(source, wasm)) };
  }
  const file = BUNDLES[word][0];
  throw new SetupError(`${source.label} has no bundle ${word} (${file}): give the dist folder of the package`);
}

async function needed(source, name) {
  const bytes = await source.read(name);
  if (!bytes) throw new SetupError(`${source.label} lacks the file ${name}`);
  return bytes;
}
