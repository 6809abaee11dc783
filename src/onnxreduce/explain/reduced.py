"""The folder that a reduction has left, read again: the model with its inputs, and the oracle under which it fails."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from onnxreduce.errors import BadInputError
from onnxreduce.graph.candidate import Candidate, whole
from onnxreduce.graph.prepare import InputOptions, prepare
from onnxreduce.oracle.build import BuiltOracle, Setup, refuse_idle
from onnxreduce.oracle.rebuild import rebuild
from onnxreduce.oracle.signature import Signature
from onnxreduce.oracle.spec import OracleSpec
from onnxreduce.oracle.verdict import Oracle


@dataclass(frozen=True)
class Reduced:
    """A reduced model in its folder. `summary`: what `summary.json` holds. `signature`: how the reduced model fails."""

    folder: Path
    candidate: Candidate
    summary: Mapping[str, Any]
    signature: Signature

    @property
    def spec(self) -> OracleSpec | None:
        """The two targets; None where the oracle was a command or a function."""
        record = self.summary["oracle_record"]
        return OracleSpec.from_json(record) if "suspect" in record else None

    @property
    def ort_web(self) -> str | None:
        """The version or local build of onnxruntime-web that `--ort-web` asked for."""
        found: str | None = self.summary["oracle_record"].get("ort_web")
        return found

    def oracle(self, setup: Setup) -> Oracle:
        """The oracle of the reduction, built again; the caller closes it.

        What `ort_web` asks for, of the setup or of the reduction, goes into its targets: others can be run beside it.
        """
        spec, ort_web = self.spec, setup.ort_web or self.ort_web
        if spec is None:
            return rebuild(self.summary["oracle_record"], setup)
        refuse_idle(setup, spec.name, (spec.reference.runtime, spec.suspect.runtime))
        return BuiltOracle(spec.at_ort_web(ort_web) if ort_web else spec, replace(setup, ort_web=None))


def read_reduced(folder: Path) -> Reduced:
    """Read a folder that `onnxreduce MODEL` has written. Raises BadInputError that says what is missing or damaged."""
    try:
        summary = json.loads((folder / "summary.json").read_text("utf-8"))
        signature = Signature.parse(summary.get("signature_reduced", summary["signature"]))
        record = summary["oracle_record"]
        if "suspect" in record:
            OracleSpec.from_json(record)
        elif "custom" not in record:
            raise BadInputError(f"{folder}: its oracle was an object of a program, which cannot be built again")
    except FileNotFoundError:
        raise BadInputError(f"{folder} is no folder of a finished reduction: it has no summary.json") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadInputError(f"{folder / 'summary.json'} cannot be read: {type(error).__name__}: {error}") from error
    subject = prepare(folder / "reduced.onnx", folder / "test_data_set_0", InputOptions())
    return Reduced(folder, whole(subject.model, subject.feeds), summary, signature)
