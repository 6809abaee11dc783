"""Oracles that end with the test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from explain_cases import Make

from onnxreduce.errors import SetupError
from onnxreduce.oracle.build import BuiltOracle, Setup
from onnxreduce.oracle.choose import Settings, choose
from onnxreduce.oracle.spec import OracleSpec

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))


@pytest.fixture
def make() -> Iterator[Make]:
    """Builds oracles from a name and two targets; skips where a package or browser is missing."""
    made: list[BuiltOracle] = []

    def build(suspect: str, reference: str, name: str = "webgpu-vs-wasm") -> BuiltOracle:
        spec = choose(name, Settings(suspect, reference))
        assert isinstance(spec, OracleSpec)
        try:
            made.append(BuiltOracle(spec, Setup()))
            made[-1].describe()
        except SetupError as error:
            pytest.skip(f"nothing to run: {error}")
        return made[-1]

    yield build
    for oracle in made:
        oracle.close()
