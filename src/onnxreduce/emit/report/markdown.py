"""Text from a model in GitHub's Markdown: shown as it is, never as markup, a mention, a link or HTML.

Names come from files that anybody may have written. Rules: https://github.github.com/gfm/.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from onnxreduce.emit.report.contents import Table

LONGEST = 200
"""Characters of a name or message in a table."""

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~&$])")
_OPENING = re.compile(r"^(\s*)(?=[-+=#])|^(\s*\d+)(?=[.)]\s)")  # begins a list or a heading
_LIVE = re.compile(r"@|#\d|://|www\.|\bGH-", re.IGNORECASE)  # what GitHub turns into mentions, references and links


def code(text: object) -> str:
    """A code span; within a table `cell` is what is needed."""
    plain = visible(str(text)) or " "
    run = max((len(ticks) for ticks in re.findall(r"`+", plain)), default=0)
    fence = "`" * (run + 1)
    space = " " if run or plain.strip() != plain else ""
    return f"{fence}{space}{plain}{space}{fence}"


def prose(text: object) -> str:
    """A sentence: what would be markup is escaped, and words that GitHub would make live become code."""
    return _escaped(visible(str(text), longest=2000), code)


def item(text: object) -> str:
    """A sentence that stands first in its line."""
    return _OPENING.sub(r"\g<0>\\", prose(text))


def cell(text: str) -> str:
    """A sentence in a table, where bars count in code spans too."""
    return _escaped(visible(text), lambda word: code(word).replace("|", "\\|"))


def _escaped(text: str, live: Callable[[str], str]) -> str:
    words = text.split(" ")
    return " ".join(live(word) if _LIVE.search(word) else _SPECIAL.sub(r"\\\1", word) for word in words)


def block(text: str, language: str = "") -> str:
    """A fenced block."""
    run = max((len(ticks) for ticks in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (run + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def table(found: Table) -> str:
    """A table, numbers and all as text; the last line says how many rows were left out."""
    head = "| " + " | ".join(map(prose, found.head)) + " |"
    rows = ["| " + " | ".join(map(cell, row)) + " |" for row in found.rows]
    more = [f"\n{found.more} more rows are in `explanation.json`."] if found.more else []
    return "\n".join([head, "|" + " --- |" * len(found.head), *rows, *more])


def comment(text: object) -> str:
    """Inside of an HTML comment, which nothing may end early."""
    return visible(str(text)).replace("--", "- -").replace(">", "›")


def visible(text: str, longest: int = LONGEST) -> str:
    """One line without control characters and without those that change the direction of text."""
    plain = "".join(
        letter if letter.isprintable() else " " if letter in "\n\r\t" else ascii(letter)[1:-1] for letter in text
    )
    return plain if len(plain) <= longest else plain[:longest] + " …"
