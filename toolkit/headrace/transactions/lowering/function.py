"""Lowers one function: all parts of the package together."""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from headrace.codegen.capture import capture
from headrace.transactions.branches import part_rows
from headrace.transactions.lowering.lowered import DONE, Lowered
from headrace.transactions.lowering.trees import returning
from headrace.transactions.lowering.tuples import one_by_one
from headrace.transactions.lowering.writes import Writes
from headrace.transactions.nulls import with_columns_named
from headrace.transactions.tables import Table


def lower(function: Any, emits: Collection[str], lists: Collection[str] = ()) -> Lowered:
    """Lower a function ``f(e, t)``.

    Parameters
    ----------
    function : callable
    emits : collection of str
        Columns that it may emit.
    lists : collection of str
        The event's columns that are lists.

    Raises
    ------
    FunctionError
        With the line of what cannot be part of a transaction.
    """
    captured = capture(function, accepts=(Table,))
    given = [name for name in captured.parameters if name not in captured.defaults]
    if not 1 <= len(given) <= 2:
        raise captured.error(f"takes {len(given)} parameters: it is called with (e, t), the event and the transaction")
    return _Lowering(captured, given, list(emits), lists).lowered()


class _Lowering(Writes):
    """Lowers one function, with the functions inlined in it."""

    def lowered(self) -> Lowered:
        captured = self._captured
        statements = one_by_one(copy.deepcopy(captured.node.body), captured.objects)
        statements = with_columns_named(statements, self._event, self._captured.constants)
        self._note_aliases(ast.Module(statements, []))
        body = self._block(statements)
        body.append(returning(DONE, captured.node.body[-1]))
        node = copy.copy(captured.node)
        node.body = body
        ast.fix_missing_locations(node)
        for other, name in part_rows(body, self._rows.keys() - self._aliases.keys()).items():
            self._row(other, self._rows[name].table)
        result = Lowered(replace(captured, node=node, assigned=frozenset(self._assigned)), self._rows, self._calls_emit)
        self._check_containers(node)
        self._note_writes(node)
        self._check_undo(result)
        return result


__all__ = ["lower"]
