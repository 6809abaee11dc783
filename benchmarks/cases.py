"""The cases of the quality table, each with its oracle and its budgets: counts, never seconds.

The first group is built by `examples/`; the others are read from a folder of real cases, where there is one.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

ROOT = Path(__file__).resolve().parents[1]
CASES = ROOT.parent / "shared" / "cases"
NATIVE = ("ort-web@1.30.0/webgpu?bundle=webgpu", "ort-web@1.30.0/wasm?bundle=webgpu")
JSEP_1_30 = ("ort-web@1.30.0/webgpu", "ort-web@1.30.0/wasm")
NATIVE_1_27 = ("ort-web@1.27.0/webgpu?bundle=webgpu", "ort-web@1.27.0/wasm?bundle=webgpu")
LEVELS = ("ort/cpu", "ort/cpu?level=disabled")
BASIC_1_25 = ("ort@1.25.1/cpu?level=basic", "ort@1.25.1/cpu?level=disabled")
BASIC_1_24 = ("ort@1.24.1/cpu?level=basic", "ort@1.24.1/cpu?level=disabled")
WEB_LEVELS = ("ort-web@1.27.0/wasm?level=all", "ort-web@1.27.0/wasm?level=disabled")
ARBITER = ("ort@1.25.1/cpu", "onnx-reference")
NUMERIC, SHAPE = "numeric mismatch", "wrong shape"
CREATE, RUN, SHADER = "error at create", "error at run", "shader error"


@dataclass(frozen=True)
class Case:
    """At most this much in the end: nodes, elements of inputs and initializers, script lines, and oracle calls.

    `targets` are suspect and reference; None is the oracle `webgpu-vs-wasm` as it is shipped. `deletion` bounds the
    calls up to the end of node deletion, `equivalents` the full-model equivalents of that part. `fault`: the class that
    the original shows, and every accepted step after it.
    """

    name: str
    nodes: int
    elements: int | None = None
    lines: int | None = None
    deletion: int = 60
    calls: int = 300
    equivalents: float | None = None
    targets: tuple[str, str] | None = None
    fault: str = NUMERIC


BUILT = (
    Case("founding/synth_depth3", 4, 16, 30, deletion=30),
    Case("founding/synth_depth4", 4, 16, 30, deletion=30),
    Case("founding/synth_depth5", 4, 16, 30, deletion=30),
    Case("demo", 4, 16, 30, equivalents=3.0),
)
SHARED = (
    Case("smolvla/smolvla", 4, 16, 30, equivalents=3.0),
    Case("smolvla/smolvla_prefill", 4, 16, 30, equivalents=3.0),
    Case("web/race_int64_mul", 4, 16, 30, deletion=30),
    Case("web/race_topk", 4, 16, 30, deletion=30),
    Case("web/dequantize_uint8", 1),
    Case("web/concat_nine_inputs", 1, fault=SHADER),
    Case("web/maxpool_ceil_error", 1, fault=RUN),
    Case("web/resize_wrong_shape", 1, fault=SHAPE),
    Case("web/conv_129_channels", 1, targets=NATIVE),
    Case("real/silero_vad_openvino_16k", 3, calls=800),
    Case("real/rawi_int8", 1),
    Case("real/slovorez", 1, fault=SHADER),
    Case("real/silero_vad_16k_sequence", 1, targets=NATIVE),
    Case("ops/conv_6_channels", 1, targets=NATIVE),
    Case("ops/conv_6_channels_hosted", 1, targets=NATIVE),
    Case("ops/gathernd_rank5", 1, targets=JSEP_1_30, fault=SHADER),
    Case("ops/gathernd_rank5_hosted", 1, targets=JSEP_1_30, fault=SHADER),
    Case("ops/layernorm_keepdims0", 8, targets=LEVELS),
    Case("ops/layernorm_keepdims0_hosted", 8, targets=LEVELS),
    Case("ops/gemm_identity_transpose_square_hosted", 3, targets=BASIC_1_25),
    Case("ops/gemm_identity_transpose_rect_hosted", 3, targets=BASIC_1_25, fault=RUN),
)
MORE = (
    Case("ops/gemm_identity_transpose_square", 3, targets=BASIC_1_25),
    Case("ops/gemm_identity_transpose_rect", 3, targets=BASIC_1_25, fault=RUN),
    Case("ops/gemm_identity_transpose_square_hosted", 3, targets=WEB_LEVELS),
    Case("ops/gemm_identity_transpose_rect_hosted", 3, targets=WEB_LEVELS, fault=CREATE),
    Case("ops/cast_float_int_bool", 2, targets=ARBITER),
    Case("ops/cast_float_int_bool_hosted", 2, targets=ARBITER),
    Case("ops/pad_averagepool_opset20", 2, targets=BASIC_1_24),
    Case("ops/pad_averagepool_opset20_hosted", 2, targets=BASIC_1_24),
    Case("real/silero_vad_openvino_16k", 4, targets=NATIVE_1_27),
)
"""These are in the table alone: they say what others say too, or take long."""


def built(folder: Path, name: str) -> Path:
    """Build one of `BUILT` into a folder, with its inputs beside it."""
    sys.path.insert(0, str(ROOT / "examples"))
    import founding_models
    import smolvla_model

    model: onnx.ModelProto
    inputs: dict[str, np.ndarray]
    if name == "demo":
        model, inputs = smolvla_model.build()
    else:
        model = founding_models.build(int(name[-1]))
        inputs = founding_models.inputs(model)
    path = folder / f"{name.rpartition('/')[2]}.onnx"
    onnx.save(model, path)
    np.savez(path.with_suffix(".npz"), **inputs)
    return path
