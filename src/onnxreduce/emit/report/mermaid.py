"""A small model as a Mermaid flowchart, which GitHub draws. Syntax: https://mermaid.js.org/syntax/flowchart.html."""

from __future__ import annotations

import re
from collections.abc import Collection

from onnx import ModelProto

from onnxreduce.emit.report.picture import Box, Picture, picture

MOST_BOXES = 80
"""Nodes, inputs and outputs; with more the drawing cannot be read."""

_SHAPES = {"node": ('["', '"]'), "weight": ('[("', '")]'), "input": ('(["', '"])'), "output": ('(["', '"])')}
_STYLES = """\
  classDef wrong stroke:#d1242f,stroke-width:3px
  classDef value stroke-dasharray:4"""


def mermaid(model: ModelProto, wrong: Collection[str]) -> str:
    """The flowchart's source, wrong outputs marked; empty where the model is too large to be drawn."""
    drawn = picture(model, wrong)
    if len(drawn.boxes) > MOST_BOXES:
        return ""
    return "\n".join(["flowchart TD", *map(_box, drawn.boxes), *_arrows(drawn), _STYLES])


def label(text: str) -> str:
    """A label's text: all but letters, digits and harmless signs become character codes."""
    return re.sub(r"[^\w .,:/=×+-]", lambda match: f"#{ord(match[0])};", text, flags=re.ASCII)


def _box(box: Box) -> str:
    opening, closing = _SHAPES[box.kind]
    text = "<br/>".join(label(line) for line in box.lines)
    marked = ":::wrong" if box.wrong else "" if box.kind == "node" else ":::value"
    return f"  b{box.at}{opening}{text}{closing}{marked}"


def _arrows(drawn: Picture) -> list[str]:
    texts = [f'|"{label(edge.text)}"|' if edge.text else "" for edge in drawn.edges]
    return [f"  b{edge.source} -->{text} b{edge.target}" for edge, text in zip(drawn.edges, texts, strict=True)]
