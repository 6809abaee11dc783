"""What wrong outputs hold: the diagnosis of a reduced model, its suspect run on other inputs where that tells more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from onnxreduce.explain.diagnosis import diagnose
from onnxreduce.explain.explanation import Finding
from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.draft import Draft
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.differential import DifferentialOracle
from onnxreduce.reduction.shrink import Shrinking
from onnxreduce.runtimes.base import Status, request

Arrays = Mapping[str, np.ndarray]


def find_findings(
    problem: Shrinking, oracle: DifferentialOracle, wrong: Sequence[str], count: Callable[[], None]
) -> list[Finding]:
    """A finding for each wrong output that can be explained. `problem` has been started; `count` is called at each run
    of the suspect.
    """

    def actual(candidate: Candidate) -> Arrays | None:
        count()
        result = oracle.suspect.run(request(candidate), timeout=oracle.timeout, fresh=True)
        return result.outputs if result.status in (Status.OK, Status.SHADER_ERROR) else None

    def rerun(candidate: Candidate) -> tuple[Arrays, Arrays] | None:
        values = problem.recorded(Draft(candidate))
        outputs = actual(candidate) if values is not None else None
        return None if values is None or outputs is None else (_arrays(values), outputs)

    outputs = actual(problem.best) if wrong else None
    if outputs is None:
        return []
    values = _arrays(problem.values)
    found = diagnose(problem.best, values, outputs, wrong, problem.tolerance, rerun=rerun)
    return [
        Finding(each.output, each.kind.value, each.statement, each.matched, each.total, each.error, each.confidence)
        for each in found
    ]


def _arrays(values: Mapping[str, StoredTensor]) -> dict[str, np.ndarray]:
    return {name: tensor.array for name, tensor in values.items()}
