"""Repair an onnxruntime-web package: JSEP's uploads to the GPU must wait their turn (onnxruntime issue 32134).

    python fix.py node_modules/onnxruntime-web -o repaired       # a published package, unpacked
    onnxreduce check model.onnx --ort-web repaired

JSEP, the WebGPU provider in JavaScript, records dispatches in one command encoder, which it submits every 16 dispatches
or when results are wanted. `GpuDataManager.upload()` does not wait for that: it writes to the GPU at once, so the data
arrive before dispatches that were recorded earlier, and such a dispatch overwrites them. This script makes `upload()`
submit what is pending first, in every bundle of the package that holds JSEP. The package itself is left as it is.

Bundles are minified and names in them differ from release to release, so the code is found by its form, anchored on
names that no minifier may change: those of WebGPU, and of properties. Two forms are known, both whole methods:
a command encoder of the upload's own (1.21.0 to 1.27.0), and `queue.writeBuffer` (1.29.0 and later).
What is not one of these is refused. Needs only Python.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

NAME = r"[\w$]+"
HELD = ("maxDispatchNumber", "pendingDispatchNumber")
"""Properties of JSEP's WebGpuBackend, and of nothing else in a package: a bundle with both holds JSEP."""

FLUSH = "this.backend.flush();"
SUBMITS = re.compile(r"[^.\w$]flush\(\)\s*\{\s*if\s*\(\s*!\s*this\.commandEncoder\s*\)")
"""The backend's method: it submits the pending encoder, and does nothing where there is none."""

# The methods upload() and memcpy() stand one after the other in two classes. The backend's only passes its arguments
# on; the manager's looks its buffer up in a cache.
UPLOAD = re.compile(
    rf"\bupload\(\s*{NAME}\s*,\s*{NAME}\s*\)\s*\{{(?P<body>(?:(?!\bmemcpy\().)*?)\}}\s*memcpy\(", re.DOTALL
)
LOOKUP = re.compile(
    rf"""(?P<length>{NAME})\s*=\s*{NAME}\.byteLength\b      # the data's size in bytes
    .*?\b(?P<size>{NAME})\s*=\s*{NAME}\(\s*(?P=length)\s*\)  # the same, rounded up
    .*?\b(?P<cached>{NAME})\s*=\s*this\.storageCache\.get\(""",
    re.DOTALL | re.VERBOSE,
)


def _own_encoder(known: dict[str, str]) -> str:
    """`ENCODER = device.createCommandEncoder(); ENCODER.copyBufferToBuffer(STAGING, ..., CACHED, ...); submit`."""
    return rf"""(?P<before>mappedAtCreation:.*?[;}}]\s*)
    (?P<write>(?:let|const|var)\s+(?P<encoder>{NAME})\s*=\s*this\.backend\.device\.createCommandEncoder\(\)\s*;\s*
    (?P=encoder)\.copyBufferToBuffer\(\s*{NAME},\s*0,\s*{known["cached"]}\.gpuData\.buffer,\s*0,\s*{known["size"]}\s*\)[;,]\s*
    this\.backend\.device\.queue\.submit\(\s*\[\s*(?P=encoder)\.finish\(\)\s*\]\s*\))"""


def _write_buffer(known: dict[str, str]) -> str:
    """`if (SIZE === LENGTH && OFFSET % 4 === 0) queue.writeBuffer(CACHED, ...); else pad and write`."""
    write = rf"this\.backend\.device\.queue\.writeBuffer\(\s*{known['cached']}\.gpuData\.buffer,\s*0,"
    return rf"""(?P<before>[;}}]\s*)
    (?P<write>if\s*\(\s*{known["size"]}\s*===\s*{known["length"]}\s*&&\s*(?P<offset>{NAME})\s*%\s*4\s*===\s*0\s*\)\s*\{{?\s*
    {write}\s*{NAME},\s*(?P=offset),\s*{known["length"]}\s*\);?\s*\}}?\s*
    else\s*\{{\s*(?:let|const|var)\s+(?P<padded>{NAME})\s*=\s*new\s+Uint8Array\(\s*{known["size"]}\s*\);\s*
    (?P=padded)\.set\(\s*{NAME}\s*\)[;,]\s*{write}\s*(?P=padded),\s*0,\s*{known["size"]}\s*\);?\s*\}})"""


