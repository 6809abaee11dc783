'use strict';

// In the form of onnxruntime's js/web/test/e2e/browser-test-*.js: put it there with reduced.onnx.
//@@REMARKS@@
const CASE = __CASE__;

const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  int8: Int8Array,
  int16: Int16Array,
  int32: Int32Array,
  int64: BigInt64Array,
  uint8: Uint8Array,
  uint16: Uint16Array,
  uint32: Uint32Array,
  uint64: BigUint64Array,
  bool: Uint8Array,
};

function content({ type, data }) {
  if (type === 'string') return data;
  return ARRAYS[type].from(data, type.endsWith('int64') ? BigInt : Number);
}

function near(actual, expected, allowed) {
  if (Object.is(actual, expected) || actual === expected) return true;
  if (typeof actual !== 'number' || !Number.isFinite(actual)) return false;
  return Math.abs(actual - expected) <= allowed;
}

it(`Browser E2E testing - ${CASE.name}`, async function () {
  const session = await ort.InferenceSession.create('./reduced.onnx', CASE.options);
  const feeds = CASE.inputs.map((input) => [input.name, new ort.Tensor(input.type, content(input), input.dims)]);
  const results = await session.run(Object.fromEntries(feeds));
  for (const output of CASE.outputs) {
    const actual = results[output.name];
    assert(actual.type === output.type);
    assert(String(actual.dims) === String(output.dims));
    const values = await actual.getData();
    content(output).forEach((expected, i) => {
      if (near(values[i], expected, output.allowed[i] ?? output.allowed[0])) return;
      throw new Error(`${output.name}: element ${i} is ${values[i]} instead of ${expected}`);
    });
  }
});
