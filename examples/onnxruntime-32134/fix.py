"""A copy of an onnxruntime-web package in which an upload to the GPU waits for what was recorded before it.

    python fix.py PACKAGE -o FOLDER        # needs Python's standard library only
    onnxreduce check model.onnx --oracle webgpu-vs-wasm --ort-web FOLDER

PACKAGE is the folder of an installed package (`node_modules/onnxruntime-web`, or what `npm pack` holds). In each of its
bundles with the JSEP backend one call is inserted, at the start of `GpuDataManager.upload`:

    upload(id, data) { this.backend.flush(); ...

Minified names differ from version to version; what is looked for is the method that throws "gpu data for uploading does
not exist" beside a backend with `flush()`. A file that holds the message but not exactly that method is refused, and
then nothing is written.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from pathlib import Path

MESSAGE = "gpu data for uploading does not exist"
CALL = "this.backend.flush();"
_UPLOAD = re.compile(
    r"\bupload\((?P<id>[\w$]+),\s*(?P<data>[\w$]+)\)\s*\{"  # the method's head,
    r"(?=(?:(?!\bupload\().){0,900}?" + MESSAGE + ")",  # with its own message below, not another method's
    re.DOTALL,
)
_FLUSH = re.compile(r"[^.\w]flush\(\)\s*\{\s*if\s*\(!this\.commandEncoder\)")
"""The backend's method: it submits the encoder in which dispatches wait, and does nothing where there is none."""


class UnknownFileError(Exception):
    """A file that is not as expected; the text says what is wrong with it."""


def holds_jsep(text: str) -> bool:
    """Whether a JavaScript file holds the backend in question."""
    return MESSAGE in text


def fixed(text: str) -> str:
    """The file with the call inserted. Raises UnknownFileError for one that is not recognised, or has it already."""
    places = list(_UPLOAD.finditer(text))
    if len(places) != 1 or text.count(MESSAGE) != 1:
        raise UnknownFileError(f"it has {len(places)} methods that upload GPU data, not one")
    if len(_FLUSH.findall(text)) != 1:
        raise UnknownFileError("its backend has no flush() that is known")
    end = places[0].end()
    if text[end:].lstrip().startswith(CALL):
        raise UnknownFileError("it has the fix already")
    indent = re.match(r"\s*", text[end:])
    assert indent is not None
    return text[:end] + indent[0] + CALL + text[end:]


def fix_package(package: Path, target: Path) -> list[str]:
    """Copy a package, or its `dist`, and insert the call; returns the names of the files that were changed.

    Raises UnknownFileError where a file is not recognised or none holds the backend, OSError where copying fails;
    nothing is left then.
    """
    changed: dict[Path, str] = {}
    for path in sorted(package.rglob("*js")):
        if path.suffix in (".js", ".mjs") and path.is_file():
            text = path.read_text(encoding="utf-8", errors="surrogateescape")
            if holds_jsep(text):
                try:
                    changed[path.relative_to(package)] = fixed(text)
                except UnknownFileError as error:
                    raise UnknownFileError(f"{path}: {error}") from None
    if not changed:
        raise UnknownFileError(f"{package} has no file with the JSEP backend")
    shutil.copytree(package, target)
    try:
        for place, text in changed.items():
            (target / place).write_text(text, encoding="utf-8", errors="surrogateescape")
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    return [str(place) for place in changed]


def main() -> int:
    """Fix a copy of a package; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path, help="folder of an onnxruntime-web package")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder to make")
    arguments = parser.parse_args()
    if not arguments.package.is_dir():
        print(f"fix.py: {arguments.package} is no folder", file=sys.stderr)
        return 2
    if arguments.output.exists():
        print(f"fix.py: {arguments.output} exists already; choose a new folder", file=sys.stderr)
        return 2
    try:
        names = fix_package(arguments.package, arguments.output)
    except (UnknownFileError, OSError) as error:
        print(f"fix.py: {error}; nothing was written", file=sys.stderr)
        return 2
    print(f"{arguments.output}: an upload now flushes first, in {', '.join(names)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
