"""Whether an error says that memory ran out, in the words of the libraries that say so."""

from __future__ import annotations

import re

WORDS = re.compile(
    r"bad_alloc\b|\bbad allocation\b|MemoryError\b"  # C++, also Microsoft's; Python and numpy
    r"|\b[Ff]ailed to allocate (memory|a buffer of size)|\b[Cc]annot allocate memory"  # ONNX Runtime; the system
    r"|\b[Aa]rray buffer allocation failed|\bMaximum memory size exceeded|\b[Cc]ould not allocate memory"  # V8
    r"|\bAborted\(OOM\)|\bCannot enlarge memory"  # Emscripten
    r"|\bVK_ERROR_OUT_OF_(HOST|DEVICE)_MEMORY\b|\bE_OUTOFMEMORY\b|\bGPUOutOfMemoryError\b"
    r"|\b[Oo]ut of memory\b",  # CUDA, and Windows
    re.ASCII,
)
"""What they say; in a form that JavaScript reads in the same way, as is `NAMES`."""
NAMES = re.compile(
    r"Load model from .*? failed|Name:\s*'.*?' (?=Status Message:)|\b[Nn]ode ?\(.*?\)(?=\.?$| Op \()"
    r"|(?<!\w)'[^']*'(?!\w)|\"[^\"]*\"|`[^`]*`",
    re.MULTILINE,
)
"""Names out of models and paths, which may be any words."""


def says_no_memory(message: str) -> bool:
    """Whether a runtime's message, apart from the names that it quotes, says that an allocation failed."""
    return bool(WORDS.search(NAMES.sub("", message)))
