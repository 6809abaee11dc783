"""Whether a run goes on from an earlier one in its folder, starts over, is done already, or must not touch it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from onnxreduce import emit
from onnxreduce.emit.folder import DATA_SET, MODEL_NAME
from onnxreduce.errors import BadInputError, OnnxReduceError
from onnxreduce.graph.input_files import ordered_inputs, read_inputs
from onnxreduce.graph.inputs import named_inputs
from onnxreduce.oracle.verdict import Oracle
from onnxreduce.reduction.identity import VALUES, Facts, difference, difference_of_targets, ran_with
from onnxreduce.reduction.past import Past, read
from onnxreduce.reduction.result import Reduction, Status


def earlier(
    journal: Path, about: Facts, oracle: Oracle, stage: Callable[[str], None], ours: Sequence[str]
) -> Past | None:
    """What an earlier run about the same has left in a journal; None where there is nothing to go on from.

    `ours`: names that a run writes beside it. Raises BadInputError, the folder left as it is, where the journal is of
    another run; SetupError where the runtimes do not start, whose versions must be the same.
    """
    folder = journal.parent
    try:
        past = read(journal)
    except OSError as error:
        raise BadInputError(f"{journal} cannot be read: {error.strerror or error}") from error
    if not past.header:
        others = [name for name in ours if name != journal.name and (folder / name).exists()]
        if others:
            raise _refusal(folder, "its journal cannot be read")
        return None
    try:
        known = dict(past.header.get("about", {}))
        known.pop(VALUES, None)
        told = difference(known, about) or difference_of_targets(past.header.get("targets", {}), ran_with(oracle))
    except (TypeError, ValueError, AttributeError):
        raise _refusal(folder, "its journal cannot be read") from None
    if told:
        raise _refusal(folder, told)
    if past.torn:
        stage(f"line {past.torn} of {journal.name} is torn: it and what follows are ignored")
    emit.finish(folder)
    return past


def finished(folder: Path) -> Reduction | None:
    """The reduction that a folder holds, where it is one that was brought to its end and confirmed."""
    try:
        summary = json.loads((folder / "summary.json").read_text("utf-8"))
        if summary.get("status") != Status.REDUCED.value:
            return None
        model = onnx.load(folder / MODEL_NAME)
        given = read_inputs(folder / DATA_SET, ordered_inputs(model))
        inputs = {name: tensor.array for name, tensor in named_inputs(model, given).items()}
    except (OSError, ValueError, AttributeError, DecodeError, RecursionError, OnnxReduceError):
        return None  # something was taken away: it is written again
    return Reduction(Status.REDUCED, model, inputs, summary, folder)


def _refusal(folder: Path, reason: str) -> BadInputError:
    return BadInputError(f"output folder {folder} holds another run ({reason}); choose another or add --force")
