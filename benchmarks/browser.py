"""What one evaluation in the browser costs: warm beside a bare page, and fresh in three ways.

    python benchmarks/browser.py MODEL [--inputs FILE.npz] [--ort-web VERSION] [--adapter MODE] [--count 40]

A bare page imports the same bundle once and then creates a session, runs it and releases it, again and again, with the
model and its inputs in the page already: nothing but the runtime. Fresh is measured as a new browser, as a new frame
that shares the compiled WebAssembly module, and as a new frame when a spare one had time to start. Prints ratios.
"""

from __future__ import annotations

import argparse
import base64
import functools
import http.server
import json
import statistics
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

from playwright.sync_api import sync_playwright

from onnxreduce.graph.candidate import whole
from onnxreduce.graph.prepare import InputOptions, Subject, prepare
from onnxreduce.runtimes.base import RunRequest, Status, request
from onnxreduce.runtimes.browser.find import find_browser, launch_flags, sandbox_possible
from onnxreduce.runtimes.browser.host import BrowserHost
from onnxreduce.runtimes.browser.ort_web import OrtWebRuntime
from onnxreduce.runtimes.packages import RuntimePackage, ort_web_package
from onnxreduce.runtimes.target import Target

BARE = """
async ({ model, feeds, outputs, count, bundle }) => {
  const ort = await import(bundle);
  ort.env.wasm.numThreads = 1;
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const kinds = { float32: Float32Array, int64: BigInt64Array, int32: Int32Array, bool: Uint8Array };
  const data = bytes(model);
  const tensors = () => Object.fromEntries(feeds.map(({ name, type, dims, content }) =>
    [name, new ort.Tensor(type, new kinds[type](bytes(content).buffer), dims)]));
  const seconds = [];
  for (let at = 0; at < count; at++) {
    const given = tensors();
    const begun = performance.now();
    const session = await ort.InferenceSession.create(data, { executionProviders: ['webgpu'] });
    const results = await session.run(given, outputs);
    for (const name of outputs) await results[name].getData();
    await session.release();
    seconds.push((performance.now() - begun) / 1000);
  }
  return seconds;
}
"""
WARM_UP = 5
FRESH = 8
NAMES = {1: "float32", 6: "int32", 7: "int64", 9: "bool"}


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A package's folder over HTTP."""

    extensions_map: ClassVar[dict[str, str]] = {
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript",
    }

    def log_message(self, *_: object) -> None:
        """Nothing."""


def bare(subject: Subject, asked: RunRequest, package: RuntimePackage, adapter: str, count: int) -> list[float]:
    """Seconds of each create and run in a page that does nothing else."""
    handler = functools.partial(Quiet, directory=str(package.dist))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    feeds = [
        {"name": name, "type": NAMES[tensor.elem_type], "dims": list(tensor.shape),
         "content": base64.b64encode(bytes(tensor.blob.view())).decode()}
        for name, tensor in subject.feeds.items()
    ]  # fmt: skip
    job: dict[str, Any] = {
        "model": base64.b64encode(subject.model.with_weights_inside().SerializeToString()).decode(),
        "feeds": feeds, "outputs": list(asked.outputs), "count": count,
        "bundle": f"http://127.0.0.1:{server.server_port}/ort.bundle.min.mjs",
    }  # fmt: skip
    with sync_playwright() as playwright:
        found = find_browser(own=Path(playwright.chromium.executable_path))
        browser = playwright.chromium.launch(
            executable_path=found.executable, args=launch_flags(adapter, headed=False),
            chromium_sandbox=sandbox_possible(),
        )  # fmt: skip
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/ort.bundle.min.mjs")
        seconds: list[float] = page.evaluate(BARE, job)
        browser.close()
    server.shutdown()
    return seconds[WARM_UP:]


def timed(runtime: OrtWebRuntime, asked: RunRequest, *, fresh: bool) -> float:
    """Seconds that a caller waits for one run."""
    begun = time.perf_counter()
    result = runtime.run(asked, timeout=600, fresh=fresh)
    assert result.status is Status.OK, result.message
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--inputs", type=Path)
    parser.add_argument("--ort-web", default="1.27.0")
    parser.add_argument("--adapter", default="auto")
    parser.add_argument("--count", type=int, default=40)
    arguments = parser.parse_args()
    subject = prepare(arguments.model, arguments.inputs, InputOptions())
    asked = request(whole(subject.model, subject.feeds))
    package = ort_web_package(arguments.ort_web)
    target = Target("ort-web", arguments.ort_web, "webgpu")
    new_browser = []
    for _ in range(3):
        begun = time.perf_counter()
        with BrowserHost(adapter=arguments.adapter) as host:
            timed(host.runtime(target, package), asked, fresh=True)
            new_browser.append(time.perf_counter() - begun)
    with BrowserHost(adapter=arguments.adapter) as host:
        runtime = host.runtime(target, package)
        warm = [timed(runtime, asked, fresh=False) for _ in range(arguments.count)][WARM_UP:]
        at_once = [timed(runtime, asked, fresh=True) for _ in range(FRESH)]
        spare = []
        for _ in range(FRESH):
            time.sleep(0.5)
            spare.append(timed(runtime, asked, fresh=True))
    page = bare(subject, asked, package, arguments.adapter, arguments.count)
    middle = statistics.median
    print(json.dumps({
        "bare page, seconds": round(middle(page), 4),
        "warm, seconds": round(middle(warm), 4),
        "warm evaluations a second, share of the bare page's": round(middle(page) / middle(warm), 3),
        "fresh: new browser, seconds": round(middle(new_browser), 3),
        "fresh: new frame at once": round(middle(at_once), 3),
        "fresh: new frame, spare ready": round(middle(spare), 3),
        "new browser over spare frame": round(middle(new_browser) / middle(spare), 1),
    }, indent=2))  # fmt: skip


if __name__ == "__main__":
    main()
