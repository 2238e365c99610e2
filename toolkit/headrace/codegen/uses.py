"""How often a function uses a field of a state on one way through it, at most."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Mapping

AGAIN = 2
"""Anything above 1: more than once."""

Uses = Counter[tuple[str, str]]


def most_uses(body: Iterable[ast.AST], roles: Mapping[str, str], of: Iterable[str]) -> dict[tuple[str, str], int]:
    """Count the uses of each field.

    Parameters
    ----------
    body : iterable of ast.AST
        Statements, one after another.
    roles : mapping of str to str
        Name in the function -> role.
    of : iterable of str
        Roles whose fields are counted.

    Returns
    -------
    dict of (role, field) to int
        Of two branches the one that uses it more often; in a loop, more than once. A state that is used as a whole, given to
        a helper for one, has no field that is known: it is left out, with all of its fields.

    Examples
    --------
    >>> body = ast.parse("if x:\\n    a.m = s.m\\nelse:\\n    b.m = s.m\\nfor i in s.n: pass").body
    >>> most_uses(body, {"s": "state"}, ["state"])
    {('state', 'm'): 1, ('state', 'n'): 2}
    """
    names = {name: role for name, role in roles.items() if role in set(of)}
    body = list(body)
    fields = [node for one in body for node in ast.walk(one) if isinstance(node, ast.Attribute)]
    within = {id(node.value) for node in fields}
    alone = {
        names[node.id]
        for one in body
        for node in ast.walk(one)
        if isinstance(node, ast.Name) and node.id in names and id(node) not in within
    }
    return {key: count for key, count in _of_all(body, names).items() if key[0] not in alone}


def _of_all(nodes: Iterable[ast.AST], names: Mapping[str, str]) -> Uses:
    total: Uses = Counter()
    for node in nodes:
        total.update(_of_one(node, names))
    return total


def _of_one(node: ast.AST, names: Mapping[str, str]) -> Uses:
    if isinstance(node, ast.If):
        return _of_one(node.test, names) + (_of_all(node.body, names) | _of_all(node.orelse, names))
    found = _of_all(ast.iter_child_nodes(node), names)
    if isinstance(node, ast.For | ast.While):
        return Counter({key: max(AGAIN, count) for key, count in found.items()})
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names:
        found[names[node.value.id], node.attr] += 1
    return found


__all__ = ["most_uses"]
