"""Text from models on a terminal: never markup, never something that steers it."""

from __future__ import annotations

from rich.markup import escape


def printable(text: str) -> str:
    """Text from outside with control characters made visible, so that it cannot steer the terminal."""
    return "".join(char if char.isprintable() or char == "\n" else _visible(char) for char in text)


def _visible(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 0x100 else f"\\u{ord(char):04x}"


def safe(text: str) -> str:
    """Printable text that rich takes as it is."""
    return escape(printable(text))
