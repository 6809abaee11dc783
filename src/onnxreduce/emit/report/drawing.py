"""Boxes and arrows as inline SVG. graphlay lays them out in layers; the colours are the page's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import graphlay

from onnxreduce.emit.report.picture import Box, Picture
from onnxreduce.emit.report.templates import rendered

MOST_BOXES = 260
"""More are not drawn: neither the eye nor the layout takes them."""

_LINE, _LETTER, _PADDING = 16, 7.2, 10
"""Pixels: height of a line, width of a letter at 12 px in a monospaced font, room around the text."""
_LABEL_LETTER = 6.1


@dataclass(frozen=True)
class Placed:
    """A box with its upper left corner."""

    box: Box
    x: float
    y: float
    width: float
    height: float


def drawing(picture: Picture, name: str, spoken: str) -> str:
    """The SVG; empty for a picture without boxes or with too many. `spoken` is what a screen reader says."""
    if not 0 < len(picture.boxes) <= MOST_BOXES:
        return ""
    graph = graphlay.Graph()
    for box in picture.boxes:
        width, height = _size(box)
        graph.node(box.at, width=width, height=height)
    for edge in picture.edges:
        label: dict[str, Any] = (
            {"label_size": {"width": len(edge.text) * _LABEL_LETTER + 8, "height": 16}} if edge.text else {}
        )
        graph.edge(edge.source, edge.target, **label)
    laid = graphlay.layout(graph, options={"direction": "topbottom"})
    low, high = laid.bounds["min"], laid.bounds["max"]
    placed = [_placed(box, laid.positions()[box.at]) for box in picture.boxes]
    edges = [
        {"path": _path(line["points"]), "text": edge.text, "at": line["label_anchor"]}
        for edge, line in zip(picture.edges, laid.edges, strict=True)
    ]
    margin = 12
    return rendered(
        "drawing.html",
        name=name,
        spoken=spoken,
        box=(
            low["x"] - margin,
            low["y"] - margin,
            high["x"] - low["x"] + 2 * margin,
            high["y"] - low["y"] + 2 * margin,
        ),
        placed=placed,
        edges=edges,
        line=_LINE,
        padding=_PADDING,
    )


def _size(box: Box) -> tuple[float, float]:
    return max(map(len, box.lines), default=1) * _LETTER + 2 * _PADDING, len(box.lines) * _LINE + _PADDING


def _placed(box: Box, centre: tuple[float, float]) -> Placed:
    width, height = _size(box)
    return Placed(box, centre[0] - width / 2, centre[1] - height / 2, width, height)


def _path(points: list[dict[str, Any]]) -> str:
    return "M" + " L".join(f"{point['x']:.1f},{point['y']:.1f}" for point in points)
