"""The form a function is brought into: a statement of its own for each row, and a number that says how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.codegen.capture import CapturedFunction
from headrace.transactions.tables import Table

EMITTED = "<emitted>"
"""The name that stands for what the function gives its event; no Python name."""
MASK = "<mask>"
"""Its field that says which values are given: bit 0 that `emit` was called, bit 1 + i the i-th."""
DONE, REJECTED = 0, 1
"""What a lowered function returns."""


@dataclass
class Row:
    """A row that the function touches, under one name.

    Parameters
    ----------
    name : str
        In the lowered text: the user's own, or what was written, as ``accounts[e.source]``.
    table : Table
    number : int
        Of the rows of the function, from 0.
    """

    name: str
    table: Table
    number: int
    is_written: bool = False


@dataclass
class Lowered:
    """A transaction's function in the form described above.

    Attributes
    ----------
    captured : CapturedFunction
        With the new body.
    rows : dict of str to Row
    calls_emit : bool
        It may give its event a row's values.
    must_undo : bool
        It may be rejected after it wrote.
    """

    captured: CapturedFunction
    rows: dict[str, Row] = field(default_factory=dict)
    calls_emit: bool = False
    must_undo: bool = False


__all__ = ["DONE", "EMITTED", "MASK", "REJECTED", "Lowered", "Row"]
