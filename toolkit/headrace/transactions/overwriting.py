"""Finds operations that only give their row new values, so that only the last of several counts.

Of several such operations on one row, with no other between them, only the last is done (`combining_kernel`). This is
for hot rows that many events of a batch write. An operation qualifies if each of its statements gives a column a constant,
a column of the event or an element of a list that is looped over, of the column's own kind: it cannot fail, overflow or
reject, and nothing reads what the row was. A sum does not qualify: see `adding`.

Source      ours: one hot row bounds what chains can do, however they are built.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from headrace.transactions.event_columns import Readable
from headrace.transactions.splitting import TURN, Site

_CONSTANTS = {bool: "bool", int: "int64", float: "float64", str: "string"}
_ELEMENTS = {"list": "", "texts": "string"}


def overwrites(site: Site, event: str, readable: Mapping[str, Readable]) -> list[str] | None:
    """Columns of the event whose nulls would make the operation fail: it overwrites its row if none of them is null.

    Parameters
    ----------
    site : Site
    event : str
        The name of the event in the function.
    readable : mapping of str to Readable
        Its columns.

    Returns
    -------
    list of str, or None if it does anything else
    """
    if not site.is_unit:
        return None
    kinds = site.row.table.columns
    locals_: dict[str, ast.expr] = {}
    nullable: list[str] = []
    is_written = False
    for node in site.body:
        if isinstance(node, ast.Return):  # the function is over
            break
        if not (isinstance(node, ast.Assign) and len(node.targets) == 1):
            return None
        target = node.targets[0]
        if isinstance(target, ast.Name):
            if target.id != site.row.name:
                locals_[target.id] = node.value
            continue
        if not (isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == site.row.name):
            return None
        value = locals_.get(node.value.id) if isinstance(node.value, ast.Name) else node.value
        if value is None or _kind(value, event, readable) != kinds[target.attr]:
            return None
        if isinstance(value, ast.Attribute):
            nullable.append(value.attr)
        is_written = True
    return nullable if is_written else None


def _kind(value: ast.expr, event: str, readable: Mapping[str, Readable]) -> str | None:
    """The kind of a value that needs no computation; None for any other."""
    if isinstance(value, ast.Constant):
        return _CONSTANTS.get(type(value.value))
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Name) and value.slice.id == TURN:
        column = _column(value.value, event, readable)
        return None if column is None or not column.is_list else _ELEMENTS[column.kind] or column.dtype
    column = _column(value, event, readable)
    return None if column is None or column.is_list else column.kind


def _column(value: ast.expr, event: str, readable: Mapping[str, Readable]) -> Readable | None:
    is_column = isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.value.id == event
    return readable.get(value.attr) if is_column else None  # type: ignore[attr-defined]
