"""Splits a row that both branches of a condition find into two, so that reading it in one does not count as writing it.

In lowered text a row is named as it was written, ``accounts[key]``. A row is read or written as a whole. Each branch gets
a row of its own, so that an event whose branch only reads the row need not wait like one that writes it.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Collection

OTHER = "\u200c"
"""Follows the name of a row in the second branch: it is invisible, and in no name that a user wrote."""


def part_rows(body: list[ast.stmt], names: Collection[str]) -> dict[str, str]:
    """Rename rows in second branches, where a row is found in both branches of a condition and used nowhere outside it.

    Parameters
    ----------
    body : list of statements
        Changed.
    names : collection of str
        Of the rows that may be split: not those that the user has named.

    Returns
    -------
    dict of str to str
        New name -> former name.

    Examples
    --------
    >>> tree = ast.parse("if e.is_read: row = e.k; x = row.a\\nelse: row = e.k; row.a = 1")
    >>> found = part_rows(tree.body, ["row"])
    >>> found == {"row" + OTHER: "row"}, ast.unparse(tree).replace(OTHER, "_2").splitlines()[-2:]
    (True, ['    row_2 = e.k', '    row_2.a = 1'])
    """
    parted: dict[str, str] = {}
    _part(body, _mentioned(body), set(names), parted)
    return parted


def _mentioned(statements: list[ast.stmt]) -> Counter[str]:
    return Counter(each.id for node in statements for each in ast.walk(node) if isinstance(each, ast.Name))


def _other(name: str, taken: Collection[str]) -> str:
    other = name + OTHER
    while other in taken:
        other += OTHER
    return other


def _part(statements: list[ast.stmt], everywhere: Counter[str], names: set[str], parted: dict[str, str]) -> None:
    for node in statements:
        if isinstance(node, ast.If):
            body, orelse, both = _mentioned(node.body), _mentioned(node.orelse), _mentioned([node])
            here = [name for name in body if name in names and orelse[name] and both[name] == everywhere[name]]
            meant: dict[str, str] = {}
            for name in here:
                meant[name] = _other(name, parted)
                parted[meant[name]] = name
            if meant:
                node.orelse = copy.deepcopy(node.orelse)  # the branches may share nodes
                for each in [each for statement in node.orelse for each in ast.walk(statement)]:
                    if isinstance(each, ast.Name):
                        each.id = meant.get(each.id, each.id)
                for name, other in meant.items():
                    everywhere[other], everywhere[name] = orelse[name], body[name]
                    names.add(other)
        for block in (getattr(node, "body", []), getattr(node, "orelse", [])):
            _part(block, everywhere, names, parted)


__all__ = ["OTHER", "part_rows"]
