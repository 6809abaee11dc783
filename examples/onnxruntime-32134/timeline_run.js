// In the page: run a model once. Gives the first element of each output.
async ({ model, bundle, feeds }) => {
  const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const arrays = { float32: Float32Array, int64: BigInt64Array, int32: Int32Array, bool: Uint8Array };
  const ort = await import(bundle);
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = 'verbose';
  ort.env.debug = true;
  console.log('## create');
  const session = await ort.InferenceSession.create(bytesOf(model), { executionProviders: ['webgpu'] });
  const inputs = {};
  for (const { name, type, dims, data } of feeds) {
    inputs[name] = new ort.Tensor(type, new arrays[type](bytesOf(data).buffer), dims);
  }
  console.log('## run');
  const results = await session.run(inputs);
  console.log('## end');
  const first = {};
  for (const name of session.outputNames) first[name] = Number((await results[name].getData())[0]);
  return first;
};
