"""What every runtime is asked and what it answers. A runtime judges nothing: it runs a model and says what happened."""

from __future__ import annotations

import enum
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.tensors import Blob, StoredTensor


class Status(enum.Enum):
    """How a run ended."""

    OK = "ok"
    CREATE_ERROR = "create error"
    RUN_ERROR = "run error"
    SHADER_ERROR = "shader error"  # run() resolved, but the device reported errors meanwhile
    HANG = "hang"
    LOST_DEVICE = "lost device"
    OUT_OF_MEMORY = "out of memory"
    DEAD = "dead process"  # the page, browser or child process went away


@dataclass(frozen=True)
class RunRequest:
    """A model to run once, or `repeats` times more in the same session, fewer where that takes `REPEAT_SECONDS`.

    `model` is a serialised `ModelProto`. Each of its initializers with external data names a location that is a key
    of `external`; the blob there is that tensor's whole raw data (offset 0). `feeds` gives every graph input.
    """

    model: bytes
    feeds: Mapping[str, StoredTensor]
    outputs: Sequence[str]
    external: Mapping[str, Blob] = field(default_factory=dict)
    repeats: int = 0


REPEAT_SECONDS = 5.0


def request(candidate: Candidate, repeats: int = 0) -> RunRequest:
    """What a runtime needs of a candidate."""
    model = candidate.model.proto.SerializeToString()
    return RunRequest(model, candidate.feeds, candidate.outputs, candidate.external, repeats)


@dataclass(frozen=True)
class RunResult:
    """What one run gave.

    `outputs` holds numpy arrays by output name (also under SHADER_ERROR, where they are what `run()` resolved with).
    `message` is the runtime's error text, whole; `seconds_create`, `seconds_run` (of the first run, outputs brought to
    the CPU) and `repeated` (the same of each further one) were measured beside the runtime.
    """

    status: Status
    outputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    message: str = ""
    seconds_create: float = 0.0
    seconds_run: float = 0.0
    repeated: Sequence[float] = ()

    @property
    def seconds(self) -> float:
        """Time spent in the runtime itself."""
        return self.seconds_create + self.seconds_run + sum(self.repeated)

    @property
    def seconds_again(self) -> float:
        """The median of the further runs, 0 where there were none."""
        return statistics.median(self.repeated) if self.repeated else 0.0


class Runtime(Protocol):
    """One target, ready to run models. Not thread-safe."""

    def run(self, request: RunRequest, *, timeout: float, fresh: bool = False) -> RunResult:
        """Run a model; `fresh` asks for a new instance of the runtime that has run nothing before.

        `timeout` is in seconds; a run past it is killed and reported as HANG. After any error the next run starts
        clean. Raises SetupError when the target cannot run anything at all.
        """

    def describe(self) -> Mapping[str, str]:
        """Facts for the record, such as runtime, version, bundle, wasm file, provider, browser, adapter, features."""

    def close(self) -> None:
        """Release everything; nothing is left running."""
