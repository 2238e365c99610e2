"""Which schemes can run an operator's functions, and why others cannot."""

from __future__ import annotations

from headrace.errors import FunctionError, HeadraceError, NotSupportedError
from headrace.transactions.binding import Bound
from headrace.transactions.configuration import SCHEMES
from headrace.transactions.splitting import shown

KEYLESS = ("serial", "speculative")
"""Schemes that do not ask which rows a transaction will touch."""


def objection(bound: Bound, scheme: str) -> HeadraceError | None:
    """Say why a scheme cannot run the functions; None if it can.

    Parameters
    ----------
    bound : Bound
    scheme : str
        One of `SCHEMES`.
    """
    if scheme not in KEYLESS and bound.undetermined is not None:
        return _again(bound.undetermined)
    if scheme != "speculative":
        return None
    for table in bound.tables:
        if table.containers:
            other = "another scheme" if bound.undetermined is None else "scheme='serial', since a key depends on what is read"
            return NotSupportedError(
                f"scheme='speculative' keeps versions of rows, and the column {next(iter(table.containers))!r} of table"
                f" {table.name!r} is a list, set, map or array, of which it keeps none: use {other}"
            )
        if table.unknown == "insert" and bound.undetermined is not None:
            return NotSupportedError(
                f"scheme='speculative' could insert keys into table {table.name!r} (unknown='insert') that only an invalid"
                f" execution computes, since a key depends on what is read: use scheme='serial', or make the rows beforehand"
            )
    return None


def no_operations(bound: Bound) -> HeadraceError:
    """Say why the functions have no operation chains that could be skip lists."""
    why = next((split.reason for split in bound.splits if split.reason), "some of their keys depend on what is read")
    return NotSupportedError(
        f"chains='skiplist' keeps single operations in skip lists, and these transactions run whole, since"
        f" {shown(why)}: leave it out"
    )


def fitting(bound: Bound) -> tuple[str, ...]:
    """Name the schemes that can run the functions."""
    return tuple(scheme for scheme in SCHEMES if objection(bound, scheme) is None)


def _again(error: FunctionError) -> FunctionError:
    """A copy of an exception, to be raised anew: one that was raised keeps its traceback."""
    return FunctionError(error.args[0], error.function, error.file, error.line)
