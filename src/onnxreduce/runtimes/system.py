"""What machine this is, in the words of a bug report: operating system, processor, vector instructions."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import numpy as np

_TELLING = re.compile(r"avx\w*|fma|f16c|amx\w*|asimd\w*|neon|sve\w*|i8mm|bf16|x86_v\d", re.IGNORECASE)
"""Instructions that kernels are chosen by."""


def system_facts() -> dict[str, str]:
    """`os`, `architecture`, `cpu` and `cpu_flags`; what cannot be told is left out."""
    listed = _cpuinfo()
    facts = {
        "os": _os(),
        "architecture": platform.machine(),
        "cpu": listed.get("model name", "") or platform.processor(),
        "cpu_flags": _telling(listed.get("flags", "") or listed.get("features", "")) or _telling(_known_to_numpy()),
    }
    return {key: value for key, value in facts.items() if value}


def _os() -> str:
    try:
        name = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        name = platform.mac_ver()[0] and f"macOS {platform.mac_ver()[0]}"
    kernel = f"{platform.system()} {platform.release()}"
    return f"{name} ({kernel})" if name else kernel


def _cpuinfo() -> dict[str, str]:
    """The first processor in Linux's list, keys in lower case."""
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8", errors="replace")
    except OSError:
        return {}
    lines = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {key.strip().lower(): value.strip() for key, _, value in lines}


def _known_to_numpy() -> str:
    """What numpy's own kernels can use here; it looks on every system, but knows fewer names."""
    found = np.show_config(mode="dicts").get("SIMD Extensions", {})
    return " ".join([*found.get("baseline", []), *found.get("found", [])]).lower()


def _telling(flags: str) -> str:
    return " ".join(sorted({flag for flag in flags.split() if _TELLING.fullmatch(flag)}))
