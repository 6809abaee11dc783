'use strict';

// In the form of onnxruntime's js/web/test/e2e/browser-test-*.js (mocha's `it`, a global `assert` and `ort`).
//
//   u (int64) ─► Cast ─► f ─► Neg ─► D          on the CPU up to f, which is uploaded into the buffer that x1 had
//   pw ─► Neg ─► x1 ─► ... ─► Neg ─► ad         on the GPU: n nodes, dispatched before the upload
//
// 2 nodes: x1 and its reader wait in the pending encoder, and D must not see x1.
// 17 nodes: 16 dispatches are submitted, the last reader of the shared buffer waits, and ad must not see f.
const MODELS = {
  2: 'CAc6jQEKFwoBdRIBZiIEQ2FzdCoJCgJ0bxgBoAECCgsKAWYSAUQiA05lZwoNCgJwdxICeDEiA05lZwoNCgJ4MRICYWQiA05lZxIBZ1oPCgF1EgoKCAgHEgQKAggBWhAKAnB3EgoKCAgBEgQKAggBYg8KAUQSCgoICAESBAoCCAFiEAoCYWQSCgoICAESBAoCCAFCBAoAEA0=',
  17: 'CAc6/AIKFwoBdRIBZiIEQ2FzdCoJCgJ0bxgBoAECCgsKAWYSAUQiA05lZwoNCgJwdxICeDEiA05lZwoNCgJ4MRICeDIiA05lZwoNCgJ4MhICeDMiA05lZwoNCgJ4MxICeDQiA05lZwoNCgJ4NBICeDUiA05lZwoNCgJ4NRICeDYiA05lZwoNCgJ4NhICeDciA05lZwoNCgJ4NxICeDgiA05lZwoNCgJ4OBICeDkiA05lZwoOCgJ4ORIDeDEwIgNOZWcKDwoDeDEwEgN4MTEiA05lZwoPCgN4MTESA3gxMiIDTmVnCg8KA3gxMhIDeDEzIgNOZWcKDwoDeDEzEgN4MTQiA05lZwoPCgN4MTQSA3gxNSIDTmVnCg8KA3gxNRIDeDE2IgNOZWcKDgoDeDE2EgJhZCIDTmVnEgFnWg8KAXUSCgoICAcSBAoCCAFaEAoCcHcSCgoICAESBAoCCAFiDwoBRBIKCggIARIECgIIAWIQCgJhZBIKCggIARIECgIIAUIECgAQDQ==',
};

for (const [count, model] of Object.entries(MODELS)) {
  it(`Browser E2E testing - WebGPU backend: uploads stay in order behind ${count} dispatches`, async function () {
    const bytes = Uint8Array.from(atob(model), (letter) => letter.charCodeAt(0));
    const session = await ort.InferenceSession.create(bytes, { executionProviders: ['webgpu'] });
    const results = await session.run({
      u: new ort.Tensor('int64', [7n], [1]),
      pw: new ort.Tensor('float32', [2], [1]),
    });
    const expected = { D: -7, ad: count % 2 ? -2 : 2 };
    for (const [name, value] of Object.entries(expected)) {
      const actual = results[name].data[0];
      assert(actual === value, `${name} is ${actual} instead of ${value}`);
    }
    await session.release();
  });
}
