"""Nothing was written, or everything was cleared."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnxreduce.explain.diagnosis.finding import Claim, DiagnosisKind, Key
from onnxreduce.explain.diagnosis.observation import Observation
from onnxreduce.explain.diagnosis.recompute import Recomputer


def zeros(seen: Observation, recomputer: Recomputer, only: frozenset[Key] | None) -> Iterator[Claim]:
    """The whole output is 0. Each element that should not be 0 counts one bit."""
    if not seen.got.any():
        count = float(np.count_nonzero(seen.wrong))
        yield Claim(DiagnosisKind.ZEROS, ("zeros",), np.zeros_like(seen.expected), "is all zeros", evidence=count)
