"""Python ONNX Runtime in a child process: the installed one, or one of any version in an environment of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from onnxreduce.errors import BadInputError, SetupError
from onnxreduce.runtimes.child import ChildRuntime, megabytes
from onnxreduce.runtimes.environments import Plugin
from onnxreduce.runtimes.swiftshader import software_vulkan
from onnxreduce.runtimes.target import Target

PLUGIN = "plugin"
CPU = "CPUExecutionProvider"

_WORKER = Path(__file__).with_name("ort_worker.py")
_PROVIDERS = {
    "cpu": CPU,
    "cuda": "CUDAExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "dml": "DmlExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
    "qnn": "QNNExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "webgpu": "WebGpuExecutionProvider",
    "xnnpack": "XnnpackExecutionProvider",
}
_LEVELS = ("disabled", "basic", "extended", "layout", "all")
_ADAPTERS = ("auto", "hardware", "software")
_OPTIONS = ("level", "threads", "disabled_optimizers", "memory", "runs")
_PLUGIN_OPTIONS = ("library", "ep_name", "device", "adapter")


class PythonOrt(ChildRuntime):
    """The `ort/...` targets.

    Options: `level`, `threads`, `disabled_optimizers`, `memory` (MiB), `runs` (of one session; the last counts); for a
    plugin provider `library` (a file or a Python module), `ep_name` and `device` where there are several, `adapter`.
    All others go to the provider.
    """

    name = "Python onnxruntime"

    def __init__(self, target: Target, python: str = sys.executable, memory: int | None = None) -> None:
        self._provider = _PROVIDERS.get(target.provider or "cpu", target.provider or CPU)
        self._settings = _settings(target, self._provider)
        self._plugin = _plugin(target)
        self._adapter = _word(target, "adapter", _ADAPTERS, "auto")
        self._software = self._adapter == "software"
        self._python = python
        super().__init__(target, megabytes(target) or memory)

    def describe(self) -> Mapping[str, str]:
        """Runtime, version, provider and, of plugins, library and device."""
        self._start()
        facts = {
            "target": str(self.target),
            "runtime": "onnxruntime (Python)",
            "version": self._hello["version"],
            "provider": self._provider,
            "providers": " ".join(self._hello["providers"]),
            "python": self._hello.get("python", ""),
            "library": self._hello.get("library", ""),
            "device": self._hello.get("device", ""),
            "adapter_software": "yes" if self._plugin and self._software else "",
        }
        return {key: value for key, value in facts.items() if value}

    def _command(self) -> list[str]:
        asked: dict[str, Any] = {"provider": self._provider, "memory": self._memory, **self._job()}
        if self._provider != CPU:
            anchor = self._spool.folder / "anchor.onnx"
            anchor.write_bytes(_anchor())
            asked["anchor"] = str(anchor)
        if self._plugin is not None:
            asked["plugin"] = {
                "module": self._plugin.module,
                "file": str(self._plugin.file) if self._plugin.file else None,
                "ep_name": self.target.options.get("ep_name"),
                "device": int(self.target.options.get("device", "0")),
            }
        return [self._python, str(_WORKER), json.dumps(asked)]

    def _environment(self) -> Mapping[str, str]:
        return software_vulkan(self._spool.folder) if self._plugin is not None and self._software else {}

    def _start(self) -> None:
        try:
            super()._start()
        except _NoDeviceError:
            if self._adapter != "auto" or self._software or not software_vulkan(self._spool.folder):
                raise
            self._software = True
            super()._start()

    def _accept(self, hello: Mapping[str, Any]) -> None:
        if hello.get("no_device"):
            advice = "" if self._software else "; adapter=software takes one in software where a Chromium is installed"
            raise _NoDeviceError(f"{self.target}: {hello['no_device']}{advice}")
        if hello.get("error"):
            text = " ".join(str(hello["error"]).split())
            if self._plugin is not None and text.endswith(f"No module named '{self._plugin.module}'"):
                text += f"; try: pip install {self._plugin.package}, or name a version: ort@VERSION/plugin"
            raise SetupError(f"{self.target}: {text}")
        if self._plugin is None and self._provider not in hello["providers"]:
            advice = " (as a plugin: ort/plugin?library=onnxruntime_ep_webgpu)" if "WebGpu" in self._provider else ""
            raise SetupError(
                f"{self.target}: the installed onnxruntime {hello['version']} has no {self._provider}, "
                f"only {', '.join(hello['providers'])}{advice}"
            )
        self._provider = hello.get("provider", self._provider)

    def _job(self) -> dict[str, Any]:
        return self._settings

    def _advice(self) -> str:
        return "; try: pip install onnxruntime" if self._python == sys.executable else ""


class _NoDeviceError(SetupError):
    """A plugin found no device."""


def _settings(target: Target, provider: str) -> dict[str, Any]:
    """What a target's options ask of the worker. Raises BadInputError for what is not understood."""
    own = (*_OPTIONS, *(_PLUGIN_OPTIONS if target.provider == PLUGIN else ()))
    given = {key: value for key, value in target.options.items() if key not in own}
    if given and provider == CPU:
        raise BadInputError(f"{target}: unknown option {', '.join(sorted(given))}; known: {', '.join(own)}")
    threads = target.options.get("threads", "0")
    if not (threads.isascii() and threads.isdigit()):
        raise BadInputError(f"{target}: threads is a number, 0 for as many as there are cores")
    runs = target.options.get("runs", "1")
    if not (runs.isascii() and runs.isdigit() and int(runs)):
        raise BadInputError(f"{target}: runs is a number from 1 on")
    disabled = target.options.get("disabled_optimizers", "").replace(",", ";")
    return {
        "provider": provider,
        "provider_options": given,
        "level": _word(target, "level", _LEVELS, "all"),
        "threads": int(threads),
        "runs": int(runs),
        "disabled_optimizers": [name for name in disabled.split(";") if name],
    }


def _plugin(target: Target) -> Plugin | None:
    if target.provider != PLUGIN:
        return None
    if "library" not in target.options:
        raise BadInputError(f"{target}: a plugin needs library=, such as library=onnxruntime_ep_webgpu, or a file")
    if not target.options.get("device", "0").isdecimal():
        raise BadInputError(f"{target}: device is the number of one of the plugin's devices, from 0")
    return Plugin.parse(target.options["library"])


def _word(target: Target, key: str, allowed: tuple[str, ...], default: str) -> str:
    value = target.options.get(key, default)
    if value not in allowed:
        raise BadInputError(f"{target}: {key} is one of {', '.join(allowed)}")
    return value


def _anchor() -> bytes:
    """A model of three usual operators: a provider that runs none of them does not run at all."""
    kind = TensorProto.FLOAT
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["a"]),
            helper.make_node("Mul", ["a", "a"], ["b"]),
            helper.make_node("Relu", ["b"], ["y"]),
        ],
        "anchor",
        [helper.make_tensor_value_info("x", kind, [2, 2])],
        [helper.make_tensor_value_info("y", kind, [2, 2])],
        [numpy_helper.from_array(np.eye(2, dtype=np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    content: bytes = model.SerializeToString()
    return content
