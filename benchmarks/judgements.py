"""Judge every small and real case under each target that its README row names, and compare with what is said there.

    python benchmarks/judgements.py [--cases FOLDER] [--only WORD ...]

Prints a Markdown table and exits with 1 when a judgement is not the expected one. The cases are not part of this
repository: by default they are looked for in ../shared/cases beside it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnxreduce
from onnxreduce.oracle.verdict import Outcome

CASES = Path(__file__).resolve().parents[2] / "shared" / "cases"
HEAD = ("case", "suspect", "reference", "expected", "got", "seconds")
AGREES = "agrees"
NUMERIC, SHAPE = "numeric mismatch", "wrong shape"
CREATE, RUN, SHADER = "error at create", "error at run", "shader error"


@dataclass(frozen=True)
class Row:
    """One case under one pair of targets; `expected` is the class of the failure, or `agrees`."""

    case: str
    suspect: str
    reference: str
    expected: str


def jsep(version: str) -> tuple[str, str]:
    """WebGPU in JavaScript kernels against WebAssembly."""
    return f"ort-web@{version}/webgpu", f"ort-web@{version}/wasm"


def native(version: str) -> tuple[str, str]:
    """The native WebGPU provider against WebAssembly in its bundle."""
    return f"ort-web@{version}/webgpu?bundle=webgpu", f"ort-web@{version}/wasm?bundle=webgpu"


def levels(version: str, level: str) -> tuple[str, str]:
    """A level of one version of Python onnxruntime against none."""
    return f"ort@{version}/cpu?level={level}", f"ort@{version}/cpu?level=disabled"


def web_levels(version: str) -> tuple[str, str]:
    """The same in the browser."""
    return f"ort-web@{version}/wasm?level=all", f"ort-web@{version}/wasm?level=disabled"


def rows() -> Iterator[Row]:
    """What the READMEs beside the cases say."""
    for hosted in ("", "_hosted"):
        yield from ops(hosted)
    yield from web()
    yield from real()


def ops(hosted: str) -> Iterator[Row]:
    """ops/README.md."""

    def row(name: str, targets: tuple[str, str], expected: str) -> Row:
        return Row(f"ops/{name}{hosted}", *targets, expected)

    for version in ("1.16.3", "1.32.0"):
        for level, expected in (("extended", NUMERIC), ("all", NUMERIC), ("basic", AGREES)):
            yield row("layernorm_keepdims0", levels(version, level), expected)
    for case, expected in (("square", NUMERIC), ("rect", RUN)):
        name = f"gemm_identity_transpose_{case}"
        # Where shape inference sees the wrong shape first, there is no session: in a host, by version, and in browsers.
        early = CREATE if case == "rect" else expected
        yield row(name, levels("1.16.3", "basic"), early if hosted else expected)
        yield row(name, levels("1.25.1", "basic"), expected)
        yield row(name, levels("1.30.0", "all"), AGREES)
        for version in ("1.22.0", "1.27.0"):
            yield row(name, web_levels(version), early)
        yield row(name, web_levels("1.30.0"), AGREES)
    for level in ("disabled", "all"):
        yield row("cast_float_int_bool", (f"ort@1.25.1/cpu?level={level}", "onnx-reference"), NUMERIC)
        yield row("cast_float_int_bool", (f"ort@1.30.0/cpu?level={level}", "onnx-reference"), AGREES)
    yield row("cast_float_int_bool", levels("1.25.1", "all"), AGREES)  # level against level is blind
    yield row("cast_float_int_bool", ("ort@1.25.1/cpu", "ort@1.30.0/cpu"), NUMERIC)
    for version, expected in (
        ("1.19.2", AGREES), ("1.20.1", NUMERIC), ("1.22.1", NUMERIC), ("1.24.1", NUMERIC), ("1.25.1", AGREES),
    ):  # fmt: skip
        yield row("pad_averagepool_opset20", levels(version, "basic"), expected)
    yield row("conv_6_channels", native("1.30.0"), NUMERIC)
    yield row("conv_6_channels", jsep("1.30.0"), AGREES)
    for version in ("1.22.0", "1.30.0"):
        yield row("gathernd_rank5", jsep(version), SHADER)
    yield row("gathernd_rank5", native("1.30.0"), AGREES)


def web() -> Iterator[Row]:
    """web/README.md."""
    for name in ("race_int64_mul", "race_topk"):
        for version in ("1.22.0", "1.27.0", "1.30.0"):
            yield Row(f"web/{name}", *jsep(version), NUMERIC)
        yield Row(f"web/{name}", *native("1.30.0"), AGREES)
    for name, expected in (
        ("resize_wrong_shape", SHAPE), ("dequantize_uint8", NUMERIC), ("concat_nine_inputs", SHADER),
        ("maxpool_ceil_error", RUN), ("conv_129_channels", AGREES),
    ):  # fmt: skip
        yield Row(f"web/{name}", *jsep("1.27.0"), expected)
    yield Row("web/conv_129_channels", *native("1.30.0"), NUMERIC)
    for name in ("race_int64_mul", "resize_wrong_shape", "dequantize_uint8", "concat_nine_inputs", "conv_129_channels"):
        yield Row(f"web/{name}", "ort-web@1.27.0/wasm", "ort/cpu", AGREES)


def real() -> Iterator[Row]:
    """real/README.md."""
    for version in ("1.27.0", "1.30.0"):
        yield Row("real/silero_vad_openvino_16k", *jsep(version), NUMERIC)
        yield Row("real/silero_vad_openvino_16k", *native(version), NUMERIC)
        yield Row("real/silero_vad_16k_sequence", *native(version), NUMERIC)
        yield Row("real/slovorez", *jsep(version), SHADER)
        yield Row("real/rawi_int8", *jsep(version), NUMERIC)
    suspect, reference = jsep("1.27.0")
    yield Row("real/silero_vad_openvino_16k", f"{suspect}?level=disabled", f"{reference}?level=disabled", AGREES)
    yield Row("real/slovorez", *native("1.30.0"), RUN)


def judged(row: Row, folder: Path) -> str:
    """The class of the failure, `agrees`, or why nothing can be said."""
    model = folder / f"{row.case}.onnx"
    oracle = onnxreduce.choose("webgpu-vs-wasm", onnxreduce.Settings(row.suspect, row.reference))
    try:
        verdict = onnxreduce.check(model, oracle, model.with_suffix(".npz")).golden.verdict
    except onnxreduce.OnnxReduceError as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    if verdict.outcome is Outcome.FAILS and verdict.signature is not None:
        return verdict.signature.kind.value
    return AGREES if verdict.outcome is Outcome.PASSES else f"unresolved: {' '.join(verdict.message.split())[:200]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path, default=CASES)
    parser.add_argument("--only", nargs="*", default=[])
    arguments = parser.parse_args()
    if not arguments.cases.is_dir():
        print(f"no folder of cases at {arguments.cases}; name it with --cases", file=sys.stderr)
        return 2
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    wrong = 0
    for row in rows():
        text = f"{row.case} {row.suspect} {row.reference}"
        if arguments.only and not any(word in text for word in arguments.only):
            continue
        begun = time.perf_counter()
        got = judged(row, arguments.cases)
        seconds = time.perf_counter() - begun
        right = got == row.expected
        wrong += not right
        cells = (row.case, f"`{row.suspect}`", f"`{row.reference}`", row.expected)
        print(f"| {' | '.join(cells)} | {got if right else f'**{got}**'} | {seconds:.1f} |", flush=True)
    print(f"\n{wrong or 'no'} judgement{'s are' if wrong != 1 else ' is'} not as expected.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
