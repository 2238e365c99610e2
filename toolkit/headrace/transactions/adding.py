"""Finds operations that only add a number taken from the event to their row, so that many of a batch are done as one.

Of several such operations on one row, with no other between them, only the last is done, with the sum of all
(`combining_kernel`). This is for hot rows that many events of a batch count in. An operation qualifies if each of its
statements adds to an int64 column, or subtracts from it, a whole number that is computed without the row. The number is
computed where operations are named, by each executor for its slice: so all executors share the cost, even for a single row.

It is exact: only whole numbers of 32 bits are added up, so that no sum of a batch is too large (`MOST_ADDED`). Where one of
the row's intermediate values might leave int64, that is checked, and if it does the run ends at that event. An operation
whose number cannot be computed is left to the chain, which ends the run in the order of events.

Source      ours, as `overwriting`.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence

from headrace.transactions.splitting import KEPT, Site

ADDED = "added"


def added_columns(site: Site, event: str) -> list[str] | None:
    """Columns that an operation adds to, in the order of its statements; None if it does anything else.

    Parameters
    ----------
    site : Site
    event : str
        The name of the event in the function.
    """
    if not site.is_unit or site.saved:
        return None
    table, row = site.row.table, site.row.name
    known, columns = {event}, []
    for node in site.body:
        if isinstance(node, ast.Return):
            break
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            known.add(node.targets[0].id)  # it depends on the event alone: a unit has no other assignments
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub) and _is_of(node.target, row):
            columns.append(node.target.attr)  # type: ignore[union-attr]
        else:
            return None
        if any(_is_of(each, row) for each in ast.walk(node.value)):
            return None
    is_whole = all(table.columns[column] == "int64" and column not in table.least for column in columns)
    return columns if columns and is_whole and len({*columns}) == len(columns) else None


def addends(site: Site, columns: Sequence[str]) -> list[ast.stmt]:
    """Statements that compute what an operation adds: `KEPT.added@0` and so on, by the place of the column."""
    made: list[ast.stmt] = []
    for node in site.body:
        if isinstance(node, ast.Return):
            break
        if isinstance(node, ast.Assign) and node.targets[0].id != site.row.name:  # type: ignore[attr-defined]
            made.append(copy.deepcopy(node))
        elif isinstance(node, ast.AugAssign):
            number = columns.index(node.target.attr)  # type: ignore[union-attr]
            target = ast.Attribute(ast.Name(KEPT, ast.Load()), f"{ADDED}@{number}", ast.Store())
            value = copy.deepcopy(node.value)
            if isinstance(node.op, ast.Sub):
                value = ast.BinOp(ast.Constant(0), ast.Sub(), value)
            assign = ast.copy_location(ast.Assign([target], value), node)
            made.append(ast.fix_missing_locations(assign))
    return made


def _is_of(node: ast.AST, row: str) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == row


__all__ = ["ADDED", "added_columns", "addends"]
