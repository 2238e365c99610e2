"""What the kernels of a join depend on, and the names of its state and of its scratch memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

STATE = ("sides", "low", "high")
"""Fields of every join's state, ``s.low`` in kernels; see `join_kernel`."""
RESULTS = ("later_ts", "later_is_right")
"""Fields for the columns of the results; each holds a ring for every instance."""


@dataclass(frozen=True)
class Band:
    """abs(left - right) <= width on columns `left` and `right` (indices) of one dtype.

    The width itself is data: another width needs no other kernel.
    """

    left: int
    right: int
    dtype: str
    is_wide: bool
    """The narrow type cannot hold the width: the exact test takes the place of the quick one."""
    is_equal: bool = False
    """Floats that must be equal, compared with ==: infinity equals itself, though inf - inf is NaN."""

    @staticmethod
    def is_too_wide(dtype: str, width: int | float) -> bool:
        """Whether a quick test in this type would overflow."""
        return (dtype == "int32" and width >= 2**31 - 1) or (dtype == "float32" and width >= 3e38)

    @property
    def has_lower_end(self) -> bool:
        """The quick test is one unsigned comparison, of the distance from the band's lower end."""
        return self.dtype == "int32" and not self.is_wide

    def column(self, side: Side) -> int:
        """Which column of a side it compares."""
        return self.left if side.name == "left" else self.right


@dataclass(frozen=True)
class UserPredicate:
    """A user's predicate on columns of both sides, as text that defines `user_predicate`."""

    text: str
    left: tuple[int, ...]
    right: tuple[int, ...]
    may_raise: bool = False
    """It divides or calls, so it is evaluated pair by pair, with the pair on record, never speculatively."""
    reads_texts: bool = False
    """It reads strings, by id, so it is given the scratch memory, which holds `TEXT_FIELDS` and `LITERALS`."""

    @property
    def memory(self) -> tuple[str, ...]:
        """Its arguments besides values."""
        return ("buffer",) if self.reads_texts else ()

    def columns(self, side: Side) -> tuple[int, ...]:
        """The columns of a side that it reads."""
        return self.left if side.name == "left" else self.right


@dataclass(frozen=True)
class Term:
    """One dimension of an index: equal keys, equal values of a band of width 0, or a band.

    Parameters
    ----------
    kind : {"keys", "equal", "band"}
    band : int
        Number of the band; -1 for keys.
    """

    kind: str
    band: int = -1


@dataclass(frozen=True)
class Side:
    """One input, and the names of its probing tuples' fields in the scratch memory (``buffer.left_keys`` in kernels).

    Parameters
    ----------
    name : {"left", "right"}
    dtypes : tuple of str
        Dtypes of the columns that conditions read.
    """

    name: str
    dtypes: tuple[str, ...]

    @property
    def constant(self) -> str:
        """The name of the side in kernels."""
        return self.name.upper()

    @property
    def width(self) -> str:
        """The name in kernels of the number of words that a chunk has in its sources' directories."""
        return f"{self.constant}_WIDTH"

    @property
    def keys(self) -> str:
        """Field for the keys of probing tuples."""
        return f"{self.name}_keys"

    @property
    def members(self) -> str:
        """Field for the numbers of probing tuples among the records of the group."""
        return f"{self.name}s"

    def values(self, column: int) -> str:
        """Field for probing tuples' values of a column."""
        return f"{self.name}_{column}"

    def lower_ends(self, band: int) -> str:
        """Field for value - width of a band, modulo 2**32; precomputed, because LLVM would otherwise subtract twice per row."""
        return f"{self.name}_low_{band}"


@dataclass(frozen=True)
class JoinShape:
    """What the generated text depends on."""

    bands: tuple[Band, ...]
    on_keys: bool
    user: UserPredicate | None
    left_dtypes: tuple[str, ...]
    right_dtypes: tuple[str, ...]
    index: tuple[Term, ...] = ()
    """The dimensions of the index; empty: all stored tuples are compared."""

    @property
    def sides(self) -> tuple[Side, Side]:
        """The left and the right side."""
        return Side("left", self.left_dtypes), Side("right", self.right_dtypes)


def quick_width(band: int) -> str:
    """Field for the width of a band in the form that its quick test needs."""
    return f"width_{band}"


def exact_width(band: int) -> str:
    """Field for the width of a band in the form that its exact test needs."""
    return f"exact_width_{band}"


def probe_arrays(shape: JoinShape, count: int) -> dict[str, np.ndarray]:
    """Allocate scratch memory for `count` probing tuples of each side."""
    fields: dict[str, np.ndarray] = {}
    for side in shape.sides:
        fields[side.members] = np.zeros(count, np.int64)
        fields[side.keys] = np.zeros(count, np.int32)
        fields |= {side.values(column): np.zeros(count, dtype) for column, dtype in enumerate(side.dtypes)}
        for number, band in enumerate(shape.bands):
            if band.has_lower_end:
                fields[side.lower_ends(number)] = np.zeros(count, np.int32)
    return fields


def width_arrays(shape: JoinShape, widths: Sequence[int | float]) -> dict[str, np.ndarray]:
    """Return the fields that hold each band's width, in the forms that the quick and the exact test need."""
    fields = {}
    for number, (band, width) in enumerate(zip(shape.bands, widths, strict=True)):
        if band.dtype == "int32":
            quick, exact = np.uint32(0 if band.is_wide else 2 * int(width)), np.int64(min(int(width), 2**63 - 1))
        elif band.dtype == "int64":
            quick = exact = np.uint64(min(int(width), 2**64 - 1))
        elif band.dtype == "float32":
            quick, exact = np.float32(0) if band.is_wide else _float32_above(width), np.float64(width)
        else:
            quick = exact = np.float64(width)
        fields[quick_width(number)], fields[exact_width(number)] = np.array([quick]), np.array([exact])
    return fields


def _float32_above(width: float) -> np.float32:
    """A float32 bound that no rounding of a float32 difference within `width` exceeds."""
    bound = np.float32(width) * np.float32(1 + 2**-22)
    return np.nextafter(bound, np.float32(np.inf))
