"""What both reports say, as plain tables of text: nothing in them that the folder does not hold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from onnxreduce.emit.report.facts import Facts, Json

MOST_ROWS = 60
"""Rows of a table of neighbours or variants; the rest is in `explanation.json`."""
_WEB_PROVIDERS = {"webgpu": "WebGPU", "wasm": "WebAssembly", "webnn": "WebNN", "webgl": "WebGL"}
_SHOWN_OPERATORS, _SHOWN_MESSAGE = 6, 80
"""Names of operators, and characters of an error, in a title."""
_PERCENT = 100


@dataclass(frozen=True)
class Table:
    """Rows under a head; the cells are text as it came, to be escaped by who writes it. `more`: rows left out."""

    head: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    more: int = 0

    def __bool__(self) -> bool:
        return bool(self.rows)


def number(value: object) -> str:
    """A figure with four digits at most; nothing for what was not measured."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return ""
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.4g}"
    return str(value)


def title(facts: Facts) -> str:
    """One line: which provider, what is wrong, in what, and how an error begins."""
    summary, provider = facts.summary, str(facts.suspect.get("provider", ""))
    names = list(dict.fromkeys(summary.get("operators", [])))
    shown = ", ".join(names[:_SHOWN_OPERATORS]) + (", …" if len(names) > _SHOWN_OPERATORS else "")
    web = f"[Web] {_WEB_PROVIDERS.get(provider, provider)}: "
    begin = web if facts.in_browser else f"{provider}: " if provider else ""
    told = (str(summary.get("message_reduced", "")).strip().splitlines() or [""])[0]
    message = told if len(told) <= _SHOWN_MESSAGE else told[:_SHOWN_MESSAGE].rpartition(" ")[0] + " …"
    return f"{begin}{fault(facts)} in {nodes(summary['nodes_after'])} ({shown})" + (f": {message}" if message else "")


def fault(facts: Facts) -> str:
    """The class of the failure, without its message."""
    return str(facts.summary.get("signature_reduced", facts.summary["signature"])).partition(": ")[0]


def expected_of(facts: Facts) -> str:
    """What computed the expected outputs."""
    return str(facts.summary.get("expected_outputs", facts.summary.get("reference", "")))


def nodes(count: int) -> str:
    """So many nodes."""
    return "1 node" if count == 1 else f"{count} nodes"


def outputs(facts: Facts) -> Table:
    """Every output as the emitted model was judged."""
    head = ("output", "type", "result", "wrong elements", "largest difference", "of the output's scale")
    rows = []
    for each in facts.summary.get("outputs", []):
        kind, counts = each.get("kind"), f"{each.get('wrong')} of {each.get('total')}"
        shape = f"{each.get('dtype', '')} {each.get('shape', '')}"
        note = each.get("note") or ""
        told = f"{kind}: {note}" if kind and note else kind or "right"
        figures = ("", "") if note else (number(each.get("absolute")), number(each.get("relative")))
        rows.append((each["output"], shape, told, counts, *figures))
    return Table(head, rows)


def values(facts: Facts) -> Table:
    """Expected and actual values, from the first wrong element of each wrong output on."""
    head = ("output", "element", "expected", "actual")
    rows = [
        (each["output"], str(place), expected, actual)
        for each in facts.summary.get("outputs", [])
        for place, expected, actual in each.get("samples", [])
    ]
    return Table(head, rows)


def variants(facts: Facts) -> Table:
    """The model as it is, run in other ways."""
    head = ("varied", "value", "ran as", "result", "largest difference", "of scale")
    listed = _listed(facts.explanation.get("variants"))
    rows = [(_of(each, "group"), _of(each, "name"), _of(each, "target"), *_measured(each)) for each in listed]
    return _bounded(head, rows)


def neighbours(facts: Facts) -> Table:
    """The model with one thing changed; those that are right first."""
    head = ("changed", "how", "result", "largest difference", "of scale")
    listed = _listed(facts.explanation.get("neighbours"))
    order = sorted(listed, key=lambda each: each.get("result", {}).get("outcome") != "passes")
    return _bounded(head, [(_of(each, "subject"), _of(each, "change"), *_measured(each)) for each in order])


def findings(facts: Facts) -> list[tuple[str, str]]:
    """Sentences on what wrong outputs hold, each with how sure it is."""
    return [
        (_of(each, "statement"), f"{_of(each, 'matched')} of {_of(each, 'total')} elements, {_of(each, 'confidence')}")
        for each in _listed(facts.explanation.get("findings"))
    ]


def closest(facts: Facts) -> str:
    """The change that makes the passing sibling."""
    found = facts.explanation.get("closest")
    return f"{_of(found, 'subject')} {_of(found, 'change')}" if isinstance(found, Mapping) else ""


def optimizers(facts: Facts) -> list[str]:
    """The fewest graph optimizers that heal it when they are disabled."""
    return [str(name) for name in facts.explanation.get("optimizers") or []]


