"""Print what JSEP records, uploads and submits, in order, while it runs the smallest model of the fault.

python trace.py [PACKAGE]     # the folder of an onnxruntime-web package; the default is the pinned version
"""

from __future__ import annotations

import base64
import functools
import http.server
import re
import sys
import threading
from pathlib import Path
from typing import ClassVar

from onnx import TensorProto, helper
from playwright.sync_api import sync_playwright

from onnxreduce.runtimes.browser.find import find_browser, launch_flags, sandbox_possible
from onnxreduce.runtimes.packages import ort_web_package

PINNED = "1.27.0"
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


def main() -> None:
    """Print the trace."""
    package = ort_web_package(sys.argv[1] if len(sys.argv) > 1 else PINNED)
    handler = functools.partial(Quiet, directory=str(package.dist))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    bundle = f"http://127.0.0.1:{server.server_port}/ort.bundle.min.mjs"
    watch, script = (Path(__file__).with_name(name) for name in ("trace.js", "trace_run.js"))
    lines: list[str] = []
    with sync_playwright() as playwright:
        found = find_browser(own=Path(playwright.chromium.executable_path))
        browser = playwright.chromium.launch(
            executable_path=found.executable, args=launch_flags("auto", headed=False),
            chromium_sandbox=sandbox_possible(),
        )  # fmt: skip
        page = browser.new_page()
        page.on("console", lambda message: lines.append(message.text))
        page.add_init_script(path=watch)
        page.goto(bundle)
        page.evaluate(
            script.read_text("utf-8").partition("\n")[2].rstrip().rstrip(";"),
            {"model": base64.b64encode(smallest()).decode(), "bundle": bundle},
        )
        browser.close()
    server.shutdown()
    for line in lines[lines.index("## run") :]:
        if TOLD.search(line):
            print(re.sub(r"^\[[VI],[^\]]*\]", "  ", line))


if __name__ == "__main__":
    main()
