"""Nodes left over oracle calls and over time, as inline SVG whose colours are the page's."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape

import pygal
from pygal.style import Style

from onnxreduce.emit.report.facts import Facts

Points = Sequence[tuple[float, float]]
_WIDTH, _HEIGHT, _FONT = 560, 320, 15
_RATIO = 20
"""From this ratio of first to last on, the axis of nodes is logarithmic."""


def curves(facts: Facts) -> list[str]:
    """Two charts, over calls and over seconds; none where the journal tells no steps."""
    if not facts.steps:
        return []
    before, after = facts.summary["nodes_before"], facts.summary["nodes_after"]
    lines: list[tuple[str, Points]] = []
    for axis, key, end in (
        ("oracle calls", "calls", facts.summary.get("oracle_calls", 0)),
        ("seconds", "at", facts.summary.get("seconds", 0)),
    ):
        lines.append((axis, _stairs(before, [(float(step[key]), step["left"]) for step in facts.steps], float(end))))
    return [_chart(axis, line, f"{before} to {after}") for axis, line in lines]


def _stairs(before: int, steps: Points, end: float) -> Points:
    """Corners of the curve: it stays where it is until a step lowers it."""
    corners: list[tuple[float, float]] = [(0.0, float(before))]
    for at, left in steps:
        if left != corners[-1][1]:
            corners += [(at, corners[-1][1]), (at, float(left))]
    return [*corners, (max(end, corners[-1][0]), corners[-1][1])]


def _chart(axis: str, line: Points, what: str) -> str:
    most, least = max(left for _, left in line), min(left for _, left in line)
    marks = _marks(most) if most >= _RATIO * max(least, 1) else []
    height = math.log10 if marks else float
    style = Style(
        background="none",
        plot_background="none",
        foreground="var(--ink)",
        foreground_strong="var(--ink)",
        foreground_subtle="var(--line)",
        colors=("var(--accent)",),
        font_family="inherit",
        label_font_size=_FONT,
        major_label_font_size=_FONT,
        title_font_size=_FONT,
        tooltip_font_size=_FONT,
    )
    chart = pygal.XY(
        width=_WIDTH,
        height=_HEIGHT,
        range=(0, height(most)),
        show_legend=False,
        show_dots=False,
        style=style,
        js=[],
        x_title=axis,
        y_title="nodes left",
        truncate_label=-1,
        stroke_style={"width": 2.5},
        value_formatter=lambda left: f"{left:g}",
        y_labels=[{"label": str(mark), "value": height(mark)} for mark in marks] or None,
        x_value_formatter=lambda at: f"{at:g}",
    )
    chart.add("nodes left", [(at, height(max(left, 1)) if marks else left) for at, left in line])
    chart.uuid = f"curve-{axis.split()[-1]}"
    drawn: str = chart.render(is_unicode=True, disable_xml_declaration=True)
    name = escape(f"Nodes left over {axis}: from {what}")
    drawn = re.sub(r"<!--.*?-->|<script.*?</script>", "", drawn, flags=re.DOTALL)
    return re.sub(r"<svg ", f'<svg role="img" aria-label="{name}" ', drawn, count=1)


def _marks(most: float) -> list[int]:
    """Powers of ten, and where the curve begins."""
    powers = [10**power for power in range(math.floor(math.log10(most)) + 1)]
    return [*(mark for mark in powers if mark < most / 2), int(most)]
