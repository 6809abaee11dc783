"""What machine this is: words that a bug report needs, and no others."""

from __future__ import annotations

import platform

import pytest

from onnxreduce.runtimes import system
from onnxreduce.runtimes.system import system_facts


def test_this_machine_is_named() -> None:
    found = system_facts()
    assert platform.system() in found["os"] or "macOS" in found["os"]
    assert found["architecture"] == platform.machine()
    assert all(isinstance(text, str) and text for text in found.values())


def test_only_vector_instructions_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = "fpu sse4_2 avx avx2 avx512f avx512_vnni avx_vnni hypervisor lahf_lm fma aes"
    monkeypatch.setattr(system, "_cpuinfo", lambda: {"model name": "A processor", "flags": flags})
    found = system_facts()
    assert found["cpu"] == "A processor"
    assert found["cpu_flags"] == "avx avx2 avx512_vnni avx512f avx_vnni fma"


def test_arm_calls_them_features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "_cpuinfo", lambda: {"features": "fp asimd aes asimddp bf16 i8mm sve"})
    assert system_facts()["cpu_flags"] == "asimd asimddp bf16 i8mm sve"


def test_where_there_is_no_list_numpy_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "_cpuinfo", dict)
    monkeypatch.setattr(system, "_known_to_numpy", lambda: "sse2 avx2 fma3 neon")
    assert system_facts()["cpu_flags"] == "avx2 neon"
