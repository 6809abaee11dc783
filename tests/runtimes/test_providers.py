"""The asked provider is the one that runs, within the memory that it is given."""

from __future__ import annotations

import sys
from pathlib import Path

import faults
import onnxruntime
import pytest

from onnxreduce.errors import BadInputError, SetupError
from onnxreduce.runtimes import python_ort, swiftshader
from onnxreduce.runtimes.base import RunRequest, Status, request
from onnxreduce.runtimes.child import ChildRuntime
from onnxreduce.runtimes.environments import python_for
from onnxreduce.runtimes.python_ort import PythonOrt
from onnxreduce.runtimes.reference import Reference
from onnxreduce.runtimes.target import Target

ENOUGH = 60.0
PLUGIN = "ort@1.32.0/plugin?library=onnxruntime_ep_webgpu@0.4.0"


def asked(mebibytes: int) -> RunRequest:
    """A model that holds so many MiB at once."""
    return request(faults.candidate(faults.hungry(mebibytes)))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit is the system's, and Linux has a true one")
@pytest.mark.parametrize("text", ["ort/cpu?memory=512", "onnx-reference?memory=512"])
def test_a_run_that_needs_more_memory_is_told_and_the_next_is_clean(text: str) -> None:
    target = Target.parse(text)
    runtime: ChildRuntime = PythonOrt(target) if target.runtime == "ort" else Reference(target)
    try:
        assert runtime.run(asked(1), timeout=ENOUGH).status is Status.OK
        result = runtime.run(asked(1000), timeout=ENOUGH)
        assert result.status is Status.OUT_OF_MEMORY
        assert result.message.startswith("out of memory (limit 512 MiB)")
        assert runtime.run(asked(1), timeout=ENOUGH).status is Status.OK
    finally:
        runtime.close()


@pytest.mark.parametrize("options", ["memory=0", "memory=much", "use_tf32=0", "library=x"])
def test_options_that_the_cpu_does_not_take(options: str) -> None:
    with pytest.raises(BadInputError):
        PythonOrt(Target.parse(f"ort/cpu?{options}"))


@pytest.mark.parametrize("options", ["", "?library=onnxruntime_ep_webgpu&device=first", "?library=1x"])
def test_a_plugin_needs_its_library(options: str) -> None:
    with pytest.raises(BadInputError):
        PythonOrt(Target.parse(f"ort/plugin{options}"))


def refusal(text: str) -> str:
    runtime = PythonOrt(Target.parse(text))
    try:
        with pytest.raises(SetupError) as caught:
            runtime.run(asked(1), timeout=ENOUGH)
    finally:
        runtime.close()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_plugin_that_is_not_there_says_how_to_get_it() -> None:
    assert "pip install some-absent-ep" in refusal("ort/plugin?library=some_absent_ep")


def test_a_file_that_is_no_library(tmp_path: Path) -> None:
    file = tmp_path / "libnone.so"
    file.write_bytes(b"none")
    assert "does not start" in refusal(f"ort/plugin?library={file}")


def test_a_provider_that_runs_no_node_is_an_error_of_the_setup() -> None:
    if "AzureExecutionProvider" not in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime has no provider that lists itself and runs nothing")
    assert "CPUExecutionProvider runs them instead" in refusal("ort/AzureExecutionProvider")


@pytest.mark.slow
def test_the_plugin_runs_on_its_device_or_says_that_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target.parse(PLUGIN)
    try:
        python = python_for(target)
    except SetupError as error:
        pytest.skip(f"no plugin: {error}")
    runtime = PythonOrt(target, python)
    try:
        result = runtime.run(asked(1), timeout=ENOUGH)
        assert result.status is Status.OK, result.message
        assert runtime.describe()["provider"] == "WebGpuExecutionProvider"
        assert runtime.describe()["library"] == "onnxruntime_ep_webgpu 0.4.0"
        software = "adapter_software" in runtime.describe()
    except SetupError as error:
        pytest.skip(f"no device: {error}")
    finally:
        runtime.close()
    if software:
        monkeypatch.setattr(python_ort, "software_vulkan", lambda _: {})
        blind = PythonOrt(target, python)
        with pytest.raises(SetupError, match="finds no devices"):
            blind.run(asked(1), timeout=ENOUGH)
        blind.close()


def test_the_software_device_is_that_of_an_installed_chromium(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("elsewhere no loader is needed")
    place = tmp_path / "chromium"
    place.mkdir()
    monkeypatch.setattr(swiftshader, "_places", lambda: iter([tmp_path, place]))
    assert swiftshader.software_vulkan(tmp_path) == {}
    (place / "vk_swiftshader_icd.json").write_text("{}")
    (place / "libvulkan.so.1").write_bytes(b"")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/theirs")
    for _ in range(2):
        found = swiftshader.software_vulkan(tmp_path)
        assert found["VK_ICD_FILENAMES"] == str(place / "vk_swiftshader_icd.json")
        assert found["LD_LIBRARY_PATH"] == f"{tmp_path / 'vulkan'}:/theirs"
        assert [path.name for path in (tmp_path / "vulkan").iterdir()] == ["libvulkan.so.1"]
