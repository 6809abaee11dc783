"""An oracle as a Python function.

    onnxreduce model.onnx --oracle examples/python_oracle.py:optimizations_differ

It gets the model and its inputs, and returns True when the fault shows, False when not, None when it cannot be told, or
a text: the fault shows, and this is its message.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnxruntime as ort


def optimizations_differ(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> bool | None:
    """Whether Python onnxruntime gives other results with its graph optimizations than without."""
    results = []
    for level in (ort.GraphOptimizationLevel.ORT_DISABLE_ALL, ort.GraphOptimizationLevel.ORT_ENABLE_ALL):
        options = ort.SessionOptions()
        options.graph_optimization_level = level
        options.log_severity_level = 4
        try:
            session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            results.append(session.run(None, dict(inputs)))
        except Exception:
            return None
    return not all(np.allclose(a, b, rtol=1e-3, atol=1e-3) for a, b in zip(*results, strict=True))