def bisection(facts: Facts) -> tuple[Table, str]:
    """Versions with their outcomes, and between which two it changed."""
    rows = [(str(each[0]), str(each[1])) for each in facts.explanation.get("bisection") or [] if len(each) == 2]
    changed: Sequence[str] = facts.explanation.get("changed") or ()
    told = f"{changed[0]} and {changed[1]}" if len(changed) == 2 else ""
    return Table(("version", "result"), rows), told


def system(facts: Facts) -> Table:
    """Where it was measured."""
    suspect, machine = facts.suspect, facts.summary.get("system", {})
    software = " (software)" if suspect.get("adapter_software") == "yes" else ""
    browser = PurePath(str(suspect.get("browser", "")).replace("\\", "/")).name
    pairs = (
        ("browser", " ".join(filter(None, (browser, suspect.get("browser_version"))))),
        ("WebGPU adapter", suspect.get("adapter") and f"{suspect['adapter']}{software}"),
        ("driver", suspect.get("adapter_driver")),
        ("device", suspect.get("device")),
        ("operating system", machine.get("os")),
        ("architecture", machine.get("architecture")),
        ("processor", machine.get("cpu")),
        ("vector instructions", machine.get("cpu_flags")),
        ("Python", suspect.get("python")),
    )
    return Table(("what", "which"), [(name, str(value)) for name, value in pairs if value])


def reduction(facts: Facts) -> Table:
    """How it was reduced, and what the reader must know of that."""
    return Table(("what", "how much"), [pair for pair in _reduction(facts.summary) if pair[1]])


def _reduction(summary: Json) -> Iterator[tuple[str, str]]:
    yield "nodes", f"{summary['nodes_before']} → {summary['nodes_after']}"
    yield "oracle calls", number(summary.get("oracle_calls"))
    yield "time", f"{number(summary['seconds'])} s" if "seconds" in summary else ""
    yield "1-minimal", {True: "yes: no single node can go", False: "not known"}.get(summary.get("one_minimal", ""), "")
    yield "confirmed", _confirmed(summary)
    yield "fault shows in", str(summary.get("reliability", ""))
    yield "reference against a second way to run it", _noise(summary)
    yield "tolerance", _tolerance(summary)
    for kind, change in summary.get("changed", {}).items():
        yield f"changed: {kind}", str(change)
    yield "other faults met", ", ".join(summary.get("also_found", []))


def _confirmed(summary: Json) -> str:
    if summary.get("confirmed_fresh"):
        return "yes: the model that the script builds fails in a fresh runtime"
    return f"NO: {summary.get('not_confirmed', 'not run')}"


def _noise(summary: Json) -> str:
    noise = summary.get("noise_floor")
    return f"differs by {number(noise)} of scale at most" if noise else ""


def _tolerance(summary: Json) -> str:
    """Shares of an output's scale, by the dtypes that were compared."""
    shares = {each["dtype"]: each["share"] for each in summary.get("outputs", []) if each.get("share")}
    told = [f"{dtype}: {number(share)} of scale" for dtype, share in shares.items()]
    absolute = number(summary.get("oracle_record", {}).get("tolerance", {}).get("absolute"))
    return ", ".join([*told, f"absolute: {absolute}"] if told and absolute else told)


def calls_by_pass(facts: Facts) -> Table:
    """Where oracle calls went: each pass with its share of all."""
    counts: dict[str, int] = {}
    for each in facts.calls:
        by = str(
            each.get("by") or {"golden": "golden run", "emitted": "confirmation"}.get(each.get("what", ""), "deletion")
        )
        counts[by] = counts.get(by, 0) + 1
    accepted: dict[str, int] = {}
    for each in facts.steps:
        accepted[str(each.get("by"))] = accepted.get(str(each.get("by")), 0) + 1
    total = sum(counts.values())
    rows = [
        (by, str(count), f"{_PERCENT * count / total:.0f} %", str(accepted.get(by, 0)))
        for by, count in sorted(counts.items(), key=lambda pair: -pair[1])
    ]
    return Table(("pass", "oracle calls", "of all", "accepted"), rows)


def _measured(each: Mapping[str, Any]) -> tuple[str, str, str]:
    result = each.get("result")
    result = result if isinstance(result, Mapping) else {}
    outcome, why = _of(result, "outcome"), _of(result, "message")
    told = f"not run: {why}" if outcome == "not run" else _of(result, "signature") or outcome
    return told, number(result.get("absolute")), number(result.get("relative"))


def _bounded(head: tuple[str, ...], rows: Sequence[Sequence[str]]) -> Table:
    return Table(head, rows[:MOST_ROWS], max(0, len(rows) - MOST_ROWS))


def _listed(found: object) -> Sequence[Json]:
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, (list, tuple)) else []


def _of(each: Json, key: str) -> str:
    found = each.get(key)
    return "" if found is None else str(found)
