"""Runs that were cut off: what their journal tells is not asked again, and another run's journal is left alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import faults
import numpy as np
import pytest

import onnxreduce
from onnxreduce import BadInputError, Budget, Reduction, Shrinks, Status, Watcher
from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.comparison import Difference, Tolerance
from onnxreduce.oracle.signature import Kind, Signature
from onnxreduce.oracle.verdict import Golden, Outcome, Verdict
from onnxreduce.reduction.passes.table import chosen
from onnxreduce.reduction.past import read

CASE = faults.hosted(3, 2)
SHRINKS = Shrinks(chosen("dims,names,nodes", None))
JOURNAL = "journal.jsonl"


class Planted:
    """An oracle of its own: what holds these operators is wrong. It keeps count of what it is asked."""

    def __init__(self, name: str = "planted", needed: tuple[str, ...] = ("Sqrt", "Div"), version: str = "1") -> None:
        self.name = name
        self.version = version
        self.tolerance = Tolerance()
        self.asked: list[tuple[str, bool, bool]] = []
        self.originals = 0
        self.learnt: Golden | None = None
        self._needed = set(needed)

    def golden(self, candidate: Candidate, recorded: Callable[[], Mapping[str, StoredTensor]] | None = None) -> Golden:
        self.originals += 1
        return Golden(self._verdict(candidate), 1e-7, 33.0)

    def learn(self, golden: Golden) -> None:
        self.learnt = golden

    def judge(self, candidate: Candidate, *, fresh: bool = False, alone: bool = False) -> Verdict:
        self.asked.append((candidate.digest(), fresh, alone))
        return self._verdict(candidate)

    def describe(self) -> Mapping[str, Mapping[str, str]]:
        return {"suspect": {"runtime": "planted", "version": self.version}, "reference": {"runtime": "right"}}

    def close(self) -> None:
        pass

    def _verdict(self, candidate: Candidate) -> Verdict:
        wrong = self._needed <= {node.op_type for node in candidate.model.proto.graph.node}
        kind = Kind.NUMERIC if wrong else None
        found = [Difference(name, kind, "float32", (2,), 0.5, 0.5, wrong=1, total=2) for name in candidate.outputs]
        outcome = Outcome.FAILS if wrong else Outcome.PASSES
        return Verdict(outcome, Signature(Kind.NUMERIC) if wrong else None, found, "it is" if wrong else "", 0.25)


class Dies(Planted):
    """Ends the program with the first question, as nothing but a mistake or a signal does."""

    def judge(self, candidate: Candidate, *, fresh: bool = False, alone: bool = False) -> Verdict:
        raise SystemExit


def run(folder: Path, oracle: Planted, case: faults.Case = CASE, **more: object) -> Reduction:
    settings: dict[str, object] = {"output": folder, "shrinks": SHRINKS, **more}
    return onnxreduce.reduce(case[0], oracle, case[1], **settings)  # type: ignore[arg-type]


def lines(folder: Path) -> list[bytes]:
    return (folder / JOURNAL).read_bytes().splitlines(keepends=True)


def calls(folder: Path) -> list[dict[str, object]]:
    """The verdicts in a journal, without what hangs on the clock."""
    found = [json.loads(line) for line in lines(folder)]
    return [{key: each[key] for key in each if key not in ("at", "seconds")} for each in found if "call" in each]


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def same(one: Reduction, other: Reduction) -> bool:
    feeds = all(np.array_equal(one.inputs[name], other.inputs[name]) for name in one.inputs)
    return bool(one.model.SerializeToString() == other.model.SerializeToString() and feeds)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Planted, Reduction]:
    """A run that nothing disturbed."""
    folder, oracle = tmp_path_factory.mktemp("whole") / "to", Planted()
    done = run(folder, oracle)
    assert done.status is Status.REDUCED
    assert len(oracle.asked) >= 20
    return folder, oracle, done


Whole = tuple[Path, Planted, Reduction]


def cut_off(whole: Whole, folder: Path, keep: int, more: bytes = b"") -> Path:
    """A folder as a run leaves it that ends after so many lines, and what it has begun to write."""
    folder.mkdir(parents=True)
    (folder / JOURNAL).write_bytes(b"".join(lines(whole[0])[:keep]) + more)
    return folder


@pytest.mark.parametrize("share", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("torn", [b"", b'{"call": 7, "at": 1.0, "what": "cand'], ids=["whole", "torn"])
def test_what_was_answered_is_not_asked_again(whole: Whole, share: float, torn: bytes, tmp_path: Path) -> None:
    keep = max(2, round(share * len(lines(whole[0]))))
    folder, oracle = cut_off(whole, tmp_path / "to", keep, torn), Planted()
    known = sum("key" in json.loads(line) for line in lines(folder)[:keep])
    stages: list[str] = []
    done = run(folder, oracle, watcher=Watcher(stages.append))
    assert same(done, whole[2])
    assert oracle.asked == whole[1].asked[known:]
    assert (oracle.originals, oracle.learnt) == (0, read(folder / JOURNAL).golden)
    assert calls(folder) == calls(whole[0])
    assert done.summary["oracle_calls"] == whole[2].summary["oracle_calls"]
    assert done.summary["resumed_calls"] == known + 1
    assert done.summary["passes"] == whole[2].summary["passes"]
    assert done.summary["one_minimal"] == whole[2].summary["one_minimal"]
    assert any("is torn" in stage for stage in stages) is bool(torn)
    assert not read(folder / JOURNAL).torn


def test_what_follows_a_torn_line_is_ignored(whole: Whole, tmp_path: Path) -> None:
    keep = len(lines(whole[0])) // 2
    rest = b"".join(lines(whole[0])[keep + 1 :])
    folder, oracle = cut_off(whole, tmp_path / "to", keep, b"\0" * 300 + b"\n" + rest), Planted()
    stages: list[str] = []
    known = sum("key" in json.loads(line) for line in lines(folder)[:keep])
    assert same(run(folder, oracle, watcher=Watcher(stages.append)), whole[2])
    assert oracle.asked == whole[1].asked[known:]
    assert any(f"line {keep + 1} of {JOURNAL} is torn" in stage for stage in stages)
    assert calls(folder) == calls(whole[0])


def test_a_run_that_died_before_the_original_was_judged_begins_again(whole: Whole, tmp_path: Path) -> None:
    for name, keep, more in (("empty", 0, b""), ("half a head", 0, b'{"onnxred'), ("head", 1, b"")):
        folder, oracle = cut_off(whole, tmp_path / name, keep, more), Planted()
        assert same(run(folder, oracle), whole[2])
        assert (oracle.originals, oracle.asked) == (1, whole[1].asked)


def test_a_question_that_ended_two_runs_is_passed_over(whole: Whole, tmp_path: Path) -> None:
    """Asked once more after the first end; after the second it counts as unresolved, in this and each later run."""
    asks = [at for at, line in enumerate(lines(whole[0])) if b'"asks"' in line]
    at = asks[6]
    question = lines(whole[0])[at]
    once, oracle = cut_off(whole, tmp_path / "once", at + 1), Planted()
    assert same(run(once, oracle), whole[2])
    assert oracle.asked == whole[1].asked[6:]
    twice, oracle = cut_off(whole, tmp_path / "twice", at + 1, question), Planted()
    done = run(twice, oracle)
    assert done.status is Status.REDUCED
    assert done.summary["passed_over"] == 1
    assert whole[1].asked[6] not in oracle.asked
    told = [line for line in calls(twice) if line.get("key") == json.loads(question)["asks"]]
    assert [line["outcome"] for line in told] == ["unresolved"]
    again = Planted()
    (twice / "summary.json").unlink()
    assert same(run(twice, again), done)
    assert again.asked == []


def test_a_run_that_is_done_is_not_run_again(whole: Whole, tmp_path: Path) -> None:
    folder = tmp_path / "to"
    shutil.copytree(whole[0], folder)
    before, oracle = tree(folder), Planted()
    stages: list[str] = []
    done = run(folder, oracle, watcher=Watcher(stages.append), resume=True)
    assert same(done, whole[2])
    assert done.status is Status.REDUCED
    assert done.summary == json.loads(json.dumps(whole[2].summary))
    assert (oracle.asked, oracle.originals) == ([], 0)
    assert tree(folder) == before
    assert any("already" in stage and "--force" in stage for stage in stages)


def test_force_starts_over(whole: Whole, tmp_path: Path) -> None:
    folder, oracle = tmp_path / "to", Planted()
    shutil.copytree(whole[0], folder)
    assert same(run(folder, oracle, force=True), whole[2])
    assert (oracle.originals, oracle.asked) == (1, whole[1].asked)


def test_a_larger_budget_goes_on_where_a_smaller_one_ended(whole: Whole, tmp_path: Path) -> None:
    """Calls of earlier runs count; each stop asks for a confirmation of what it leaves beside the budget."""
    asked = []
    for most in (9, 9, 16, float("inf")):
        oracle = Planted()
        done = run(tmp_path, oracle, budget=Budget(calls=most))
        assert done.status is (Status.STOPPED if most < 20 else Status.REDUCED)
        asked.append(len(oracle.asked))
    assert same(done, whole[2])
    assert asked[0] == 9, "8 beside the golden run, and the confirmation"
    assert asked[1] == 0, "the same budget is used up at once, and what it leaves is confirmed already"
    assert sum(asked) <= len(whole[1].asked) + 2


def _other_model() -> faults.Case:
    case = faults.hosted(3, 2)
    case[0].graph.node[0].name = "another"
    return case


def _other_inputs() -> faults.Case:
    proto, feeds = faults.hosted(3, 2)
    return proto, {**feeds, "x": feeds["x"] + 1}


OTHERS = [
    ("another model", {"case": _other_model()}, "its model is another one"),
    ("other inputs", {"case": _other_inputs()}, "its inputs are others"),
    ("another oracle", {"oracle": Planted("grown")}, "its oracle is planted, here it is grown"),
    ("other passes", {"shrinks": Shrinks(())}, "its passes is dims, names, nodes, here it is not set"),
    ("something kept", {"shrinks": Shrinks(SHRINKS.passes, ["shape"])}, "its keep is not set, here it is shape"),
    ("another version", {"oracle": Planted(version="2")}, "its suspect's version is 1, here it is 2"),
]  # fmt: skip


@pytest.mark.parametrize(("more", "told"), [each[1:] for each in OTHERS], ids=[each[0] for each in OTHERS])
@pytest.mark.parametrize("resume", [False, True])
def test_another_runs_journal_is_left_alone(
    whole: Whole, more: dict[str, object], told: str, resume: bool, tmp_path: Path
) -> None:
    folder = cut_off(whole, tmp_path / "to", len(lines(whole[0])) // 2, b'{"call": 9')
    before, settings = tree(folder), {"oracle": Planted(), **more}
    with pytest.raises(BadInputError, match="holds another run") as refused:
        run(folder, resume=resume, **settings)  # type: ignore[arg-type]
    assert f"({told}); choose another or add --force" in str(refused.value)
    assert tree(folder) == before


def test_a_journal_of_another_format_is_left_alone(whole: Whole, tmp_path: Path) -> None:
    head = json.loads(lines(whole[0])[0])
    head["about"]["journal format"] = "0"
    folder = tmp_path / "to"
    folder.mkdir()
    (folder / JOURNAL).write_text(json.dumps(head) + "\n")
    with pytest.raises(BadInputError, match="its journal format is 0, here it is 1"):
        run(folder, Planted())
    (folder / JOURNAL).write_text('{"model": "m", "nodes": 3}\n')
    with pytest.raises(BadInputError, match="its journal format is not set"):
        run(folder, Planted())


def test_a_reference_that_gives_other_values_is_told(whole: Whole, tmp_path: Path) -> None:
    """As on a machine with another processor: the questions would be others."""
    folder = cut_off(whole, tmp_path / "to", 9)
    head = json.loads(lines(folder)[0])
    head["about"]["recorded values"] = "0" * 32
    (folder / JOURNAL).write_bytes(b"".join([json.dumps(head).encode() + b"\n", *lines(folder)[1:]]))
    before, oracle = tree(folder), Planted()
    with pytest.raises(BadInputError, match="the reference gave other values on the machine where it ran"):
        run(folder, oracle)
    assert (tree(folder), oracle.asked) == (before, [])


def test_what_force_replaces_is_not_taken_for_the_new_result(whole: Whole, tmp_path: Path) -> None:
    """A run that starts over and is cut off early goes on from its own journal, not from the old summary."""
    folder = tmp_path / "to"
    shutil.copytree(whole[0], folder)
    with pytest.raises(BadInputError):
        run(folder, Planted(needed=("Tanh",)), shrinks=Shrinks(()))
    oracle = Dies(needed=("Tanh",))
    with pytest.raises(SystemExit):
        run(folder, oracle, shrinks=Shrinks(()), force=True)
    assert not (folder / "summary.json").exists()
    done = run(folder, Planted(needed=("Tanh",)), shrinks=Shrinks(()))
    assert (done.summary["operators"], done.summary["resumed_calls"]) == (["Tanh"], 1)


def test_there_must_be_something_to_resume(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"no run to go on with in .*: it has no journal.jsonl"):
        run(tmp_path / "to", Planted(), resume=True)
    with pytest.raises(BadInputError, match="one of them"):
        run(tmp_path / "to", Planted(), resume=True, force=True)
    assert list(tmp_path.iterdir()) == []
