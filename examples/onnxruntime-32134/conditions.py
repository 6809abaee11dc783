"""What the fault of onnxruntime issue 32134 needs: small changes to its smallest model, each judged in a real browser.

    python examples/onnxruntime-32134/conditions.py                        # the pinned version, before and after fix.py
    python examples/onnxruntime-32134/conditions.py --version 1.30.0

Prints a table in Markdown with the outputs that are wrong under JSEP and right under wasm. Ends with 0 when nothing is
wrong after the repair, and what is said to fail before it does.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import fix  # noqa: E402
import numpy as np  # noqa: E402
from onnx import ModelProto, NodeProto, TensorProto, helper  # noqa: E402

import onnxreduce  # noqa: E402
from onnxreduce.oracle.build import Setup  # noqa: E402
from onnxreduce.runtimes.packages import ort_web_package  # noqa: E402

PINNED = "1.27.0"
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
Feeds = Mapping[str, np.ndarray[Any, Any]]
TYPES = {np.dtype(np.float32): FLOAT, np.dtype(np.int64): INT64}


@dataclass(frozen=True)
class Condition:
    """A model with its inputs, and the outputs that are wrong before the repair."""

    words: str
    model: ModelProto
    feeds: Feeds
    wrong: tuple[str, ...] = ()


def condition(
    words: str, nodes: list[NodeProto], feeds: Feeds, outputs: dict[str, list[int]], *wrong: str
) -> Condition:
    """Assemble a model from nodes; inputs as in `feeds`, float32 outputs of the shapes that are given."""
    graph = helper.make_graph(
        nodes,
        "condition",
        [helper.make_tensor_value_info(name, TYPES[value.dtype], value.shape) for name, value in feeds.items()],
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in outputs.items()],
    )
    return Condition(
        words, helper.make_model(graph, ir_version=7, opset_imports=[helper.make_opsetid("", 13)]), feeds, wrong
    )


def integers(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """1, 2, 3, ..."""
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.int64).reshape(shape)


def floats(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """100, 101, 102, ..."""
    return np.arange(100, 100 + int(np.prod(shape)), dtype=np.float32).reshape(shape)


def cpu_branch(source: str = "u", target: str = "D") -> list[NodeProto]:
    """`Cast` from int64, which JSEP leaves to the CPU, and a `Neg` on the GPU that reads what was uploaded."""
    return [
        helper.make_node("Cast", [source], [f"{source}_float"], to=FLOAT),
        helper.make_node("Neg", [f"{source}_float"], [target]),
    ]


def gpu_branch(length: int = 2) -> list[NodeProto]:
    """A chain of `Neg` on the GPU."""
    values = ["x", *(f"x{number}" for number in range(1, length)), "Y"]
    return [helper.make_node("Neg", [source], [target]) for source, target in itertools.pairwise(values)]


def beside(words: str, cpu_shape: list[int], gpu_shape: list[int], *wrong: str) -> Condition:
    """The two branches with values of the given shapes."""
    feeds = {"u": integers(*cpu_shape), "x": floats(*gpu_shape)}
    return condition(words, [*cpu_branch(), *gpu_branch()], feeds, {"D": cpu_shape, "Y": gpu_shape}, *wrong)


def gathers() -> Condition:
    """Two lookups in one table, by indices that the CPU computes."""
    nodes = [
        helper.make_node("Cast", ["a"], ["a_index"], to=INT64),
        helper.make_node("Cast", ["b"], ["b_index"], to=INT64),
        helper.make_node("Gather", ["table", "a_index"], ["D"]),
        helper.make_node("Gather", ["table", "b_index"], ["E"]),
    ]
    feeds = {
        "table": floats(6, 2),
        "a": np.array([0, 2, 4], np.float32),
        "b": np.array([1, 3, 5], np.float32),
    }
    return condition("two `Gather` by indices from the CPU", nodes, feeds, {"D": [3, 2], "E": [3, 2]}, "E")


def conditions() -> list[Condition]:
    """All rows of the table."""
    one: dict[str, list[int]] = {"D": [1], "Y": [1]}
    feeds = {"u": integers(1), "x": floats(1)}
    two = {"u": integers(1), "v": integers(1) + 6}
    rows = [
        beside("`Cast → Neg` beside `Neg → Neg`, one element each", [1], [1], "D"),
        condition("the GPU branch first in the file", [*gpu_branch(), *cpu_branch()], feeds, one),
        condition("one `Neg` in the GPU branch", [*cpu_branch(), *gpu_branch(1)], feeds, one),
        condition(
            "a float graph input in place of the `Cast`",
            [helper.make_node("Neg", ["f"], ["D"]), *gpu_branch()],
            {"f": floats(1) + 7, "x": floats(1)},
            one,
        ),
        condition(
            "the value between both `Neg` also an output", [*cpu_branch(), *gpu_branch()], feeds, one | {"x1": [1]}
        ),
        beside("[194] and [194]", [194], [194], "D"),
        beside("[194] and [200]: another size, the same bucket", [194], [200]),
        beside("[3, 2] and [2, 3]: the same size, another shape", [3, 2], [2, 3]),
    ]
    for length, wrong in {15: "D", 16: "", 17: "Y", 18: "D"}.items():
        rows.append(
            condition(
                f"{length} `Neg` in the GPU branch",
                [*cpu_branch(), *gpu_branch(length)],
                feeds,
                one,
                *([wrong] if wrong else []),
            )
        )
    rows.append(
        condition("two CPU branches, no other", [*cpu_branch(), *cpu_branch("v", "E")], two, {"D": [1], "E": [1]}, "E")
    )
    return [*rows, gathers()]


def judge(condition: Condition, package: Path) -> tuple[str, ...]:
    """The outputs that are wrong under JSEP. Raises SystemExit where a verdict is neither right nor wrong values."""
    verdict = onnxreduce.check(
        condition.model, "webgpu-vs-wasm", condition.feeds, setup=Setup(ort_web=str(package))
    ).golden.verdict
    if not verdict.differences:
        raise SystemExit(f"{condition.words}: {verdict.outcome.value} {verdict.message}")
    return tuple(verdict.wrong_outputs)


def main() -> int:
    """Judge every condition twice, print the table."""
    parser = argparse.ArgumentParser(description="What the fault needs, before and after the repair.")
    parser.add_argument("--version", default=PINNED, help="of onnxruntime-web (default: %(default)s)")
    arguments = parser.parse_args()
    package = ort_web_package(arguments.version, report=lambda text: print(text, file=sys.stderr)).dist.parent
    amiss = 0
    with tempfile.TemporaryDirectory() as scratch:
        repaired = Path(scratch) / "repaired"
        fix.repair_package(package, repaired)
        print(f"| onnxruntime-web {package.name} | wrong before | wrong after |\n| --- | --- | --- |")
        for each in conditions():
            before, after = judge(each, package), judge(each, repaired)
            amiss += before != each.wrong or bool(after)
            print(f"| {each.words} | {', '.join(before) or 'nothing'} | {', '.join(after) or 'nothing'} |", flush=True)
    return 1 if amiss else 0


if __name__ == "__main__":
    sys.exit(main())
