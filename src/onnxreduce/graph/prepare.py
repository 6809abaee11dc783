"""From what a user gives (a model file or object, inputs in any accepted form) to a model with its feeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from onnx import ModelProto

from onnxreduce.errors import BadInputError
from onnxreduce.graph.input_files import ordered_inputs, read_inputs
from onnxreduce.graph.inputs import prepare_inputs
from onnxreduce.graph.model import Model, load
from onnxreduce.graph.tensors import StoredTensor

GivenInputs = Path | str | Mapping[str, np.ndarray]


@dataclass(frozen=True)
class InputOptions:
    """How to come by inputs that are not given: expressions and dimensions by name, and the seed of made values.

    Raises BadInputError for a negative seed.
    """

    expressions: Mapping[str, str] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise BadInputError(f"the seed {self.seed} is not a whole number of at least 0")


@dataclass(frozen=True)
class Subject:
    """A model as it was loaded, its inputs, and lines for the user on what was chosen for them."""

    model: Model
    feeds: Mapping[str, StoredTensor]
    notes: list[str]


def prepare(model: Path | str | ModelProto, inputs: GivenInputs | None, options: InputOptions) -> Subject:
    """Load a model and its inputs; raises BadInputError with the reason when either is not usable."""
    loaded = load(model)
    given: dict[str | int, StoredTensor] = {}
    if isinstance(inputs, Mapping):
        for name, array in inputs.items():
            try:
                given[name] = StoredTensor.from_array(np.asarray(array))
            except (TypeError, ValueError) as error:
                raise BadInputError(f"input {name!r}: {error}") from error
    elif inputs is not None:
        given.update(read_inputs(Path(inputs), ordered_inputs(loaded.proto)))
    prepared = prepare_inputs(
        loaded.proto.graph.input, given, options.expressions, options.dims, options.seed, loaded.proto
    )
    return Subject(loaded, prepared.feeds, prepared.notes)
