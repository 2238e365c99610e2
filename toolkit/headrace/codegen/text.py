"""Writing kernels as text."""

from __future__ import annotations


def indent(text: str, levels: int) -> str:
    """Indent lines by `levels` of four spaces."""
    return "".join("    " * levels + line + "\n" for line in text.strip("\n").split("\n"))
