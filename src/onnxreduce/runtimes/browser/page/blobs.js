/** Fetched bytes by digest, the most recently used kept up to a limit. */
export class BlobCache {
  /**
   * @param {URL} root address below which a blob is found by its digest
   * @param {number} limit bytes to keep at most
   */
  constructor(root, limit) {
    this.root = root;
    this.limit = limit;
    this.held = 0;
    /** @type {Map<string, ArrayBuffer>} in order of last use */
    this.entries = new Map();
  }

  /**
   * The bytes of a blob, from memory where possible. They are shared: nobody may write to them.
   * @param {string} digest
   * @returns {Promise<ArrayBuffer>}
   */
  async get(digest) {
    const known = this.entries.get(digest);
    if (known) {
      this.entries.delete(digest);
      this.entries.set(digest, known);
      return known;
    }
    const bytes = await this.fetch(digest);
    if (bytes.byteLength <= this.limit && !this.entries.has(digest)) {
      this.entries.set(digest, bytes);
      this.held += bytes.byteLength;
      this.trim();
    }
    return bytes;
  }

  /**
   * The bytes of a blob that will not be asked for again.
   * @param {string} digest
   * @returns {Promise<ArrayBuffer>}
   */
  async fetch(digest) {
    const response = await fetch(new URL(digest, this.root));
    if (!response.ok) throw new Error(`blob ${digest} was refused with status ${response.status}`);
    return response.arrayBuffer();
  }

  trim() {
    for (const [digest, bytes] of this.entries) {
      if (this.held <= this.limit) break;
      this.entries.delete(digest);
      this.held -= bytes.byteLength;
    }
  }
}
