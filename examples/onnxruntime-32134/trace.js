// In the page: run the smallest model once, and say what is recorded, uploaded and submitted, in order.
async ({ model, bundle }) => {
  const ort = await import(bundle);
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = 'verbose';
  ort.env.debug = true;
  const say = (prototype, method, text) => {
    const real = prototype[method];
    prototype[method] = function told(...given) {
      console.log(`## ${text(...given)}`);
      return real.apply(this, given);
    };
  };
  const storage = GPUBufferUsage.STORAGE;
  const kind = (buffer) => (buffer.usage & storage ? 'storage' : 'uniform');
  say(GPUQueue.prototype, 'submit', () => 'queue.submit: what was recorded runs now');
  say(GPUQueue.prototype, 'writeBuffer', (buffer) => `queue.writeBuffer into a ${kind(buffer)} buffer: at once`);
  say(GPUComputePassEncoder.prototype, 'dispatchWorkgroups', () => 'dispatch recorded in the pending encoder');
  const bytes = Uint8Array.from(atob(model), (letter) => letter.charCodeAt(0));
  const session = await ort.InferenceSession.create(bytes, { executionProviders: ['webgpu'] });
  console.log('## run');
  const results = await session.run({
    u: new ort.Tensor('int64', new BigInt64Array([1n]), [1]),
    pw: new ort.Tensor('float32', new Float32Array([1]), [1]),
  });
  const [D, ad] = [await results.D.getData(), await results.ad.getData()];
  console.log(`## D = ${D[0]} (right: -1), ad = ${ad[0]} (right: 1)`);
};