FORMS = {"own encoder": _own_encoder, "queue.writeBuffer": _write_buffer}


class FixError(Exception):
    """Nothing was written; the text says why."""


@dataclass(frozen=True)
class Repair:
    """A bundle with the flush in place, and the form of upload() that it has."""

    text: str
    form: str


def holds_jsep(text: str) -> bool:
    """Whether a JavaScript file holds the WebGPU provider that is at fault."""
    return all(name in text for name in HELD)


def repair(text: str) -> Repair:
    """Insert the flush into the text of a bundle that holds JSEP. Raises FixError for one that is not recognised."""
    methods = [method for method in UPLOAD.finditer(text) if "this.storageCache" in method["body"]]
    if len(methods) != 1:
        raise FixError(f"holds JSEP, but GpuDataManager.upload() was found {_times(len(methods))} in it")
    (method,) = methods
    if re.search(r"\bthis\.backend\.flush\(", method["body"]):
        raise FixError("is repaired already: its upload() flushes")
    if re.search(r"\bthis\.backend\.getCommandEncoder\(", method["body"]):
        raise FixError("needs no repair: its upload() records into the pending encoder (1.20 and earlier)")
    if len(SUBMITS.findall(text)) != 1:
        raise FixError("holds JSEP, but its backend has no flush() of the known form")
    known = LOOKUP.search(method["body"])
    names = {key: re.escape(name) for key, name in known.groupdict().items()} if known else {}
    found = [
        (form, match)
        for form, pattern in FORMS.items()
        for match in (re.finditer(pattern(names), method["body"], re.DOTALL | re.VERBOSE) if names else ())
    ]
    if len(found) != 1:
        raise FixError(
            f"holds JSEP, but a write to the GPU of a known form was found {_times(len(found))} in its upload()"
        )
    ((form, match),) = found
    place = method.start("body") + match.start("write")
    indent = re.search(r"\n[ \t]*$", text[:place])
    return Repair(text[:place] + FLUSH + (indent[0] if indent else "") + text[place:], form)


def repair_package(package: Path, output: Path) -> dict[str, str]:
    """Copy a package with all its bundles repaired; gives the form of upload() by the path of each repaired file.

    `package`: the folder of a package, or its `dist`. Raises FixError, with nothing written, for a package without
    JSEP, a bundle that is not recognised, or an output folder that is there already.
    """
    if not package.is_dir():
        raise FixError(f"{package} is not a folder")
    if output.exists():
        raise FixError(f"{output} is there already: name a new folder")
    if output.resolve().is_relative_to(package.resolve()):
        raise FixError(f"{output} lies inside the package: name a folder elsewhere")
    repairs: dict[Path, Repair] = {}
    for path in sorted(path for path in package.rglob("ort*") if path.suffix in (".js", ".mjs") and path.is_file()):
        text = path.read_bytes().decode("utf-8")
        if holds_jsep(text):
            try:
                repairs[path.relative_to(package)] = repair(text)
            except FixError as error:
                raise FixError(f"{path} {error}") from None
    if not repairs:
        raise FixError(f"{package} has no bundle (ort*.js, ort*.mjs) that holds JSEP")
    try:
        shutil.copytree(package, output)
        for name, repaired in repairs.items():
            (output / name).write_bytes(repaired.text.encode("utf-8"))
    except BaseException:
        shutil.rmtree(output, ignore_errors=True)
        raise
    return {name.as_posix(): repaired.form for name, repaired in repairs.items()}


def _times(count: int) -> str:
    return {0: "nowhere", 1: "once"}.get(count, f"{count} times")


def main() -> int:
    """Repair a package into a new folder."""
    parser = argparse.ArgumentParser(description="Copy an onnxruntime-web package, its JSEP uploads put in order.")
    parser.add_argument("package", type=Path, help="folder of an unpacked onnxruntime-web")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="a new folder for the copy")
    arguments = parser.parse_args()
    try:
        repaired = repair_package(arguments.package, arguments.output)
    except (FixError, OSError, UnicodeDecodeError) as error:
        print(f"fix.py: {error}", file=sys.stderr)
        return 2
    for name, form in repaired.items():
        print(f"{arguments.output / name}: upload() flushes first ({form})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
