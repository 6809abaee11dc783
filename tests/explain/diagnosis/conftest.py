"""One reference for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import planted_outputs
import pytest

from onnxreduce.explain.diagnosis import Recomputer
from onnxreduce.reduction.reference import Reference


@pytest.fixture(scope="session")
def tools() -> Iterator[planted_outputs.Tools]:
    made = planted_outputs.Tools(Reference(), Recomputer())
    yield made
    made.reference.close()
    made.recomputer.close()


@pytest.fixture(scope="session")
def branches(tools: planted_outputs.Tools) -> planted_outputs.Planted:
    return planted_outputs.planted(planted_outputs.branches(), tools)
