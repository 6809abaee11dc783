"""Run a model in many ways, each judged against the same reference result."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from onnxreduce.errors import OnnxReduceError
from onnxreduce.explain.explanation import Measured, Variant
from onnxreduce.explain.variants.ways import OPTION, Way, knows
from onnxreduce.graph.candidate import Candidate
from onnxreduce.oracle.build import BuiltOracle
from onnxreduce.oracle.differential import DifferentialOracle
from onnxreduce.oracle.verdict import Outcome, Verdict
from onnxreduce.runtimes.packages import ort_web_package
from onnxreduce.runtimes.target import Target

FACTS = ("runtime", "version", "provider", "bundle", "wasm", "adapter", "threads", "python")
NO_TIME = "the time for variants was used up"


@dataclass
class Runner:
    """Runs ways until `seconds` are used up; those that are left are not run.

    `candidate` has the reference's result as its expected outputs. `repeats`: runs that a verdict takes. `calls`: runs
    so far.
    """

    oracle: BuiltOracle
    candidate: Candidate
    repeats: int
    seconds: float
    report: Callable[[str], None] = lambda text: None
    calls: int = 0
    _known: dict[str, tuple[Measured, Mapping[str, str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.wind(self.seconds)

    def wind(self, seconds: float) -> None:
        """So many seconds from now on."""
        self._end = time.monotonic() + seconds

    def run(self, way: Way) -> Variant:
        """What a way gives; not run, with the reason, where it cannot be."""
        reason = way.reason or (NO_TIME if time.monotonic() > self._end else "")
        if way.target is None or reason:
            return Variant(way.group, way.name, str(way.target or ""), Measured.not_run(reason))
        key = str(way.target)
        if key not in self._known:
            self._known[key] = self._run(way, way.target)
        measured, facts = self._known[key]
        return Variant(way.group, way.name, key, measured, facts)

    def judge(self, target: Target) -> Verdict:
        """The verdict of a target in a fresh instance, the first that fails of as many as the fault asks for.

        Raises OnnxReduceError where the target cannot be run.
        """
        with self.oracle.with_suspect(target) as other:
            return self._judged(other)

    def _run(self, way: Way, target: Target) -> tuple[Measured, Mapping[str, str]]:
        try:
            if way.group == OPTION and (unknown := self._unknown(target)):
                return Measured.not_run(unknown), {}
            with self.oracle.with_suspect(target) as other:
                measured = Measured.of(self._judged(other))
                facts = _facts(other.suspect.describe())
        except OnnxReduceError as error:
            return Measured.not_run(" ".join(str(error).split())), {}
        if way.refusal and way.refusal in measured.message:
            return Measured.not_run(" ".join(measured.message.split())), facts
        return measured, facts

    def _judged(self, other: DifferentialOracle) -> Verdict:
        for _ in range(self.repeats):
            verdict = other.judge(self.candidate, fresh=True, alone=True)
            self.calls += 1
            if verdict.outcome is not Outcome.PASSES:
                break
        return verdict

    def _unknown(self, target: Target) -> str:
        """Why an option would be dropped without a word; empty where it is not."""
        known = self.oracle.suspect.describe()
        bundle = known.get("bundle", "")
        dist = ort_web_package(target.version or "").dist
        for option in set(target.options) & {"storageBufferCacheMode"}:
            if not knows(dist / bundle, option):
                return f"{bundle} of {known.get('version', '')} does not pass {option} on"
        return ""


def _facts(known: Mapping[str, str]) -> dict[str, str]:
    found = {key: known[key] for key in FACTS if known.get(key)}
    if known.get("provider") == "webgpu":
        found["implementation"] = "JSEP" if "jsep" in known.get("wasm", "") else "native"
    return found
