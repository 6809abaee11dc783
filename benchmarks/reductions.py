"""Whole reductions in the real browser: calls, full-model equivalents, time and its share in the runtimes.

    python benchmarks/reductions.py [--cases FOLDER] [--only NAME ...] [--ort-web VERSION]

Without the folder of real cases it runs what `examples/` builds. Prints a Markdown table; counts can be compared from
machine to machine, seconds only within one run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx

import onnxreduce

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))
CASES = ROOT.parent / "shared" / "cases"
WEB = (
    "race_int64_mul",
    "race_topk",
    "dequantize_uint8",
    "concat_nine_inputs",
    "maxpool_ceil_error",
    "resize_wrong_shape",
)
REAL = ("silero_vad_openvino_16k", "rawi_int8", "slovorez")


def examples(folder: Path) -> Iterator[tuple[str, Path, Path]]:
    """The founding models and the demo model, built anew."""
    import founding_models
    import smolvla_model

    for depth in (3, 4, 5):
        model = founding_models.build(depth)
        yield save(folder, f"founding depth {depth}", model, founding_models.inputs(model))
    yield save(folder, "demo", *smolvla_model.build())


def save(folder: Path, name: str, model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> tuple[str, Path, Path]:
    path = folder / f"{name.replace(' ', '_')}.onnx"
    onnx.save(model, path)
    np.savez(path.with_suffix(".npz"), **inputs)
    return name, path, path.with_suffix(".npz")


def shared(folder: Path) -> Iterator[tuple[str, Path, Path]]:
    """Real cases, where the folder is there."""
    names = [f"smolvla/{name}" for name in ("smolvla", "smolvla_prefill")]
    names += [f"web/{name}" for name in WEB] + [f"real/{name}" for name in REAL]
    for name in names:
        if (folder / f"{name}.onnx").is_file():
            yield name, folder / f"{name}.onnx", folder / f"{name}.npz"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path, default=CASES)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--ort-web")
    arguments = parser.parse_args()
    if not arguments.cases.is_dir():
        print("the folder of real cases is not there: only the models of examples/ are run", file=sys.stderr)
    print(
        "| case | nodes | by deletion | in the end | elements | script lines | calls of deletion | full-model "
        "equivalents | calls of shrinking | seconds | in runtimes |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        for name, model, inputs in (*examples(Path(temporary)), *shared(arguments.cases)):
            if arguments.only and not any(word in name for word in arguments.only):
                continue
            try:
                found = onnxreduce.reduce(
                    model,
                    inputs=inputs,
                    output=Path(temporary) / "out",
                    force=True,
                    setup=onnxreduce.Setup(ort_web=arguments.ort_web),
                )
            except onnxreduce.OnnxReduceError as error:
                print(f"| {name} | {error} |", flush=True)
                continue
            print(row(name, found, Path(temporary) / "out"), flush=True)


def row(name: str, found: onnxreduce.Reduction, folder: Path) -> str:
    summary = found.summary
    deletion = summary["deletion"] or summary
    lines = len((folder / "build_repro.py").read_text().splitlines())
    cells = [
        name,
        summary["nodes_before"],
        len(summary["nodes"]),
        summary["nodes_after"],
        summary.get("elements_after", ""),
        lines,
        deletion["oracle_calls"],
        deletion["full_model_equivalents"],
        summary["oracle_calls"] - deletion["oracle_calls"],
        summary["seconds"],
        f"{100 * summary['seconds_in_runtime'] / summary['seconds']:.0f} %",
    ]
    mark = "" if found.status is onnxreduce.Status.REDUCED and summary["one_minimal"] else f" ({found.status.value})"
    return "| " + " | ".join(str(cell) for cell in cells) + f" |{mark}"


if __name__ == "__main__":
    main()
