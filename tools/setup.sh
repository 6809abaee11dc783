#!/bin/sh
# Set up a virtual environment, a browser and the runtime package. Safe to run again; used by the Makefile.
set -eu
PYTHON=${PYTHON:-python3}
VENV=${VENV:-.venv}

"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
    echo "setup: Python 3.10 or newer is needed; set PYTHON=..." >&2
    exit 3
}
[ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
extras=dev
command -v npm >/dev/null 2>&1 || extras=dev,npm
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --editable ".[$extras]"

has_browser() {
    "$VENV/bin/python" -c 'from onnxreduce.runtimes.browser.find import find_browser
from playwright.sync_api import sync_playwright
from pathlib import Path
with sync_playwright() as p:
    find_browser(None, own=Path(p.chromium.executable_path))' >/dev/null 2>&1
}

if ! has_browser; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "setup: installing Chromium with apt"
        apt-get update -qq || true
        apt-get install -y -qq chromium-headless-shell || apt-get install -y -qq chromium || true
    fi
    if ! has_browser; then
        echo "setup: installing Playwright's Chromium"
        "$VENV/bin/python" -m playwright install chromium || true
    fi
fi
has_browser || {
    echo "setup: no browser could be installed; install Chrome, Edge or Chromium, then try again" >&2
    exit 3
}
"$VENV/bin/python" -c 'from onnxreduce.oracle.spec import find
from onnxreduce.runtimes.packages import ort_web_package
ort_web_package(find("webgpu-vs-wasm").suspect.version, report=print)'
