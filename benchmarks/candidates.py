"""What a candidate costs on our own side: cut, and serialise for the runtime, on the SmolVLA-shaped example model.

    python benchmarks/candidates.py [model.onnx]

Budget: 20 ms for any subset of a graph of 2,000 nodes. Times are CPU time of this process: median and worst of the
draws. No runtime is needed: one tensor stands for every recorded value, since only names and types count here.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import onnx
from onnx import TensorProto

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import smolvla_model

from onnxreduce.graph.candidate import cut
from onnxreduce.graph.index import GraphIndex
from onnxreduce.graph.model import load, normalise
from onnxreduce.graph.tensors import Blob, StoredTensor
from onnxreduce.runtimes.base import request

DRAWS = 30
BUDGET = 20.0


class Anything(Mapping[str, StoredTensor]):
    """A recording that holds the same tensor under every name."""

    _tensor = StoredTensor(TensorProto.FLOAT, (1, 113, 64), Blob("0" * 32, 0, data=b""))

    def __getitem__(self, name: str) -> StoredTensor:
        return self._tensor

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def once(source: Path | onnx.ModelProto) -> GraphIndex:
    """Load, normalise and index a model, and print what each takes."""
    began = time.process_time()
    loaded = load(source)
    read = time.process_time()
    model = normalise(loaded)
    normal = time.process_time()
    index = GraphIndex(model)
    end = time.process_time()
    weights = sum(blob.length for blob in model.external.values())
    print(f"{len(index)} nodes, {weights / 1e6:.1f} MB of weights outside the protobuf")
    print(f"once: load {1e3 * (read - began):.0f} ms, normalise {1e3 * (normal - read):.0f} ms,", end=" ")
    print(f"index with shape inference {1e3 * (end - normal):.0f} ms\n")
    return index


def main() -> None:
    """Print one line for each kind of subset."""
    index = once(Path(sys.argv[1]) if len(sys.argv) > 1 else smolvla_model.build()[0])
    rng, total, values = random.Random(0), len(index), Anything()
    start = total // 2
    kinds = {
        "all nodes": lambda: list(range(total)),
        "all but a chunk": lambda: [at for at in range(total) if not start <= at < start + total // 16],
        "every second, at random": lambda: [at for at in range(total) if rng.random() < 0.5],
        "first half": lambda: list(range(total // 2)),
        "7 nodes": lambda: rng.sample(range(total), min(7, total)),
    }
    print(
        f"{'candidate':<26}{'nodes':>6}{'inputs':>8}{'bytes':>10}{'cut':>9}{'serialise':>11}{'both':>8}{'worst':>8}  ms"
    )
    for kind, draw in kinds.items():
        cuts, both = [], []
        for _ in range(DRAWS):
            nodes = draw()
            began = time.process_time()
            candidate = cut(index, nodes, values)
            done = time.process_time()
            asked = request(candidate)
            both.append(1e3 * (time.process_time() - began))
            cuts.append(1e3 * (done - began))
        cutting, middle = statistics.median(cuts), statistics.median(both)
        mark = "" if middle <= BUDGET else f"  over the budget of {BUDGET:g} ms"
        sizes = f"{len(candidate.nodes):>6}{len(candidate.feeds):>8}{len(asked.model):>10}"
        print(f"{kind:<26}{sizes}{cutting:>9.1f}{middle - cutting:>11.1f}{middle:>8.1f}{max(both):>8.1f}{mark}")


if __name__ == "__main__":
    main()
