"""What the repro page is told: how both sides ran, what decides, and what was measured. JSON types only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from onnxreduce import emit
from onnxreduce.errors import BadInputError
from onnxreduce.graph.candidate import Candidate
from onnxreduce.oracle.comparison import Tolerance
from onnxreduce.oracle.signature import Expectation, Kind
from onnxreduce.oracle.speed import REPEATS, SHORTEST
from onnxreduce.oracle.verdict import Oracle, Verdict
from onnxreduce.runtimes import memory
from onnxreduce.runtimes.base import REPEAT_SECONDS
from onnxreduce.runtimes.browser.ort_web import page_settings
from onnxreduce.runtimes.target import Target

NOT_IN_A_BROWSER = "not written: the suspect does not run in a browser"


def repro_page(
    candidate: Candidate, summary: Mapping[str, Any], oracle: Oracle, verdict: Verdict | None
) -> tuple[str | None, str]:
    """The page for a candidate, and its name or why there is none."""
    targets = summary["targets"]
    if not _is_web(targets.get("suspect", {})):
        return None, NOT_IN_A_BROWSER
    expected = {} if _is_web(targets["reference"]) else dict(candidate.expected or {})
    weights = sum(blob.length for blob in candidate.external.values())
    size = emit.page_bytes(candidate.model.proto, *candidate.feeds.values(), *expected.values(), weights=weights)
    if size > emit.MAX_PAGE_BYTES:
        return None, f"not written: model and inputs have {size} bytes, a page holds {emit.MAX_PAGE_BYTES}"
    facts = page_facts(summary, oracle, verdict, recorded=bool(expected))
    page = emit.repro_page(candidate.model.with_weights_inside(), candidate.feeds, facts, expected)
    return page, emit.PAGE_NAME


def page_facts(
    summary: Mapping[str, Any], oracle: Oracle, verdict: Verdict | None, *, recorded: bool = False
) -> dict[str, Any]:
    """See `emit.repro_page`. `summary`: as in `summary.json`, with facts on the `targets`.

    `recorded`: the reference is no onnxruntime-web, and its outputs go along.
    """
    targets = summary["targets"]
    suspect = _side(targets["suspect"])
    reference = _side(targets["reference"]) if _is_web(targets["reference"]) else _stand_in(summary, suspect, recorded)
    after = summary["nodes_after"]
    lines = [f"Cut by onnxreduce from {summary['nodes_before']} nodes to {after}."]
    lines.append(f"Wrong under {suspect['name']}; right under {reference['name']}.")
    lines += reference.pop("lines", [])
    return {
        "title": f"{summary['model']}: {after} {'node' if after == 1 else 'nodes'}",
        "lines": lines,
        "suspect": suspect,
        "reference": reference,
        "rules": _rules(oracle),
        "measured": measured(verdict) if verdict else None,
    }


def measured(verdict: Verdict) -> dict[str, Any]:
    """A verdict with all its differences, in words that a page has for types."""
    count = f"{len(verdict.wrong_outputs)} of {len(verdict.differences)} outputs wrong"
    kind = verdict.signature.kind.value if verdict.signature else ""
    told = [verdict.outcome.value, kind, count if verdict.wrong_outputs else ""]
    differences = [each.to_json() for each in verdict.differences]
    for each in differences:
        each["dtype"] = "string" if each["dtype"] == "object" else each["dtype"]
        each["ulp"] = None if each["ulp"] is None else str(each["ulp"])  # may have more digits than a page's numbers
    return {
        "outcome": verdict.outcome.value,
        "kind": kind,
        "message": verdict.message,
        "words": ", ".join(word for word in told if word),
        "differences": differences,
    }


def _rules(oracle: Oracle) -> dict[str, Any]:
    """What a verdict depends on beside the two runs."""
    tolerance: Tolerance = getattr(oracle, "tolerance", None) or Tolerance()
    factor: float | None = getattr(oracle, "slower", None)
    expectation: Expectation = getattr(oracle, "expectation", None) or Expectation()
    slow = {"factor": factor, "repeats": REPEATS, "repeat_seconds": REPEAT_SECONDS, "shortest": SHORTEST}
    return {
        "tolerance": tolerance.to_json(),
        "no_memory": {"words": memory.WORDS.pattern, "names": memory.NAMES.pattern},
        "slower": slow | {"first": expectation.kind is Kind.SLOW} if factor else None,
    }


def _is_web(facts: Mapping[str, str]) -> bool:
    try:
        return facts.get("runtime") == "onnxruntime-web" and bool(page_settings(Target.parse(facts["target"])))
    except (BadInputError, KeyError):
        return False


def _side(facts: Mapping[str, str]) -> dict[str, Any]:
    name = " ".join(facts[key] for key in ("runtime", "version", "provider", "bundle") if facts.get(key))
    kept = {key: facts.get(key, "") for key in ("version", "adapter", "adapter_driver", "adapter_software")}
    program = PurePath(facts.get("browser", "")).name
    browser = f"{program} {facts.get('browser_version', '')}".strip()
    return {"name": name, "browser": browser, **kept, **page_settings(Target.parse(facts["target"]))}


def _stand_in(summary: Mapping[str, Any], suspect: Mapping[str, Any], recorded: bool) -> dict[str, Any]:
    """A reference that is not in the browser: its recorded outputs, or else the WebAssembly provider."""
    facts = summary["targets"]["reference"]
    name = " ".join(facts[key] for key in ("runtime", "version", "provider") if facts.get(key))
    provider = "recorded" if recorded else "wasm"
    own = summary.get("expected_outputs") == summary.get("reference")
    outputs = "its recorded outputs" if own else f"recorded outputs of {summary['expected_outputs']}"
    stands = f"{outputs} stand for it" if recorded else "the WebAssembly provider stands for it"
    return {
        "name": name,
        "version": "",
        "bundle": suspect["bundle"],
        "provider": provider,
        "recorded": recorded,
        "runs": 1,
        "session": {},
        "provider_options": {},
        "lines": [f"The reference does not run in a browser; {stands} here."],
    }
