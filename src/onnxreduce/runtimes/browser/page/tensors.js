// Tensors between raw bytes in ONNX's layout (little-endian, 4-bit types packed, strings as a JSON list) and
// onnxruntime-web's own.

const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  int8: Int8Array,
  uint8: Uint8Array,
  int16: Int16Array,
  uint16: Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  bool: Uint8Array,
  int4: Int8Array,
  uint4: Uint8Array,
};

/**
 * @param {object} ort the runtime
 * @param {string} type its name of the element type
 * @param {number[]} dims
 * @param {ArrayBuffer} bytes
 */
export function toTensor(ort, type, dims, bytes) {
  if (type === 'string') return new ort.Tensor('string', JSON.parse(new TextDecoder().decode(bytes)), dims);
  if (type === 'float16') {
    // Versions differ in what they take: newer ones want Float16Array where the browser has it, and wrap the other.
    try {
      return new ort.Tensor('float16', new Uint16Array(bytes), dims);
    } catch (error) {
      if (typeof Float16Array === 'undefined') throw error;
      return new ort.Tensor('float16', new Float16Array(bytes), dims);
    }
  }
  const array = ARRAYS[type];
  if (!array) throw new TypeError(`no tensor type ${type}`);
  return new ort.Tensor(type, new array(bytes), dims);
}

/**
 * The same on the runtime's own device, which graph capture asks for: it replays commands on the buffers that it saw.
 * @returns {Promise<object>}
 */
export async function onDevice(ort, type, dims, bytes) {
  const device = await ort.env.webgpu.device;
  const { COPY_DST, COPY_SRC, STORAGE } = GPUBufferUsage;
  const size = Math.ceil(Math.max(bytes.byteLength, 1) / 16) * 16;
  const buffer = device.createBuffer({ size, usage: COPY_DST | COPY_SRC | STORAGE, mappedAtCreation: true });
  new Uint8Array(buffer.getMappedRange()).set(new Uint8Array(bytes));
  buffer.unmap();
  return ort.Tensor.fromGpuBuffer(buffer, { dataType: type, dims });
}

/**
 * @param {object} tensor a tensor of the runtime, wherever it lies
 * @returns {Promise<{type: string, dims: number[], bytes: Uint8Array}>}
 */
export async function fromTensor(tensor) {
  const data = await tensor.getData();
  const bytes =
    tensor.type === 'string'
      ? new TextEncoder().encode(JSON.stringify(data))
      : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return { type: tensor.type, dims: [...tensor.dims], bytes };
}
