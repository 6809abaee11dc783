"""The scripts that make models need nothing but onnx and numpy; examples of oracles run what they judge."""

import ast
import sys
from pathlib import Path

import pytest

ORACLES = {"python_oracle.py"}
GENERATORS = sorted(path for path in (Path(__file__).parents[2] / "examples").glob("*.py") if path.name not in ORACLES)


@pytest.mark.parametrize("script", GENERATORS, ids=lambda path: path.name)
def test_a_generator_needs_only_onnx_and_numpy(script):
    needed = set()
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            needed |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            needed.add((node.module or "").partition(".")[0])
    assert needed <= {"onnx", "numpy", *sys.stdlib_module_names}
