"""`issue.md`: a report in the order of onnxruntime's issue forms, ready to be pasted.

The forms are `04-web.yml` and `08-general.yml` in `.github/ISSUE_TEMPLATE` of microsoft/onnxruntime: their labels are
the headings here. The web form has no field for browser, system and adapter, so they stand in the description.
"""

from __future__ import annotations

import re

from onnxreduce.emit.report import contents
from onnxreduce.emit.report.archive import Archive
from onnxreduce.emit.report.facts import Facts
from onnxreduce.emit.report.markdown import code, prose
from onnxreduce.emit.report.mermaid import mermaid
from onnxreduce.emit.report.templates import rendered
from onnxreduce.emit.report.upstream import Upstream

ISSUE = "issue.md"
MOST_SCRIPT_LINES = 60
"""A longer script is attached: nobody reads it in an issue."""

_WEB_PROVIDERS = {
    "webgl": "'webgl' (WebGL)",
    "wasm": "'wasm'/'cpu' (WebAssembly CPU)",
    "webgpu": "'webgpu' (WebGPU)",
}
_PROVIDERS = {
    "CPUExecutionProvider": "Default CPU",
    "CoreMLExecutionProvider": "CoreML",
    "CUDAExecutionProvider": "CUDA",
    "DmlExecutionProvider": "DirectML",
    "OpenVINOExecutionProvider": "OpenVINO",
    "TensorrtExecutionProvider": "TensorRT",
    "QNNExecutionProvider": "Other / Unknown",
}
_PLATFORMS = {"Windows": "Windows", "Linux": "Linux", "macOS": "Mac", "Darwin": "Mac"}
_ARCHITECTURES = {"x86_64": "X64", "amd64": "X64", "i686": "X86", "x86": "X86", "aarch64": "ARM64", "arm64": "ARM64"}
_OTHER = "Other / Unknown"
_RELEASED = re.compile(r"\d+\.\d+\.\d+")

Answer = tuple[str, str, str]
"""Heading, what to choose or write in Markdown, and a remark for the writer."""


def issue_text(facts: Facts, archive: Archive | None, upstream: Upstream) -> str:
    """The report as Markdown."""
    summary = facts.summary
    table, changed = contents.bisection(facts)
    lines = facts.script.count("\n")
    text = rendered(
        "issue.md",
        title=contents.title(facts),
        confirmed=summary.get("confirmed_fresh", False),
        not_confirmed=summary.get("not_confirmed", "the last step did not run"),
        model=summary["model"],
        nodes_before=contents.nodes(summary["nodes_before"]),
        nodes_after=summary["nodes_after"],
        fault=contents.fault(facts),
        suspect=summary.get("runtime", ""),
        reference=summary.get("reference", ""),
        suspect_target=facts.suspect.get("target", ""),
        reference_target=facts.reference.get("target", ""),
        message=summary.get("message_reduced", ""),
        outputs=contents.outputs(facts),
        values=contents.values(facts),
        findings=contents.findings(facts),
        variants=contents.variants(facts),
        optimizers=contents.optimizers(facts),
        neighbours=contents.neighbours(facts),
        closest=contents.closest(facts),
        passing=facts.has("passing.onnx"),
        bisection=table,
        changed=changed,
        explained=bool(facts.explanation),
        diagram=mermaid(facts.model, facts.wrong),
        system=contents.system(facts),
        reduction=contents.reduction(facts),
        archive_bytes=archive.size if archive else 0,
        data_files=sorted(set(re.findall(r'"((?:weights|test_data_set_0)/[^"]+)"', facts.script))),
        page=facts.has("repro.html"),
        unit_test="test_repro.py" in upstream.files,
        both_sides="def test_reference" in upstream.files.get("test_repro.py", ""),
        script=facts.script if lines < MOST_SCRIPT_LINES else "",
        script_lines=lines,
        upstream=[(name, upstream.words[name]) for name in upstream.files],
        not_upstream=upstream.reasons,
        answers=_web(facts) if facts.in_browser else _general(facts),
    )
    return text.strip() + "\n"


def _web(facts: Facts) -> list[Answer]:
    suspect = facts.suspect
    package = str(suspect.get("package", ""))
    installed = "Released Package" if package.startswith("npm ") else "Built from Source"
    version = " ".join(code(suspect[key]) for key in ("version", "bundle", "wasm") if suspect.get(key))
    return [
        ("ONNX Runtime Installation", installed, "" if package.startswith("npm ") else "a local build"),
        ("ONNX Runtime Version or Commit ID", version, ""),
        ("Execution Provider", _WEB_PROVIDERS.get(str(suspect.get("provider")), _OTHER), ""),
    ]


def _general(facts: Facts) -> list[Answer]:
    suspect, machine = facts.suspect, facts.summary.get("system", {})
    system = str(machine.get("os", ""))
    platform = next((name for word, name in _PLATFORMS.items() if word in system), _OTHER)
    version = str(suspect.get("version", ""))
    installed = "Released Package" if facts.in_python and _RELEASED.fullmatch(version) else _OTHER
    provider = str(suspect.get("provider", ""))
    told = _PROVIDERS.get(provider, _OTHER)
    unknown = "" if facts.in_python else "the oracle does not tell: please say"
    return [
        ("Platform", platform, ""),
        ("OS Version", prose(system), "" if system else "not known"),
        (
            "ONNX Runtime Installation",
            installed,
            "change this if you built it yourself" if facts.in_python else unknown,
        ),
        ("ONNX Runtime Version or Commit ID", code(version) if version else "", "" if version else unknown),
        ("ONNX Runtime API", "Python" if facts.in_python else _OTHER, unknown),
        ("Architecture", _ARCHITECTURES.get(str(machine.get("architecture", "")).lower(), _OTHER), ""),
        ("Execution Provider", told, unknown or (provider if told == _OTHER else "")),
        (
            "Execution Provider Library Version",
            prose(suspect.get("library", "")),
            "" if suspect.get("library") else "-",
        ),
    ]
