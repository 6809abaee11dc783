"""Since when, and through what: bisection over released versions, and over graph optimizers.

Both are the plain search of git bisect; versions on which nothing can be said are skipped as it does.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from packaging.version import InvalidVersion, Version

from onnxreduce.errors import BadInputError, OnnxReduceError, SetupError
from onnxreduce.explain.heal import fewest_that_heal, healer
from onnxreduce.graph.candidate import whole
from onnxreduce.graph.prepare import Subject
from onnxreduce.oracle.build import BuiltOracle, Setup
from onnxreduce.oracle.spec import OracleSpec
from onnxreduce.oracle.verdict import Outcome, Verdict
from onnxreduce.runtimes.packages import published_versions

LIST_SECONDS = 120.0
DISABLED = "disabled_optimizers"
OPTIMIZERS = (
    "ConstantFolding", "ConstantSharing", "CommonSubexpressionElimination", "MatMulAddFusion", "ReshapeFusion",
    "TransposeOptimizer", "QDQPropagationTransformer", "DoubleQDQPairsRemover", "WeightBiasQuantization",
    "EnsureUniqueDQForNodeUnit", "PropagateCastOps", "GatherToSplitFusion", "GatherSliceToSplitFusion",
    "DQMatMulNBitsFusion", "SwiGluFusion", "GatherToSliceFusion", "PreShapeNodeElimination",
    "Level1_RuleBasedTransformer", "Level2_RuleBasedTransformer", "EliminateIdentity", "EliminateSlice",
    "UnsqueezeElimination", "EliminateDropout", "ExpandElimination", "CastElimination", "CastChainElimination",
    "NoopElimination", "DivMulFusion", "FuseReluClip", "GemmSumFusion", "GemmTransposeFusion", "NotWhereFusion",
    "ConvAddFusion", "ConvMulFusion", "ConvBNFusion", "Pad_Fusion", "MatMul_BatchNormalization_Fusion",
    "LabelEncoderFusion", "ClipQuantRewrite", "ReluQuantRewrite", "GemmActivationFusion",
    "MatMulIntegerToFloatFusion", "DynamicQuantizeMatMulFusion", "ConvActivationFusion", "GeluFusion",
    "GeluFusionL1", "GeluFusionL2", "LayerNormFusion", "LayerNormFusionL1", "LayerNormFusionL2",
    "SimplifiedLayerNormFusion", "AttentionFusion", "EmbedLayerNormFusion", "MatmulTransposeFusion",
    "BiasGeluFusion", "GroupQueryAttentionFusion", "SkipLayerNormFusion", "FastGeluFusion", "QuickGeluFusion",
    "BiasSoftmaxFusion", "BiasDropoutFusion", "MatMulScaleFusion", "MatMulActivationFusion", "MatMulNBitsFusion",
    "QDQFinalCleanupTransformer", "QDQSelectorActionTransformer", "QDQS8ToU8Transformer", "NchwcTransformer",
    "NhwcTransformer", "ConvAddActivationFusion", "SliceConcatToSpaceToDepthFusion", "BiasSkipLayerNormFusion",
    "GroupQueryAttentionPreNormFusion", "MatMulNBitsMlpFusion", "MatMulNBitsQkvFusion", "CastFloat16Transformer",
    "Avx2WeightS8ToU8Transformer", "GqaValueLayoutTransformer", "RemoveDuplicateCastTransformer",
)  # fmt: skip
"""Names that ONNX Runtime gives its graph transformers and rewrite rules, over its versions; unknown ones are ignored
by it. From onnxruntime/core/optimizer."""


@dataclass(frozen=True)
class Step:
    """One version, and what the oracle said of it."""

    version: str
    outcome: Outcome
    note: str


@dataclass(frozen=True)
class VersionBisection:
    """`changed` holds the neighbours between which the outcome changes (older, newer), or None when it never does."""

    steps: Sequence[Step]
    changed: tuple[Step, Step] | None


def bisect_versions(
    subject: Subject, spec: OracleSpec, setup: Setup, *, dev: bool = False, report: Callable[[str], None]
) -> VersionBisection:
    """Find the version at which the suspect's outcome changes; its version is written `FIRST..LAST`.

    Raises BadInputError for a range that cannot be, SetupError when the versions cannot be listed.
    """
    first, dots, last = (spec.suspect.version or "").partition("..")
    if not dots or not first or not last:
        raise BadInputError(
            f"the suspect {spec.suspect} names no range of versions such as ort-web@1.20.1..1.30.0/webgpu"
        )
    known = [
        each for each in versions(spec.suspect.runtime, dev=dev) if Version(first) <= Version(each) <= Version(last)
    ]
    if len(known) < 2:
        raise BadInputError(f"fewer than two released versions from {first} to {last}")
    report(f"{len(known)} versions: {', '.join(known)}")

    def judge(version: str) -> Step:
        step = _judged(subject, replace(spec, suspect=spec.suspect.with_version(version)), setup, version)
        report(f"{version}: {step.outcome.value} {step.note}".rstrip())
        return step

    return bisect(known, judge)


def bisect(known: Sequence[str], judge: Callable[[str], Step]) -> VersionBisection:
    """Find where the outcome changes among versions in order, at least two. `judge` is asked once for each."""
    steps: dict[str, Step] = {}

    def judged(version: str) -> Step:
        if version not in steps:
            steps[version] = judge(version)
        return steps[version]

    resolved = [step for step in (judged(known[0]), judged(known[-1])) if step.outcome is not Outcome.UNRESOLVED]
    low, high = 0, len(known) - 1
    while low < high and judged(known[low]).outcome is Outcome.UNRESOLVED:
        low += 1
    while low < high and judged(known[high]).outcome is Outcome.UNRESOLVED:
        high -= 1
    if (not resolved and low == high) or judged(known[low]).outcome is judged(known[high]).outcome:
        return VersionBisection(_ordered(steps), None)
    while True:
        between = [at for at in range(low + 1, high) if known[at] not in steps]
        middle = min(between, key=lambda at: abs(at - (low + high) / 2), default=None)
        if middle is None:
            return VersionBisection(_ordered(steps), (steps[known[low]], steps[known[high]]))
        found = judged(known[middle])
        if found.outcome is Outcome.UNRESOLVED:
            continue
        if found.outcome is steps[known[low]].outcome:
            low = middle
        else:
            high = middle


def versions(runtime: str, *, dev: bool = False, seconds: float = LIST_SECONDS) -> list[str]:
    """Released versions of a runtime, oldest first, from npm or from PyPI through pip.

    Raises SetupError when neither client answers within `seconds`.
    """
    if runtime == "ort-web":
        found = published_versions(seconds)
    elif runtime == "ort":
        command = [sys.executable, "-m", "pip", "index", "versions", "onnxruntime", *(["--pre"] if dev else [])]
        match = re.search(r"Available versions: (.*)", _output(command, seconds))
        found = match[1].split(", ") if match else []
    else:
        raise BadInputError(f"versions of {runtime} cannot be listed; known: ort-web, ort")
    parsed = {text: _version(text) for text in found}
    kept = [text for text, version in parsed.items() if version is not None and (dev or not version.is_prerelease)]
    return sorted(kept, key=Version)


def bisect_optimizers(
    subject: Subject, oracle: BuiltOracle, *, report: Callable[[str], None] = lambda text: None
) -> list[str] | None:
    """The fewest named graph optimizers found that must be disabled to heal the model; None when that does not heal.

    Raises BadInputError when the model does not fail to begin with.
    """
    candidate = whole(subject.model, subject.feeds)
    if oracle.golden(candidate).verdict.outcome is not Outcome.FAILS:
        raise BadInputError(f"{subject.model.name} does not fail: there is nothing to heal")

    report(f"disabling all {len(OPTIMIZERS)} known optimizers")
    return fewest_that_heal(healer(oracle, candidate, DISABLED), OPTIMIZERS, report, "disabled")


def _judged(subject: Subject, spec: OracleSpec, setup: Setup, version: str) -> Step:
    try:
        oracle = BuiltOracle(spec, setup)
    except SetupError as error:
        return Step(version, Outcome.UNRESOLVED, str(error))
    try:
        verdict: Verdict = oracle.judge(whole(subject.model, subject.feeds), fresh=True)
    except OnnxReduceError as error:
        return Step(version, Outcome.UNRESOLVED, str(error))
    finally:
        oracle.close()
    return Step(version, verdict.outcome, str(verdict.signature) if verdict.signature else verdict.message[:120])


def _ordered(steps: dict[str, Step]) -> list[Step]:
    return [steps[version] for version in sorted(steps, key=Version)]


def _version(text: str) -> Version | None:
    try:
        return Version(text.strip())
    except InvalidVersion:
        return None


def _output(command: Sequence[str], seconds: float) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise SetupError(f"{' '.join(command[-3:])} does not answer: {error}") from error
    return done.stdout
