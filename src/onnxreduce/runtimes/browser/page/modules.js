/** Compiled WebAssembly modules by address: compiling takes seconds, so the host page does it once for all frames. */
export class ModuleCache {
  constructor() {
    /** @type {Map<string, Promise<WebAssembly.Module>>} */
    this.entries = new Map();
  }

  /**
   * @param {string} address
   * @returns {Promise<WebAssembly.Module>}
   */
  compile(address) {
    let module = this.entries.get(address);
    if (!module) {
      module = WebAssembly.compileStreaming(fetch(address));
      this.entries.set(address, module);
      module.catch(() => this.entries.delete(address));
    }
    return module;
  }
}

/**
 * Make this frame's runtime use shared modules: where it fetches and instantiates a `.wasm` file it gets the module
 * that the host page has compiled already.
 * @param {ModuleCache} cache
 * @returns {{files: string[], memories: Set<WebAssembly.Memory>, refused: boolean}} names of the files used, their
 *     memories, and whether the last of these that was to grow could not
 */
export function shareModules(cache) {
  const shared = { files: [], memories: new Set(), refused: false };
  /** @type {WeakMap<Response, string>} */
  const addresses = new WeakMap();
  const realFetch = globalThis.fetch.bind(globalThis);
  const realStreaming = WebAssembly.instantiateStreaming;
  const realInstantiate = WebAssembly.instantiate;
  const realGrow = WebAssembly.Memory.prototype.grow;

  globalThis.fetch = async (input, init) => {
    const address = new URL(input instanceof Request ? input.url : input, location.href);
    if (!address.pathname.endsWith('.wasm')) return realFetch(input, init);
    const standIn = new Response(null, { headers: { 'Content-Type': 'application/wasm' } });
    standIn.arrayBuffer = async () => (await realFetch(input, init)).arrayBuffer();
    addresses.set(standIn, address.href);
    shared.files.push(address.pathname.split('/').pop());
    return standIn;
  };

  WebAssembly.instantiateStreaming = async (source, imports) => {
    const address = addresses.get(await source);
    if (address === undefined) return realStreaming.call(WebAssembly, source, imports);
    const module = await cache.compile(address);
    return { module, instance: await WebAssembly.instantiate(module, imports) };
  };

  WebAssembly.instantiate = async (source, imports) => {
    const result = await realInstantiate.call(WebAssembly, source, imports);
    const { exports } = result.instance ?? result;
    for (const group of [exports, ...Object.values(imports ?? {})]) {
      for (const value of Object.values(group)) if (value instanceof WebAssembly.Memory) shared.memories.add(value);
    }
    return result;
  };

  WebAssembly.Memory.prototype.grow = function grow(pages) {
    shared.refused = true; // if it throws: Emscripten asks for less, or gives a null pointer that a kernel may just use
    const before = realGrow.call(this, pages);
    shared.refused = false;
    return before;
  };

  return shared;
}
