"""What a reduction gives back."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from onnxreduce.errors import OnnxReduceError


class Status(enum.Enum):
    """How a reduction ended."""

    REDUCED = "reduced"
    STOPPED = "stopped"  # budget or interrupt: the best so far stands
    UNCONFIRMED = "unconfirmed"  # the model that the emitted script builds does not show the fault

    @property
    def exit_code(self) -> int:
        """0 for a confirmed reduction, 4 when only the best so far was written."""
        return 0 if self is Status.REDUCED else 4


class DoesNotFailError(OnnxReduceError):
    """The original model does not show a fault under the oracle (exit code 1)."""

    exit_code = 1


@dataclass(frozen=True)
class Reduction:
    """A finished reduction.

    `model` has its weights inside; `inputs` are its graph inputs. `summary` is what `summary.json` holds. `folder` is
    where everything was written, or None.
    """

    status: Status
    model: ModelProto
    inputs: Mapping[str, np.ndarray]
    summary: Mapping[str, Any]
    folder: Path | None

    @property
    def nodes_before(self) -> int:
        """Nodes of the original, functions inlined and constants lifted."""
        return int(self.summary["nodes_before"])

    @property
    def nodes_after(self) -> int:
        """Nodes that are left."""
        return int(self.summary["nodes_after"])
