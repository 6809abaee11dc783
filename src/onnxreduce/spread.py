"""Options that several commands share, written down once: typer itself knows only flat functions."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """A command for typer in which each parameter that is a dataclass becomes one parameter for each of its fields."""
    groups: dict[str, tuple[Callable[..., Any], list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        kind = hints[name]
        if dataclasses.is_dataclass(kind):
            assert isinstance(kind, type)
            inner = get_type_hints(kind, include_extras=True)
            fields = inspect.signature(kind).parameters.values()
            groups[name] = (kind, [field.name for field in fields])
            parameters += [field.replace(annotation=inner[field.name]) for field in fields]
        else:
            parameters.append(parameter.replace(annotation=kind))
    flat = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]

    @functools.wraps(command)
    def expanded(**given: Any) -> None:
        made = {name: kind(**{field: given.pop(field) for field in fields}) for name, (kind, fields) in groups.items()}
        command(**made, **given)

    expanded.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return expanded
