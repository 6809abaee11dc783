"""What a person sees: progress by tqdm, tables by rich. Text from models is never read as markup."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from onnxreduce.difference_table import MOST_ROWS, differences_table
from onnxreduce.oracle.spec import OracleSpec
from onnxreduce.oracle.verdict import Outcome
from onnxreduce.reduction.problem import Problem
from onnxreduce.reduction.result import Reduction, Status
from onnxreduce.reduction.rounds import Pass
from onnxreduce.reduction.shrink import Shrinking
from onnxreduce.reduction.watcher import Watcher
from onnxreduce.words import printable, safe

if TYPE_CHECKING:
    from onnxreduce.api import Check
    from onnxreduce.explain.bisect import VersionBisection
    from onnxreduce.explain.localize import Localization
    from onnxreduce.runtimes.doctor import Finding

MOST_BLAMED = 5
NARROW = 12
"""Columns that are left for what matters on the narrowest terminals."""
_ENDINGS = {
    Status.REDUCED: "reduced",
    Status.STOPPED: "stopped early: the best so far was written",
    Status.UNCONFIRMED: "NOT confirmed: do not report this result as it is",
}


class Progress:
    """Lines for stages, and one bar of removed nodes with oracle calls and time."""

    def __init__(self) -> None:
        self._bar: tqdm[Any] | None = None
        self._begun = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def stage(self, text: str) -> None:
        """A line on what is being done."""
        line = f"[{time.monotonic() - self._begun:6.1f} s] {printable(' '.join(text.split()))}"
        if self._bar is not None:
            self._bar.clear()
        with contextlib.suppress(OSError):  # the terminal may be gone: no reason to stop
            print(line, file=sys.stderr, flush=True)
        if self._bar is not None:
            self._bar.refresh()

    def watcher(self) -> Watcher:
        """For the library."""
        return Watcher(self.stage, self._progress, self._shrinking)

    def _shrinking(self, problem: Shrinking) -> None:
        if self._bar is not None:
            nodes, ends, elements = problem.best_size[:3]
            text = f"{nodes} nodes, {ends} inputs, outputs and initializers, {elements} elements, "
            text += f"{problem.journal.calls} oracle calls, {time.monotonic() - self._begun:.0f} s"
            self._bar.set_description_str(text, refresh=True)

    def _progress(self, problem: Problem) -> None:
        if self._bar is None:
            self._bar = tqdm(
                total=problem.size - 1,
                unit="node",
                bar_format="reducing |{bar:24}| {desc}",
                file=sys.stderr,
                leave=True,
                dynamic_ncols=True,
                disable=None,  # where nobody watches, a bar is noise
            )
        self._bar.n = problem.size - len(problem.reached)
        elapsed = time.monotonic() - self._begun
        left = f"{len(problem.reached)} of {problem.size} nodes left"
        text = f"{left}, {problem.journal.calls} oracle calls, {elapsed:.0f} s"
        self._bar.set_description_str(text, refresh=True)


def show_reduction(console: Console, reduction: Reduction) -> None:
    """The final table."""
    summary = reduction.summary
    table = Table(title=f"{_ENDINGS[reduction.status]}", show_header=False, title_justify="left", title_style="bold")
    table.add_column(style="dim", overflow="fold")
    table.add_column(overflow="fold", min_width=NARROW)
    operators = ", ".join(summary["operators"][:MOST_ROWS])
    share = 100 * summary["seconds_in_runtime"] / max(summary["seconds"], 1e-9)
    rows = {
        "nodes": f"{summary['nodes_before']} → {summary['nodes_after']}",
        "operators": operators + (" ..." if len(summary["operators"]) > MOST_ROWS else ""),
        "fault": _fault(summary),
        "oracle": summary["oracle"],
        "1-minimal": "yes: no single node can go" if summary["one_minimal"] else "not shown",
        "confirmed": "yes: built by the emitted script, judged in a fresh runtime"
        if summary["confirmed_fresh"]
        else f"no: {summary.get('not_confirmed', '')}",
        "fault shows in": summary["reliability"],
        "changed": "; ".join(f"{kind}: {text}" for kind, text in summary.get("changed", {}).items()),
        "oracle calls": _calls(summary),
        "also found": ", ".join(summary.get("also_found", ())),
        "time": f"{summary['seconds']:.1f} s, {share:.0f} % of it in the runtimes",
        "suspect": summary["runtime"],
        "reference": summary["reference"],
        "browser": summary["browser"],
        "adapter": _adapter(summary),
        "written to": str(reduction.folder or ""),
    }
    for key, value in rows.items():
        if value:
            table.add_row(key, safe(value))
    console.print(table)


def show_check(console: Console, check: Check) -> None:
    """Verdict, targets, and a table of differences per output."""
    verdict = check.golden.verdict
    for side, facts in check.targets.items():
        words = [facts.get(key) for key in ("runtime", "version", "provider", "bundle", "browser_version", "adapter")]
        console.print(f"{side}: {safe(' '.join(word for word in words if word))}", highlight=False)
    if verdict.differences:
        console.print(differences_table(verdict.differences, width=console.width))
    if verdict.outcome is Outcome.FAILS:
        console.print(f"[bold red]fails[/]: {safe(str(verdict.signature))}", highlight=False)
        if verdict.message:
            console.print(safe(verdict.message[:2000]), style="dim", highlight=False)
    elif verdict.outcome is Outcome.PASSES:
        console.print(f"[bold green]agrees[/]: {len(verdict.differences)} outputs", highlight=False)


def show_localization(console: Console, found: Localization) -> None:
    """Where it begins, and what looking changed."""
    if found.golden.outcome is Outcome.PASSES:
        console.print("[bold green]agrees[/]: there is nothing to localize")
        return
    wrong = found.golden.wrong_outputs
    console.print(
        f"[bold red]fails[/]: {safe(str(found.golden.signature))}, {len(wrong)} outputs wrong", highlight=False
    )
    if found.suspects:
        first, last = min(found.suspects), max(found.suspects)
        text = f"{len(found.suspects)} nodes, from {first} to {last}, feed every wrong output and no right one"
        console.print(text, highlight=False)
    console.print(
        f"{len(found.wrong)} of {found.compared} values differ when exposed, in {found.runs} runs", highlight=False
    )
    for text in found.broken:
        console.print(f"[yellow]a run with exposed values breaks[/]: {safe(text)}", highlight=False)
    if found.healed:
        text = (
            f"exposing values heals: {len(found.healed)} of {len(wrong)} wrong outputs became right in every such run"
        )
        console.print(f"[yellow]{text}[/]; a value that looks right then says nothing", highlight=False)
    if found.wrong:
        console.print(differences_table([value.difference for value in found.wrong], width=console.width, ordered=True))
        begin = found.wrong[0]
        console.print(f"begins at node {begin.node}: {safe(begin.operator)} {safe(begin.name)}", highlight=False)
    if found.blamed:
        rest = f" and {len(found.blamed) - MOST_BLAMED} more" if len(found.blamed) > MOST_BLAMED else ""
        text = ", ".join(found.blamed[:MOST_BLAMED]) + rest
        console.print(f"[yellow]the error itself names[/] {safe(text)}", highlight=False)
    if found.moved is not None:
        console.print(f"healed by moving to the CPU: {safe(', '.join(found.moved))}", highlight=False)


def show_bisection(console: Console, found: VersionBisection) -> None:
    """The versions that were judged, and where the outcome changes."""
    table = Table()
    for name in ("version", "outcome", "note"):
        table.add_column(name, overflow="fold")
    for step in found.steps:
        table.add_row(safe(step.version), step.outcome.value, safe(step.note))
    console.print(table)
    if found.changed is None:
        console.print("the outcome does not change in this range")
    else:
        old, new = found.changed
        console.print(f"{old.version} {old.outcome.value}, {new.version} {new.outcome.value}", highlight=False)


def show_findings(console: Console, findings: Sequence[Finding]) -> None:
    """The doctor's table."""
    table = Table(show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(style="bold", overflow="fold")
    table.add_column(overflow="fold", min_width=NARROW)
    for finding in findings:
        text = safe(finding.value)
        if finding.advice and not finding.ok:
            text += f"\n[yellow]{safe(finding.advice)}[/]"
        bad = "[red]missing[/]" if finding.needed else "[yellow]note[/]"
        table.add_row("[green]ok[/]" if finding.ok else bad, safe(finding.name), text)
    console.print(table)


def show_oracles(console: Console, oracles: Sequence[OracleSpec]) -> None:
    """One line each."""
    rows = [(each.name, f"{each.description} ({each.reference} | {each.suspect})") for each in oracles]
    _show_list(console, rows)


def show_passes(console: Console, passes: Sequence[Pass]) -> None:
    """One line each."""
    forbid = " (--keep {} forbids it)"
    _show_list(console, [(one.name, one.help + (forbid.format(one.changes) if one.changes else "")) for one in passes])


def _show_list(console: Console, rows: Sequence[tuple[str, str]]) -> None:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", overflow="fold")
    table.add_column(min_width=NARROW)
    for name, text in rows:
        table.add_row(safe(name), safe(text))
    console.print(table)


def _fault(summary: Any) -> str:
    original = str(summary["signature"])
    reduced = str(summary.get("signature_reduced", original))
    return original if reduced == original else f"{original} in the original, {reduced} in the reduced model"


def _calls(summary: Any) -> str:
    total = f"{summary['oracle_calls']} ({summary['full_model_equivalents']:g} full-model equivalents)"
    if summary.get("wasted_calls"):
        total += f", and {summary['wasted_calls']} judged ahead for nothing"
    deletion = summary.get("deletion")
    if not deletion:
        return total
    return f"{total}; deletion alone {deletion['oracle_calls']} ({deletion['full_model_equivalents']:g})"


def _adapter(summary: Any) -> str:
    kind = {"yes": " (software)", "no": " (hardware)"}.get(summary["adapter_software"], "")
    return f"{summary['adapter']}{kind}" if summary["adapter"] else ""
