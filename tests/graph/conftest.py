"""One process of Python ONNX Runtime for all tests of the graph layer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onnxreduce.runtimes.python_ort import PythonOrt
from onnxreduce.runtimes.recording import RECORDER


@pytest.fixture(scope="session")
def ort() -> Iterator[PythonOrt]:
    runtime = PythonOrt(RECORDER)
    yield runtime
    runtime.close()
