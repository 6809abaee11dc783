// Words for whatever a runtime throws.

const WORDS = 32; // of 4 bytes that are looked at in an exception object; onnxruntime's own has about 20
const LONGEST = 4096; // bytes of a text that are read
const SHORTEST = 8; // of a text that is one, and no chance
const TYPE = -20; // bytes from an exception object to the address of its type (Emscripten's ExceptionInfo)
const NAME = 4; // bytes from a type to the address of its name (Itanium C++ ABI)

/**
 * @param {unknown} error
 * @param {Iterable<WebAssembly.Memory>} memories of the runtime that threw it
 * @returns {string}
 */
export function errorText(error, memories = []) {
  if (typeof error === 'number') {
    const text = exceptionText(error, memories);
    if (text) return `C++ exception: ${text}`;
    const name = exceptionClass(error, memories);
    return `C++ exception${name && ` of class ${name}`} without a text`;
  }
  if (!(error instanceof Error)) return String(error);
  return error.name === 'Error' ? error.message : `${error.name}: ${error.message}`;
}

/**
 * What a C++ exception says. Builds without exception support in JavaScript throw its address. Its class is not known,
 * but onnxruntime's keep their words in strings that the object points to, and the longest of them is the message.
 * @param {number} address
 * @param {Iterable<WebAssembly.Memory>} memories
 */
function exceptionText(address, memories) {
  let longest = '';
  for (const { buffer } of memories) {
    const bytes = new Uint8Array(buffer);
    const view = new DataView(buffer);
    for (let i = 0; i < WORDS && address + 4 * i + 4 <= bytes.length; i++) {
      const text = textAt(bytes, view.getUint32(address + 4 * i, true));
      if (text.length > longest.length) longest = text;
    }
  }
  return longest;
}

/**
 * The mangled name of an exception's class, such as St9bad_alloc, which has no text of its own; nothing if not found.
 * @param {number} address
 * @param {Iterable<WebAssembly.Memory>} memories
 */
function exceptionClass(address, memories) {
  for (const { buffer } of memories) {
    const view = new DataView(buffer);
    const at = (place) => (place >= 0 && place + 4 <= buffer.byteLength ? view.getUint32(place, true) : 0);
    const name = textAt(new Uint8Array(buffer), at(at(address + TYPE) + NAME));
    if (/^\w+$/.test(name)) return name;
  }
  return '';
}

/**
 * The printable text that ends with a zero byte at a place, or nothing.
 * @param {Uint8Array} bytes
 * @param {number} start
 */
function textAt(bytes, start) {
  let end = start;
  while (end < bytes.length && end - start < LONGEST && isPrintable(bytes[end])) end++;
  if (end - start < SHORTEST || (bytes[end] !== 0 && end - start < LONGEST)) return '';
  return new TextDecoder().decode(bytes.slice(start, end)); // a copy: the memory may be a shared one
}

const isPrintable = (byte) => byte >= 0x20 || byte === 0x09 || byte === 0x0a;
