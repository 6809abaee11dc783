"""An oracle again from its record: in another process, or from the folder of a reduction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxreduce.errors import BadInputError
from onnxreduce.oracle.build import BuiltOracle, Setup
from onnxreduce.oracle.custom import custom
from onnxreduce.oracle.spec import OracleSpec
from onnxreduce.oracle.verdict import Oracle


def rebuild(record: Mapping[str, Any], setup: Setup) -> Oracle:
    """The oracle that gave this record (`as_record`); the caller closes it. Raises BadInputError where none can."""
    if "suspect" in record:
        return BuiltOracle(OracleSpec.from_json(record), setup)
    if "custom" in record:
        is_command = record["custom"].startswith("command:")
        built = custom(record["custom"], record["timeout"] if is_command else None)
        if built is not None:
            return built
    raise BadInputError("the oracle was an object of a program, which cannot be built again")
