"""`onnx-reference`: onnx's own evaluator in a child process, the arbiter where every runtime may be wrong."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from onnxreduce.errors import BadInputError
from onnxreduce.runtimes.child import ChildRuntime, megabytes
from onnxreduce.runtimes.target import Target

_WORKER = Path(__file__).with_name("reference_worker.py")


class Reference(ChildRuntime):
    """The target `onnx-reference`, with the option `memory` (MiB). It is slow, and lacks some operators."""

    name = "onnx.reference"

    def __init__(self, target: Target, memory: int | None = None) -> None:
        if target.version or target.provider:
            raise BadInputError(f"{target}: onnx-reference is that of the installed onnx, without a provider")
        unknown = sorted(set(target.options) - {"memory"})
        if unknown:
            raise BadInputError(f"{target}: unknown option {unknown[0]}; known: memory")
        super().__init__(target, megabytes(target) or memory)

    def describe(self) -> Mapping[str, str]:
        """Runtime and version."""
        self._start()
        facts = {"target": str(self.target), "runtime": "onnx.reference", "provider": "numpy"}
        return {**facts, "version": self._hello["version"]}

    def _command(self) -> list[str]:
        return [sys.executable, str(_WORKER), str(self._memory or 0)]
