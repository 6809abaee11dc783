// In the page: run the smallest model once. Gives what came out.
async ({ model, bundle }) => {
  const ort = await import(bundle);
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = 'verbose';
  ort.env.debug = true;
  const bytes = Uint8Array.from(atob(model), (letter) => letter.charCodeAt(0));
  console.log('## create');
  const session = await ort.InferenceSession.create(bytes, { executionProviders: ['webgpu'] });
  console.log('## run');
  const results = await session.run({
    u: new ort.Tensor('int64', new BigInt64Array([1n]), [1]),
    pw: new ort.Tensor('float32', new Float32Array([1]), [1]),
  });
  const [D, ad] = [await results.D.getData(), await results.ad.getData()];
  console.log(`## D = ${D[0]} (right: -1), ad = ${ad[0]} (right: 1)`);
};
