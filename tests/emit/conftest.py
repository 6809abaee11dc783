from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onnxreduce.emit.script import Script


def write_and_execute(script: Script, folder: Path) -> dict[str, Any]:
    """Import a script the way a reader would, with its data files beside it; gives its global names."""
    for name, tensor in script.data.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(tensor.to_proto("").SerializeToString())
    names: dict[str, Any] = {"__name__": "build_repro", "__file__": str(folder / "build_repro.py")}
    exec(compile(script.text, "build_repro.py", "exec"), names)
    return names


@pytest.fixture(scope="module")
def execute(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Script], dict[str, Any]]:
    folder = tmp_path_factory.mktemp("script")
    return lambda script: write_and_execute(script, folder)
