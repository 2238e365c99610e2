"""Finding the containers of a state that a function hands over: assigned as a whole, and not used otherwise on any path."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

Uses = set[tuple[str, str]]


def given_away(body: Iterable[ast.stmt], roles: Mapping[str, str], of: Iterable[str]) -> dict[int, ast.Attribute]:
    """Find the fields of some states that are assigned to something else and not used otherwise.

    Parameters
    ----------
    body : iterable of ast.stmt
        Statements, one after another.
    roles : mapping of str to str
        Name in the function -> role.
    of : iterable of str
        Roles of states.

    Returns
    -------
    dict of int to ast.Attribute
        The values of such assignments, by identity. A path takes one branch of two, and may repeat a loop;
        if a state is used as a whole, such as passed to a helper, all its fields count as used more than once.

    Examples
    --------
    >>> body = ast.parse("if x:\\n    a.m = s.m\\nelse:\\n    for i in s.m: pass\\na.n = s.n\\nb.n = s.n").body
    >>> [ast.unparse(one) for one in given_away(body, {"s": "state"}, ["state"]).values()]
    ['s.m']
    """
    names = {name: role for name, role in roles.items() if role in set(of)}
    found: dict[int, ast.Attribute] = {}
    if names:
        _search(list(body), names, set(), found)
    return found


def _search(body: list[ast.stmt], names: Mapping[str, str], elsewhere: Uses, found: dict[int, ast.Attribute]) -> None:
    """Search the statements of a path on which the fields `elsewhere` are used as well."""
    uses = [_uses(one, names) for one in body]
    for at, one in enumerate(body):
        others = elsewhere.union(*uses[:at], *uses[at + 1 :])
        if isinstance(one, ast.If):
            others |= _uses(one.test, names)
            _search(one.body, names, others, found)
            _search(one.orelse, names, others, found)
        elif isinstance(one, ast.Assign) and isinstance(one.value, ast.Attribute):
            (key, *_) = uses[at] or [None]
            if key is not None and not others & {key, (key[0], "")} and len(uses[at]) == 1:
                found[id(one.value)] = one.value


def _uses(node: ast.AST, names: Mapping[str, str]) -> Uses:
    """Return the role and field of each use in a node; a state used as a whole has the field ""."""
    fields = [
        each
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id in names
    ]
    within = {id(each.value) for each in fields}
    whole = [
        each for each in ast.walk(node) if isinstance(each, ast.Name) and each.id in names and id(each) not in within
    ]
    return {(names[each.value.id], each.attr) for each in fields if isinstance(each.value, ast.Name)} | {
        (names[each.id], "") for each in whole
    }


__all__ = ["given_away"]
