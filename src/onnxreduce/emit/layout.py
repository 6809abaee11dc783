"""Lay out Python expressions on lines: flat where it fits, one item a line (or filled lines of numbers) where not.

An expression is either finished text without a line break, or a `Group` of expressions between brackets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

WIDTH = 112
INDENT = 4


@dataclass(frozen=True)
class Group:
    """Expressions between `opening` and `closing` text, separated by commas.

    `filled` packs as many items on a line as fit, for long lists of numbers; `width` is the longest line for which
    the group stays flat.
    """

    opening: str
    items: tuple[Expression, ...]
    closing: str
    filled: bool = False
    width: int = WIDTH

    @cached_property
    def flat(self) -> str:
        """The whole group on one line."""
        return self.opening + ", ".join(map(flat, self.items)) + self.closing


Expression = str | Group


def flat(expression: Expression) -> str:
    """The expression on one line."""
    return expression if isinstance(expression, str) else expression.flat


def call(function: str, *arguments: Expression, width: int = WIDTH) -> Group:
    """A call of `function`."""
    return Group(f"{function}(", arguments, ")", width=width)


def listing(items: Iterable[Expression], *, filled: bool = False) -> Group:
    """A list display."""
    return Group("[", tuple(items), "]", filled=filled)


def wrap(before: str, expression: Expression, after: str = "") -> Expression:
    """Glue text to both ends of an expression, such as `name=` before it or `.reshape(2, 3)` behind."""
    if isinstance(expression, str):
        return before + expression + after
    group = expression
    return Group(before + group.opening, group.items, group.closing + after, group.filled, group.width)


def render(expression: Expression, indent: int = 0, column: int | None = None) -> str:
    """The expression as text; its first line starts at `column`, all others are indented by `indent` or more."""
    if isinstance(expression, str):
        return expression
    column = indent if column is None else column
    if not expression.items or column + len(expression.flat) + 1 <= expression.width:
        return expression.flat
    inner = " " * (indent + INDENT)
    if expression.filled:
        lines = _fill([flat(item) for item in expression.items], WIDTH - len(inner))
    else:
        lines = [render(item, indent + INDENT) + "," for item in expression.items]
    return "\n".join([expression.opening, *(inner + line for line in lines), " " * indent + expression.closing])


def _fill(texts: Sequence[str], room: int) -> list[str]:
    lines: list[str] = []
    for text in texts:
        if lines and len(lines[-1]) + len(text) + 2 <= room:
            lines[-1] += f" {text},"
        else:
            lines.append(f"{text},")
    return lines
