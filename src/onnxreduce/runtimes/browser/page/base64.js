/**
 * @param {string} text
 * @returns {ArrayBuffer}
 */
export function fromBase64(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;
}

/**
 * @param {Uint8Array[]} parts
 * @returns {string} all of them, one after the other
 */
export function toBase64(parts) {
  let letters = '';
  for (const part of parts) for (const byte of part) letters += String.fromCharCode(byte);
  return btoa(letters);
}
