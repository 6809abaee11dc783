"""The reports' templates (Jinja). In HTML every value is escaped unless a template says otherwise."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from onnxreduce.emit.report.markdown import block, code, comment, item, prose, table


def rendered(template: str, /, **values: Any) -> str:
    """A template filled in."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("onnxreduce.emit.report", "templates"),
        autoescape=select_autoescape(["html"], default=False),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for filter_ in (code, prose, item, block, comment, table):
        made.filters[filter_.__name__] = filter_
    return made
