"""What a WebGPU adapter says of itself (`adapterFacts` in page/devices.js gives it), read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def is_software(facts: Mapping[str, Any]) -> bool:
    """Whether an adapter computes on the CPU, whatever it calls itself."""
    text = " ".join(str(facts.get(key, "")) for key in ("architecture", "device", "description", "driver")).lower()
    known = ("swiftshader", "llvmpipe", "lavapipe", "basic render")
    return bool(facts.get("fallback")) or any(name in text for name in known)


def adapter_name(facts: Mapping[str, Any]) -> str:
    """One line for an adapter, such as `google swiftshader`."""
    words = [str(facts.get(key) or "") for key in ("vendor", "architecture", "description")]
    return " ".join(word for word in words if word) or "unknown adapter"
