"""What onnxruntime asks of a file of operator tests, as a JSON schema.

After `op-test-schema.json` in `js/web/test` of microsoft/onnxruntime; with float16, which the test data there uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_TYPES = [
    "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
    "string",
]  # fmt: skip
_ATTRIBUTES = {"int": "integer", "float": "number", "string": "string"}


def _object(properties: dict[str, Any], required: Sequence[str] | None = None) -> dict[str, Any]:
    required = list(properties) if required is None else list(required)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_TEXT = {"type": "string"}
_TENSOR = {
    "oneOf": [
        _object(
            {
                "type": {"enum": _TYPES},
                "data": _list({"type": ["number", "string", "boolean"]}),
                "dims": _list({"type": "integer", "minimum": 0}),
            }
        ),
        _object({"type": {"enum": _TYPES}, "data": {"type": "null"}}),
    ]
}
_ATTRIBUTE = {
    "oneOf": [
        _object(
            {
                "name": _TEXT,
                "type": {"const": kind + many},
                "data": _list({"type": json_type}) if many else {"type": json_type},
            }
        )
        for kind, json_type in _ATTRIBUTES.items()
        for many in ("", "s")
    ]
}
SCHEMA = _list(
    _object(
        {
            "name": _TEXT,
            "operator": {"type": "string", "pattern": "[A-Z][a-zA-Z]*"},
            "attributes": _list(_ATTRIBUTE),
            "opset": _object({"domain": _TEXT, "version": {"type": "integer"}}),
            "cases": _list(_object({"name": _TEXT, "inputs": _list(_TENSOR), "outputs": _list(_TENSOR)})),
            "inputShapeDefinitions": {
                "oneOf": [
                    _list({"oneOf": [_list({"type": ["integer", "string"]}), {"type": "null"}]}),
                    {"enum": ["none", "rankOnly", "static"]},
                ]
            },
            "platformCondition": _TEXT,
        },
        ["name", "operator", "cases"],
    )
)
