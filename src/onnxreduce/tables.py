"""An explanation as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from onnxreduce.explain.explanation import Explanation, Measured, Neighbour, Variant
from onnxreduce.oracle.signature import WRONG_VALUES
from onnxreduce.terminal import NARROW
from onnxreduce.words import safe

KINDS = ("node", "order", "input", "output", "attribute", "dimension", "value")
"""Kinds of neighbours in the order in which a reader wants to know."""
REASON = 72
"""Characters of a reason in a table; all of it is in `explanation.json`."""
SHOWN = 12
"""Rows of each kind in the short form."""
_WRONG = tuple(kind.value for kind in WRONG_VALUES)


def show_explanation(console: Console, found: Explanation, *, short: bool = False) -> None:
    """What heals and what does not, other ways to run the model, and what was found out. `short`: for most readers."""
    for each in found.findings:
        console.print(f"[bold]{safe(each.statement)}[/] ({safe(each.confidence)})", highlight=False)
    if found.neighbours:
        console.print(_neighbours(found, SHOWN if short else len(found.neighbours)))
    if found.variants:
        console.print(_groups(found.variants) if short else _variants(found.variants, found.reduced))
    facts = []
    if found.closest is not None:
        facts.append(f"nearest model that is right: {_words(found.closest)} (build_repro.py --variant passing)")
    if found.optimizers:
        facts.append(f"healed by disabling {', '.join(found.optimizers)}")
    if found.changed is not None:
        outcomes = dict(found.bisection)
        facts.append(", ".join(f"{version} {outcomes[version]}" for version in found.changed))
    for text in facts:
        console.print(safe(text), highlight=False)
    for part, reason in found.notes.items():
        console.print(f"[yellow]{safe(part)}[/]: {safe(reason)}", highlight=False)


def _neighbours(found: Explanation, most: int) -> Table:
    ordered = sorted(found.neighbours, key=lambda each: KINDS.index(each.kind))
    right = [each for each in ordered if each.heals]
    wrong = [each for each in ordered if not each.heals]
    title = f"with one thing changed: {len(right)} right, {len(wrong)} not"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("change", overflow="fold", min_width=NARROW)
    table.add_column("result", overflow="fold", min_width=6)
    shown = [*right[:most], *wrong[:most]]
    for each in shown:
        table.add_row(safe(_words(each)), _outcome(each.result, found.reduced))
    if len(shown) < len(found.neighbours):
        table.caption = f"{len(found.neighbours) - len(shown)} more in explanation.json"
    return table


def _variants(variants: Sequence[Variant], reduced: Measured | None) -> Table:
    table = Table(title="unchanged, run in another way", title_justify="left", title_style="bold")
    table.add_column("varied", overflow="fold")
    table.add_column("value", overflow="fold", min_width=NARROW)
    table.add_column("result", overflow="fold", min_width=NARROW)
    table.add_column("of scale", justify="right", no_wrap=True)
    group = ""
    for each in variants:
        if group and each.group != group:
            table.add_section()
        text = _outcome(each.result, reduced) + (
            f": {_reason(each.result)}" if each.result.outcome == "not run" else ""
        )
        relative = each.result.relative
        table.add_row(
            safe(each.group if each.group != group else ""),
            safe(_name(each)),
            text,
            "" if relative is None else f"{relative:.1e}",
        )
        group = each.group
    return table


def _groups(variants: Sequence[Variant]) -> Table:
    """One row for each thing that is varied."""
    table = Table(title="unchanged, run in another way", title_justify="left", title_style="bold")
    table.add_column("varied", overflow="fold")
    for name in ("right", "not right"):
        table.add_column(name, overflow="fold", min_width=NARROW // 2)
    for group in dict.fromkeys(each.group for each in variants):
        members = [each for each in variants if each.group == group and each.result.outcome != "not run"]
        right = [_name(each) for each in members if each.result.outcome == "passes"]
        wrong = [_name(each) for each in members if each.result.outcome != "passes"]
        if members:
            table.add_row(safe(group), safe("; ".join(right)), safe("; ".join(wrong)))
    left_out = sum(each.result.outcome == "not run" for each in variants)
    if left_out:
        table.caption = f"{left_out} not run: the reasons are in explanation.json"
    return table


def _name(variant: Variant) -> str:
    implementation = variant.facts.get("implementation")
    shown = variant.group in ("bundle", "version") and implementation
    return f"{variant.name} ({implementation})" if shown else variant.name


def _outcome(measured: Measured, reduced: Measured | None) -> str:
    if measured.outcome == "passes":
        return "[green]right[/]"
    if measured.outcome != "fails":
        return f"[yellow]{measured.outcome}[/]"
    if measured.signature in _WRONG:
        return "[red]still wrong[/]" if reduced and reduced.signature in _WRONG else f"[red]{measured.signature}[/]"
    same = reduced is not None and measured.signature == reduced.signature
    return "[red]the same failure[/]" if same else f"[red]{safe(measured.signature)}[/]"


def _reason(measured: Measured) -> str:
    text = measured.message.partition("ERROR_MESSAGE: ")[2] or measured.message
    return safe(text if len(text) <= REASON else text[:REASON].rpartition(" ")[0] + " ...")


def _words(neighbour: Neighbour) -> str:
    return f"{neighbour.subject} {neighbour.change}"
