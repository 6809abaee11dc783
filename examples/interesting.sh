#!/bin/sh
# An oracle as a command: exit 0 when the fault shows, 1 when not, 125 when it cannot be told.
#     onnxreduce model.onnx --oracle 'command: examples/interesting.sh {model} {inputs}'
# This one asks whether Python onnxruntime gives other results with its graph optimizations than without.
python3 - "$1" "$2" <<'PYTHON'
import pathlib, sys
try:
    import numpy as np, onnx, onnxruntime as ort
except ImportError:
    sys.exit(125)

model, folder = sys.argv[1:]
feeds = {}
for path in pathlib.Path(folder).glob("input_*.pb"):
    tensor = onnx.load_tensor(str(path))
    feeds[tensor.name] = onnx.numpy_helper.to_array(tensor)

def run(level):
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, feeds)

try:
    plain = run(ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
    fast = run(ort.GraphOptimizationLevel.ORT_ENABLE_ALL)
except Exception:
    sys.exit(125)
sys.exit(all(np.allclose(a, b, rtol=1e-3, atol=1e-3) for a, b in zip(plain, fast)))
PYTHON
