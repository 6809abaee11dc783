"""The nearest model that is right, kept beside the failing one and built by the same script."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from onnxreduce import emit
from onnxreduce.emit.folder import DATA_SET, SCRIPT_NAME, write_atomically
from onnxreduce.errors import OnnxReduceError
from onnxreduce.explain.explanation import Neighbour
from onnxreduce.explain.neighbours import Near
from onnxreduce.explain.reduced import Reduced
from onnxreduce.graph.candidate import Candidate, whole
from onnxreduce.graph.model import load
from onnxreduce.oracle.spec import OracleSpec
from onnxreduce.oracle.verdict import Oracle, Outcome

SCRIPT_SECONDS = 300.0
TRIED = 3
"""Nearest models whose script is tried; the first that builds a model that is right is kept."""
LEVELS = {
    "disabled": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "layout": "ORT_ENABLE_LAYOUT",
    "all": "ORT_ENABLE_ALL",
}
"""Words of targets, and what Python's onnxruntime calls them."""


def keep_closest(
    reduced: Reduced,
    oracle: Oracle,
    passing: Iterable[Near],
    run: emit.PythonRun | None,
    judged: Callable[[], None],
) -> Neighbour | None:
    """Write the first of the nearest models whose script builds a model that is right; None where there is none.

    `judged` is called at each judgement. What an earlier explanation left is replaced; where there is no such model the
    script still gets `run`.
    """
    script = reduced.folder / SCRIPT_NAME
    before = script.read_text("utf-8")
    for near in list(passing)[:TRIED]:
        try:
            _write(reduced, before, near, run)
            proto, feeds = emit.run_script(reduced.folder, SCRIPT_SECONDS, "--variant", "passing")
            judged()
            if oracle.judge(whole(load(proto), feeds), fresh=True).outcome is Outcome.PASSES:
                return near.neighbour
        except OnnxReduceError:
            continue
        except BaseException:
            write_atomically(script, before.encode())
            raise
    emit.remove_passing(reduced.folder)
    candidate = reduced.candidate
    plain = emit.extended(before, candidate.model.proto, candidate.feeds, None, run, external=candidate.model.external)
    write_atomically(script, plain.text.encode())
    return None


def python_run(reduced: Reduced, spec: OracleSpec, version: str, provider: str) -> emit.PythonRun | None:
    """How the script runs the model in Python's onnxruntime; None where that is not the suspect, or needs a plugin."""
    suspect, reference = spec.suspect, spec.reference
    if suspect.runtime != "ort" or suspect.provider == "plugin" or not _numpy_knows(reduced.candidate):
        return None
    level = LEVELS[suspect.options.get("level", "all")]
    names = suspect.options.get("disabled_optimizers", "").replace(";", ",").split(",")
    disabled = tuple(name for name in names if name)
    same = (reference.runtime, reference.version, reference.provider) == ("ort", suspect.version, suspect.provider)
    if same and set(reference.options) <= {"level"}:
        return emit.PythonRun(version, provider, level, LEVELS[reference.options.get("level", "all")], disabled)
    stored = all(
        (reduced.folder / DATA_SET / f"output_{at}.pb").is_file() for at in range(len(reduced.candidate.outputs))
    )
    return emit.PythonRun(version, provider, level, None, disabled) if stored else None


def _numpy_knows(candidate: Candidate) -> bool:
    return all(tensor.array.dtype.isbuiltin == 1 for tensor in candidate.feeds.values())


def _write(reduced: Reduced, text: str, near: Near, run: emit.PythonRun | None) -> None:
    failing, right = reduced.candidate, near.candidate
    words = f"{near.neighbour.subject} {near.neighbour.change}: right"
    passing = emit.Passing(words, right.model.proto, right.feeds, right.model.external)
    script = emit.extended(text, failing.model.proto, failing.feeds, passing, run, external=failing.model.external)
    expected = dict(right.expected or {})
    emit.write_passing(reduced.folder, script, right.model.proto, right.feeds, expected, right.model.external)
