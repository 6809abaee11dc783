"""The models of accepted steps, kept beside the journal while they are small, for a reader who wants to look at one."""

from __future__ import annotations

import re
from pathlib import Path

from onnxreduce.emit.folder import write_atomically
from onnxreduce.graph.candidate import Candidate

STEPS = "steps"
LARGEST = 512 << 10
"""Bytes of one model, weights included; larger ones are not kept."""
ALL = 4 << 20
"""Bytes of all of them."""


class Steps:
    """Writes `steps/NNN-PASS.onnx` into a folder, which is `emptied` of what another run has left there."""

    def __init__(self, folder: Path, *, emptied: bool = True) -> None:
        self._folder = folder
        self._room = ALL
        for file in (folder / STEPS).glob("*.onnx") if emptied else ():
            if re.fullmatch(r"\d{3,}-[a-z-]+\.onnx", file.name):
                file.unlink()

    def keep(self, number: int, by: str, candidate: Candidate) -> str:
        """Write the model of an accepted candidate; its path in the folder, or nothing where it is too large."""
        weights = sum(blob.length for blob in candidate.external.values())
        if weights + candidate.model.proto.ByteSize() > min(LARGEST, self._room):
            return ""
        content = candidate.model.with_weights_inside().SerializeToString()
        self._room -= len(content)
        name = f"{STEPS}/{number:03}-{by}.onnx"
        write_atomically(self._folder / name, content)
        return name
