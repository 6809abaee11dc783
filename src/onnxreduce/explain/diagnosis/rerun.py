"""Other inputs under the suspect itself, for `diagnose`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from onnxreduce.explain.diagnosis.try_all import Rerun
from onnxreduce.graph.candidate import Candidate
from onnxreduce.reduction.reference import Reference
from onnxreduce.runtimes.base import Runtime, Status, request


def reruns(reference: Reference, suspect: Runtime, timeout: float) -> Rerun:
    """Runs a candidate under both; the suspect in an instance that has run nothing before, for `timeout` seconds.

    None where either cannot run it. What resolved while the device reported errors counts as run.
    """

    def rerun(candidate: Candidate) -> tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]] | None:
        recorded = reference.record(candidate)
        if recorded is None:
            return None
        result = suspect.run(request(candidate), timeout=timeout, fresh=True)
        if result.status not in (Status.OK, Status.SHADER_ERROR):
            return None
        return {name: tensor.array for name, tensor in recorded.items()}, result.outputs

    return rerun
