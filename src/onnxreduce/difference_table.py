"""How outputs differ, as a table that fits the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.table import Table

from onnxreduce.oracle.comparison import Difference
from onnxreduce.oracle.signature import Kind
from onnxreduce.words import safe

MOST_ROWS = 40
WIDE = 100
"""Columns from which on there is room for more measures of a difference."""
_MORE: Mapping[str, Callable[[Difference], str]] = {
    "cosine": lambda one: "" if one.cosine is None else f"{one.cosine:.6f}",
    "ULP": lambda one: "" if one.ulp is None else str(one.ulp) if one.ulp < 1e6 else f"{one.ulp:.1e}",
    "NaN": lambda one: f"{one.nan} from {_place(one.first_nan)}" if one.nan else "",
}


def differences_table(differences: Sequence[Difference], *, width: int, ordered: bool = False) -> Table:
    """A row for each output, wrong ones first, or for each value in the given order, on so many columns."""
    table = Table()
    more = _MORE if width >= WIDE else {}
    table.add_column("value" if ordered else "output", overflow="fold", min_width=6)
    table.add_column("type", overflow="fold")
    for name in ("max diff", "of scale", *more, "wrong", "first"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    shown = list(differences) if ordered else sorted(differences, key=lambda difference: difference.kind is None)
    shown = shown[:MOST_ROWS]
    for one in shown:
        measured = one.kind not in (Kind.WRONG_SHAPE, Kind.WRONG_DTYPE)
        table.add_row(
            safe(one.output),
            safe(f"{one.dtype} {list(one.shape)}"),
            f"{one.absolute:.2g}" if measured else "",
            f"{one.relative:.1e}" if measured else "",
            *(show(one) if measured else "" for show in more.values()),
            f"{one.wrong}/{one.total}" if one.kind and measured else "",
            _place(one.first) if one.first else "",
            f"[red]{safe(one.kind.value)}[/] {safe(one.note)}" if one.kind else "[green]agrees[/]",
        )
    if len(differences) > len(shown):
        table.caption = f"{len(differences) - len(shown)} more outputs"
    return table


def _place(index: Sequence[int]) -> str:
    return safe(str(list(index)).replace(" ", ""))
