"""Finds rows that one event uses in turns, and whose operations must not be split: they may be one and the same row.

Operations of one event are done one after the other, in the order in which the function finds their rows (`splitting`):
all that is done to the first row comes before all that is done to the second. If the keys are equal, that agrees with the
function only if it does not use the first row any more once it uses the second.

    A[e.k].b -= 1
    A[e.j].b *= 3
    A[e.k].b += 5     # after what is done to A[e.j]: e.k == e.j would see it
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from headrace.transactions.lowering.lowered import Row
from headrace.transactions.lowering.trees import written_place

Used = dict[str, tuple[set[str], set[str]]]
"""Of each row, by name: the columns that are used, and those of them that are written."""


def used_in_turns(statements: list[ast.stmt], rows: Mapping[str, Row]) -> tuple[str, str, ast.AST] | None:
    """Find two rows of one table where the first is used after the second was, and one of them is written.

    Parameters
    ----------
    statements : list of ast.stmt
        Of a function in which each place that finds a row gives it a name of its own.
    rows : mapping of str to Row
        By these names, in the order in which the function finds them.

    Returns
    -------
    tuple or None
        The first row's name, the second one's, and where the first is used again.
    """
    return _Turns(rows).of(statements, {})


class _Turns:
    def __init__(self, rows: Mapping[str, Row]):
        self._rows = rows
        self._place = {name: place for place, name in enumerate(rows)}

    def of(self, statements: Iterable[ast.AST], used: Used) -> tuple[str, str, ast.AST] | None:
        """Look through a block; `used` has the uses before the block, and its own are added."""
        for node in statements:
            # The branches of a condition exclude each other; what comes after may follow either.
            blocks = [block for name in ("body", "orelse") if (block := getattr(node, name, None)) and isinstance(block, list)]
            own = _uses(_head(node) if blocks else [node], self._rows)
            found = self._late(own, used, node)
            _add(used, own)
            ends = [_copied(used) for _ in blocks]
            for block, end in zip(blocks, ends, strict=True):
                found = found or self.of(block, end)
                _add(used, end)
            if found:
                return found
        return None

    def _late(self, own: Used, used: Used, node: ast.AST) -> tuple[str, str, ast.AST] | None:
        for name, (columns, written) in own.items():
            for other, (others, others_written) in used.items():
                is_later = self._place[other] > self._place[name] and self._rows[other].table is self._rows[name].table
                if is_later and (columns & others_written or written & others):
                    return name, other, node
        return None


def _head(node: ast.AST) -> list[ast.AST]:
    """The expressions of a statement with blocks, outside of these."""
    return [each for name in ("test", "iter", "target") if (each := getattr(node, name, None)) is not None]


def _uses(nodes: Iterable[ast.AST], rows: Mapping[str, Row]) -> Used:
    used: Used = {}
    for each in (each for node in nodes for each in ast.walk(node)):
        for place, is_written in ((each, False), (written_place(each), True)):
            if isinstance(place, ast.Attribute) and isinstance(place.value, ast.Name) and place.value.id in rows:
                columns, written = used.setdefault(place.value.id, (set(), set()))
                columns.add(place.attr)
                if is_written:
                    written.add(place.attr)
    return used


def _copied(used: Used) -> Used:
    return {name: (set(columns), set(written)) for name, (columns, written) in used.items()}


def _add(used: Used, more: Used) -> None:
    for name, (columns, written) in more.items():
        have = used.setdefault(name, (set(), set()))
        have[0].update(columns)
        have[1].update(written)
