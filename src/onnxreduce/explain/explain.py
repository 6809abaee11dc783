"""All that can be found out about a reduced model, part by part; what one part fails at is not lost to the others."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from onnxreduce.emit.folder import write_atomically
from onnxreduce.errors import OnnxReduceError
from onnxreduce.explain.bisect import DISABLED, OPTIMIZERS
from onnxreduce.explain.closest import keep_closest, python_run
from onnxreduce.explain.explanation import Explanation, Measured, Variant
from onnxreduce.explain.findings import find_findings
from onnxreduce.explain.heal import fewest_that_heal, named
from onnxreduce.explain.neighbours import Near, find_neighbours, nearest
from onnxreduce.explain.reduced import Reduced
from onnxreduce.explain.since import since_when
from onnxreduce.explain.variants import Runner, known_releases, ways
from onnxreduce.explain.variants.releases import OTHERS, Releases, others
from onnxreduce.explain.variants.ways import LEVEL
from onnxreduce.graph.draft import Draft
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.build import BuiltOracle
from onnxreduce.oracle.comparison import Tolerance
from onnxreduce.oracle.differential import DifferentialOracle
from onnxreduce.oracle.verdict import Oracle, Outcome, Verdict
from onnxreduce.reduction.journal import Journal
from onnxreduce.reduction.problem import Budget
from onnxreduce.reduction.result import DoesNotFailError
from onnxreduce.reduction.shrink import Shrinking
from onnxreduce.runtimes.base import Status, request
from onnxreduce.runtimes.packages import cached_versions
from onnxreduce.runtimes.target import Target

EXPLANATION = "explanation.json"
FIRST_TIMEOUT = 120.0
"""Seconds for the first run of a reduced model."""
PATIENCE = 120.0
"""Seconds for the download of a version that is only run for comparison."""
EXPOSED = "exposed values"
INTERRUPTED = "interrupted"
FEW_VALUES = 16
"""Up to so many inner values are told one by one among the variants; as neighbours they are in any case."""
NO_VALUES = "Python's onnxruntime cannot run the reduced model, so its values are not known"
NO_TIME = "the time for this was used up"
TWO_TARGETS = "this needs an oracle of two targets; a command or function has none"


@dataclass(frozen=True)
class Limits:
    """What explaining may cost: oracle calls and seconds for neighbours, seconds for variants, and for each bisection.

    `versions`: other released versions that are run; of those that are not here yet the latest is fetched, and `fetch`
    others.
    """

    calls: int = 80
    seconds: float = 60.0
    variant_seconds: float = 60.0
    versions: int = OTHERS
    fetch: int = 0


@dataclass
class Explainer:
    """The parts of an explanation, and what they gave so far. Called once."""

    reduced: Reduced
    oracle: Oracle
    limits: Limits = field(default_factory=Limits)
    report: Callable[[str], None] = lambda text: None

    def __post_init__(self) -> None:
        self._journal = Journal()
        self._near: list[Near] = []
        self._variants: list[Variant] = []
        self._given: dict[str, Any] = {}
        self._notes: dict[str, str] = {}
        self._seconds: dict[str, float] = {}
        self._repeats = int(self.reduced.summary.get("repeats", 1))
        self._releases = Releases()
        self._runner: Runner | None = None
        self._started: Shrinking | None = None
        self._problem: Shrinking | None = None

    def __call__(self) -> Explanation:
        """Explain, and write `explanation.json`. An interrupt keeps what there is: an earlier one, or what is known.

        Raises DoesNotFailError where the reduced model does not fail here, other OnnxReduceErrors where it cannot run.
        """
        begun = time.monotonic()
        verdict = self._baseline()
        self._given["reduced"] = Measured.of(verdict)
        self._seconds["reduced"] = round(time.monotonic() - begun, 2)
        parts: Iterable[tuple[str, Callable[[], None]]] = (
            ("values", self._record),
            ("findings", lambda: self._find_findings(verdict)),
            ("neighbours", lambda: self._find_neighbours(verdict)),
            ("closest", self._keep_closest),
            ("variants", self._run_variants),
            (EXPOSED, self._expose),
            ("optimizers", self._find_optimizers),
            ("bisection", self._find_version),
        )
        try:
            ended = all(self._ran(name, part) for name, part in parts)
        finally:
            if self._started is not None:
                self._started.close()
        explanation = self._explanation()
        place = self.reduced.folder / EXPLANATION
        if not ended and place.exists():
            self.report("interrupted: the earlier explanation stays")
            return explanation
        text = json.dumps(explanation.to_json(), indent=2, ensure_ascii=False) + "\n"
        write_atomically(place, text.encode())
        return explanation

    def _ran(self, name: str, part: Callable[[], None]) -> bool:
        """Run a part and note why it gave nothing; False after an interrupt."""
        begun = time.monotonic()
        try:
            part()
        except KeyboardInterrupt:
            self._notes[name] = INTERRUPTED
            return False
        except OnnxReduceError as error:
            self._notes[name] = " ".join(str(error).split())
        except Exception as error:  # a mistake of ours in one part must not cost the others
            self._notes[name] = f"a mistake of onnxreduce's own, please report it: {type(error).__name__}: {error}"
        finally:
            self._seconds[name] = round(time.monotonic() - begun, 2)
        return True

    def _baseline(self) -> Verdict:
        """The reduced model as it is."""
        oracle, candidate, spec = self.oracle, self.reduced.candidate, self.reduced.spec
        self.report("the reduced model as it is")
        if isinstance(oracle, DifferentialOracle) and spec is not None and spec.timeout is None:
            oracle.timeout = FIRST_TIMEOUT
        for _ in range(self._repeats):
            verdict = oracle.golden(candidate).verdict
            self._journal.add("reduced", candidate.nodes, verdict, fresh=True)
            if verdict.outcome is Outcome.FAILS:
                return verdict
        text = f"{verdict.outcome.value} {verdict.message}".strip()
        raise DoesNotFailError(f"{self.reduced.folder}: the reduced model does not fail here: it {text}")

    def _record(self) -> None:
        """Every value of the reduced model under the reference."""
        problem = Shrinking(
            self.reduced.candidate,
            self.oracle,
            self.reduced.signature,
            self._journal,
            repeats=self._repeats,
            tolerance=getattr(self.oracle, "tolerance", None) or Tolerance(),
        )
        self._started = problem
        if not problem.start():
            raise OnnxReduceError(NO_VALUES)
        self._problem = problem

    def _values(self) -> Shrinking:
        """The problem of changing the reduced model, its values known."""
        if self._problem is None:
            raise OnnxReduceError(NO_VALUES)
        return self._problem

    def _find_findings(self, verdict: Verdict) -> None:
        oracle, _, _ = self._two_targets()
        self.report("what the wrong outputs hold")
        self._given["findings"] = find_findings(self._values(), oracle, verdict.wrong_outputs, self._count)

    def _find_neighbours(self, verdict: Verdict) -> None:
        self.report(f"neighbours: models that differ in one thing, {self.limits.calls} oracle calls at most")
        budget = Budget(self.limits.calls, self.limits.seconds)
        for near in find_neighbours(self._values(), verdict.wrong_outputs, budget):
            self._near.append(near)

    def _keep_closest(self) -> None:
        right = nearest(self._near)
        self.report(f"{len(right)} of {len(self._near)} neighbours are right: keeping the nearest")
        spec = self.reduced.spec
        facts = self.oracle.describe().get("suspect", {})
        run = python_run(self.reduced, spec, facts["version"], facts["provider"]) if spec else None
        self._given["closest"] = keep_closest(self.reduced, self.oracle, right, run, self._count)

    def _count(self) -> None:
        self._journal.calls += 1

    def _run_variants(self) -> None:
        oracle, suspect, facts = self._two_targets()
        right = oracle.reference.run(request(self.reduced.candidate), timeout=oracle.timeout)
        if right.status is not Status.OK:
            raise OnnxReduceError(f"the reference fails: {right.message}")
        expected = {name: StoredTensor.from_array(array) for name, array in right.outputs.items()}
        candidate = replace(self.reduced.candidate, expected=expected)
        self.report("variants: levels, bundles, versions, options and other runtimes")
        pinned, versions = _pinned(suspect, facts), list[tuple[str, str]]()
        if suspect.runtime in ("ort-web", "ort"):
            self._releases = known_releases(suspect.runtime, pinned)
            versions = others(pinned, self._releases, self.limits.versions, self.limits.fetch)
        self._runner = Runner(oracle, candidate, self._repeats, self.limits.variant_seconds)
        for way in ways(suspect, facts, versions, next(iter(reversed(cached_versions())), None)):
            self._variants.append(self._runner.run(way))

    def _two_targets(self) -> tuple[BuiltOracle, Target, Mapping[str, str]]:
        """The oracle, its suspect, and what that says of itself."""
        if not isinstance(self.oracle, BuiltOracle):
            raise OnnxReduceError(TWO_TARGETS)
        suspect = getattr(self.oracle.suspect, "target", self.oracle.spec.suspect)
        return self.oracle, suspect, self.oracle.suspect.describe()

    def _run_already(self) -> Runner:
        if self._runner is None:
            raise OnnxReduceError(self._notes.get("variants", TWO_TARGETS))
        return self._runner

    def _expose(self) -> None:
        """All inner values as outputs at once; each alone is a neighbour already."""
        _, suspect, _ = self._two_targets()
        draft = self._values().draft()
        inner = [name for node in draft.nodes for name in node.output if name and not draft.is_output(name)]
        results = {"all": self._exposed(draft, inner)} if len(inner) > 1 else {}
        for near in self._near if len(inner) <= FEW_VALUES else []:
            if near.neighbour.kind == "output" and near.neighbour.subject in inner:
                results[near.neighbour.subject] = near.neighbour.result
        self._variants += [Variant(EXPOSED, name, str(suspect), result) for name, result in results.items()]

    def _exposed(self, draft: Draft, names: Sequence[str]) -> Measured:
        for name in names:
            draft.proto.graph.output.add().name = name
        draft.tidy()
        sound = self._values().sound(draft)
        if sound is None:
            return Measured.not_run("the reference does not run the model with all values exposed")
        candidate, values = sound
        candidate = replace(candidate, expected={name: values[name] for name in candidate.outputs})
        for _ in range(self._repeats):
            verdict = self.oracle.judge(candidate, fresh=True, alone=True)
            self._count()
            if verdict.outcome is not Outcome.PASSES:
                break
        return Measured.of(verdict)

    def _find_optimizers(self) -> None:
        """Where another level heals: through which optimizers."""
        runner, end = self._run_already(), time.monotonic() + self.limits.variant_seconds
        if not any(each.group == LEVEL and each.result.outcome == "passes" for each in self._variants):
            return
        self.report("a lower level heals it: looking for the optimizer")

        def heals(some: Sequence[str]) -> bool:
            if time.monotonic() > end:
                raise OnnxReduceError(NO_TIME)
            return runner.judge(named(runner.oracle.spec.suspect, DISABLED, some)).outcome is Outcome.PASSES

        self._given["optimizers"] = fewest_that_heal(heals, OPTIMIZERS, lambda text: None, "disabled")

    def _find_version(self) -> None:
        """Where versions differ: between which two it changes."""
        runner = self._run_already()
        _, suspect, facts = self._two_targets()
        fetch, seconds = self.limits.fetch, self.limits.variant_seconds
        pinned = _pinned(suspect, facts)
        found = since_when(runner, suspect, pinned, self._variants, self._releases, fetch=fetch, seconds=seconds)
        self._variants += found.more
        self._given |= {"bisection": found.steps, "changed": found.changed}
        if found.note:
            self._notes["bisection"] = found.note

    def _explanation(self) -> Explanation:
        return Explanation(
            neighbours=[near.neighbour for near in self._near],
            variants=self._variants,
            seconds=self._seconds,
            oracle_calls=self._journal.calls + (self._runner.calls if self._runner else 0),
            notes=self._notes,
            **self._given,
        )


def _pinned(suspect: Target, facts: Mapping[str, str]) -> str:
    """The suspect's version; the folder of a local build of onnxruntime-web."""
    return (suspect.version if suspect.runtime == "ort-web" else None) or facts["version"]
