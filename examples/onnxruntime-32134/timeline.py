"""Print what JSEP records, uploads and submits, in order, while it runs the smallest model of the fault once.

python timeline.py                                        # the package of the pinned version
python timeline.py repaired                               # another version, or the folder of a package
python timeline.py repaired --model m.onnx --inputs m.npz # counts for a model of your own, in place of the order
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import functools
import http.server
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from onnx import TensorProto, helper
from playwright.sync_api import Page, sync_playwright

from onnxreduce.runtimes.browser.find import find_browser, launch_flags, sandbox_possible
from onnxreduce.runtimes.packages import ort_web_package

PINNED = "1.27.0"
HERE = Path(__file__).resolve().parent
TOLD = re.compile(r"## |GpuDataManager\.(create|upload|release)|Start to run kernel|jsepCopy")


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A package's folder over HTTP."""

    extensions_map: ClassVar[dict[str, str]] = {
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript",
    }

    def log_message(self, *_: object) -> None:
        """Nothing."""


def smallest() -> bytes:
    """Cast and Neg beside Neg and Neg, one element each."""
    node, info = helper.make_node, helper.make_tensor_value_info
    nodes = [
        node("Cast", ["u"], ["f"], to=TensorProto.FLOAT), node("Neg", ["f"], ["D"]),
        node("Neg", ["pw"], ["mn"]), node("Neg", ["mn"], ["ad"]),
    ]  # fmt: skip
    inputs = [info("u", TensorProto.INT64, [1]), info("pw", TensorProto.FLOAT, [1])]
    outputs = [info("D", TensorProto.FLOAT, [1]), info("ad", TensorProto.FLOAT, [1])]
    graph = helper.make_graph(nodes, "smallest", inputs, outputs)
    content: bytes = helper.make_model(
        graph, ir_version=7, opset_imports=[helper.make_opsetid("", 13)]
    ).SerializeToString()
    return content


@contextlib.contextmanager
def opened(package: str) -> Iterator[tuple[Page, str]]:
    """A browser's page beside a package, by version or folder, and the address of its bundle."""
    handler = functools.partial(Quiet, directory=str(ort_web_package(package).dist))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    bundle = f"http://127.0.0.1:{server.server_port}/ort.bundle.min.mjs"
    try:
        with sync_playwright() as playwright:
            found = find_browser(own=Path(playwright.chromium.executable_path))
            flags = launch_flags("auto", headed=False)
            browser = playwright.chromium.launch(
                executable_path=found.executable, args=flags, chromium_sandbox=sandbox_possible()
            )
            yield browser.new_page(), bundle
            browser.close()
    finally:
        server.shutdown()


def trace(package: str, model: bytes, inputs: Mapping[str, np.ndarray[Any, Any]]) -> tuple[list[str], dict[str, float]]:
    """Run a model once; gives the console's lines and the first element of each output."""
    feeds = [
        {
            "name": name, "type": str(values.dtype), "dims": list(values.shape),
            "data": base64.b64encode(np.ascontiguousarray(values).tobytes()).decode(),
        }
        for name, values in inputs.items()
    ]  # fmt: skip
    script = (HERE / "timeline_run.js").read_text("utf-8").partition("\n")[2].rstrip().rstrip(";")
    lines: list[str] = []
    with opened(package) as (page, bundle):
        page.on("console", lambda message: lines.append(message.text))
        page.add_init_script(path=HERE / "timeline.js")
        page.goto(bundle)
        job = {"model": base64.b64encode(model).decode(), "bundle": bundle, "feeds": feeds}
        first: dict[str, float] = page.evaluate(script, job)
    return lines, first


def counts(lines: list[str]) -> str:
    """In words: dispatches, uploads, how many of these found dispatches or copies pending, and submits."""
    dispatches = uploads = behind = submits = 0
    pending: set[str] = set()
    for line in lines:
        if match := re.match(r"## (encoder\d+) records: (dispatch|copy (\w+?)\d+ )", line):
            own = match[3] == "staging"  # the copy of an upload, from its staging buffer
            dispatches += match[2] == "dispatch"
            uploads += own
            behind += own and bool(pending)
            pending |= set() if own else {match[1]}
        elif match := re.match(r"## QUEUE: run (encoder\d+)", line):
            submits += 1
            pending.discard(match[1])
        elif line.startswith("## QUEUE: write buffer"):
            uploads += 1
            behind += bool(pending)
    return f"{dispatches} dispatches, {uploads} uploads ({behind} with work pending), {submits} submits"


def main() -> None:
    """Print the order, or the counts for a model that is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", nargs="?", default=PINNED, help="version or folder (default: %(default)s)")
    parser.add_argument("--model", type=Path, help="count for this model")
    parser.add_argument("--inputs", type=Path, help=".npz with its inputs")
    arguments = parser.parse_args()
    if arguments.model:
        with np.load(arguments.inputs) as stored:
            lines, _ = trace(arguments.package, arguments.model.read_bytes(), dict(stored))
        create, run, end = (lines.index(f"## {word}") for word in ("create", "run", "end"))
        print("create:", counts(lines[create:run]))
        print("run:   ", counts(lines[run:end]))
        return
    lines, first = trace(arguments.package, smallest(), {"u": np.array([1], np.int64), "pw": np.array([1], np.float32)})
    for line in lines[lines.index("## run") : lines.index("## end")]:
        if TOLD.search(line):
            print(re.sub(r"^\[[VI],[^\]]*\]", "  ", line))
    print(f"## D = {first['D']:g} (right: -1), ad = {first['ad']:g} (right: 1)")


if __name__ == "__main__":
    main()
