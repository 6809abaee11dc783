"""The kept nodes where they stood in the original: drawable, bounded, nearest first."""

from __future__ import annotations

import json
from pathlib import Path

import faults
from onnx import helper

from onnxreduce.emit.neighbourhood import EACH, HOPS, MOST, around, write_neighbourhood
from onnxreduce.graph.index import GraphIndex
from onnxreduce.graph.model import load, normalise


def chain(length: int) -> GraphIndex:
    """Negations in a row."""
    nodes = [helper.make_node("Neg", [f"v{at}"], [f"v{at + 1}"], name=f"n{at}") for at in range(length)]
    proto = faults.model(nodes, [faults.floats("v0", [2])], [faults.floats(f"v{length}", [2])])
    return GraphIndex(normalise(load(proto)), ["v0"])


def test_nodes_around_the_kept_ones_come_ring_by_ring() -> None:
    assert around(chain(1000), [500, 501]) == list(range(500 - HOPS, 502 + HOPS))
    assert around(chain(5), [2]) == [0, 1, 2, 3, 4]
    assert around(chain(400), range(200)) == list(range(MOST))


def test_a_value_that_many_read_does_not_bring_them_all() -> None:
    nodes = [helper.make_node("Neg", ["x"], ["a"])]
    nodes += [helper.make_node("Exp", ["a"], [f"y{at}"]) for at in range(100)]
    proto = faults.model(nodes, [faults.floats("x", [2])], [faults.floats(f"y{at}", [2]) for at in range(100)])
    assert around(GraphIndex(normalise(load(proto)), ["x"]), [50]) == [0, *range(1, EACH + 1), 50]


def test_it_is_written_in_file_order(tmp_path: Path) -> None:
    write_neighbourhood(tmp_path, chain(3), [1])
    found = json.loads((tmp_path / "neighbourhood.json").read_text("utf-8"))
    assert found["total"] == 3
    assert [(each["at"], each["kept"]) for each in found["nodes"]] == [(0, False), (1, True), (2, False)]
    assert found["nodes"][1] == {
        "at": 1,
        "op": "Neg",
        "name": found["nodes"][1]["name"],
        "reads": ["v1"],
        "writes": ["v2"],
        "kept": True,
    }


def test_initializers_are_no_neighbours(tmp_path: Path) -> None:
    proto, _ = faults.normalisation()
    index = GraphIndex(normalise(load(proto)), ["x"])
    write_neighbourhood(tmp_path, index, [0])
    read = {
        name for each in json.loads((tmp_path / "neighbourhood.json").read_text())["nodes"] for name in each["reads"]
    }
    assert read
    assert not read & set(index.initializers)
