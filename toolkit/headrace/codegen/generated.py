"""The result of rewriting a user function for one kernel: its text, and its properties."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.codegen.capture import CapturedFunction

_MAY_RAISE = re.compile(
    r"[/%]|\*\*|\bmath\.|\bnp\.(?!int64\(|float64\()|\braise\b|\bwhile\b|\bfor\b|@compiled_user_bounded"
    r"|\bkept_(?!float|bits|key_bits|less|lesser|greater|follows|count|has|find|or|entry|sum|discard)\w"
    r"|\bchecked_(?!int64|float\b|float64|float32|among|alike|bool|truth|negative|magnitude|invert)"
)


@dataclass(frozen=True)
class GeneratedFunction:
    """A user function, rewritten for one kernel.

    Attributes
    ----------
    name : str
        The function that the kernel calls.
    parameters : tuple of str
        Parameters of `name`, by position.
    source : str
        The function and the helpers it calls, decorated. Each line ends in a
        marker, which `translate_error` reads wherever the text is pasted.
    imports : tuple of str
        Lines that the module needs above it.
    line_map : dict
        Line of `source`, from 1 -> (file, line) of the user.
    reads, writes : dict
        Role -> names of the fields that it reads, and assigns; a call of ``emit`` assigns the fields passed to it.
    expression : str or None
        The returned expression, where the function consists of it alone: a template
        can write it in place of a call.
    impure : tuple of str
        Calls whose results differ from run to run, such as ``random.random``.
    captured : CapturedFunction
    """

    name: str
    parameters: tuple[str, ...]
    source: str
    imports: tuple[str, ...]
    line_map: Mapping[int, tuple[str, int]]
    reads: Mapping[str, tuple[str, ...]]
    writes: Mapping[str, tuple[str, ...]]
    expression: str | None
    impure: tuple[str, ...]
    captured: CapturedFunction
    markers: Mapping[str, CapturedFunction]

    @property
    def signature(self) -> str:
        """The function's call, as ``name(parameter, ...)``."""
        return f"{self.name}({', '.join(self.parameters)})"

    @property
    def may_raise(self) -> bool:
        """Whether a call may fail or take long: it is then made only when needed, and its tuple is recorded."""
        return bool(_MAY_RAISE.search("\n".join(line.partition("  # ")[0] for line in self.source.splitlines())))

    @property
    def uses_containers(self) -> bool:
        """Whether it uses kernels on lists, sets, maps or arrays, of a state or its own, or on the order of strings."""
        return any("headrace.codegen.containers" in line for line in self.imports)

    @property
    def preamble(self) -> str:
        """The imports as text."""
        return "\n".join(self.imports) + "\n"
