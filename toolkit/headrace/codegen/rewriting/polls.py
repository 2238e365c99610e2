"""Polls that make loops stoppable: where loops test whether the run is stopped.

A loop polls in each iteration, except a loop of constant bounds that has, with all loops in it and in the helpers it calls,
no more than a block of iterations. So there are at most a block of iterations, and the other work of one iteration, between
two polls, however loops are nested.

Tried and rejected: counting iterations down in a local and polling once in a block. A poll is a load and a branch that is
never taken, and the count costs as much: a long loop took the same time (0.53 ns an iteration, of an elastic operator that
adds up a list), a short loop within another 1.4 times as long, one that calls a helper with a loop 1.9 times.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from headrace.codegen.python_numbers.tuples import checked_alike
from headrace.codegen.trees import statements

BLOCK = 1024
"""Maximum number of iterations between two polls."""
_KEPT_TURNS = 64
"""Iterations that a call of a container kernel counts as: some sort, search or copy the whole container."""


def add_polls(body: list[ast.stmt], poll: str | None, leave: str, helpers: Mapping[str, int]) -> int:
    """Insert polls into the loops of a rewritten function.

    Parameters
    ----------
    body : list of ast.stmt
        The whole function, rewritten; polls are inserted into it.
    poll : str or None
        The condition under which loops are left; None: no polls.
    leave : str
        The statement that leaves the function.
    helpers : dict
        Name of a helper -> iterations without a poll in a call of it.

    Returns
    -------
    int
        Iterations without a poll in a call of this function.

    Examples
    --------
    >>> body = ast.parse("for i in range(n):\\n    for j in range(3):\\n        s += j").body
    >>> add_polls(body, "stopped(c)", "return", {})
    0
    >>> print(ast.unparse(body))
    for i in range(n):
        if stopped(c):
            return
        for j in range(3):
            s += j
    """
    if poll is None:
        return 0
    polls = _Polls(f"if {poll}:\n    {leave}", helpers)
    return sum(map(polls.turns, body))


class _Polls:
    """The polls of one function."""

    def __init__(self, look: str, helpers: Mapping[str, int]):
        self.look = look
        self.helpers = helpers

    def turns(self, node: ast.AST) -> int:
        """Insert polls into the loops of a node; returns the number of its iterations without a poll."""
        if isinstance(node, ast.For | ast.While):
            return self._turns_of_loop(node)
        inside = sum(map(self.turns, ast.iter_child_nodes(node)))
        if isinstance(node, ast.comprehension):
            return BLOCK  # there is no place in it for a poll
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            inside += _KEPT_TURNS if node.func.id.startswith("kept_") else self.helpers.get(node.func.id, 0)
        return inside

    def _turns_of_loop(self, loop: ast.For | ast.While) -> int:
        once = sum(map(self.turns, loop.orelse))
        one_turn = 1 + sum(map(self.turns, loop.body))
        if isinstance(loop, ast.For):
            once += self.turns(loop.iter)
            count = _constant_count(loop.iter)
            if count is not None and count * one_turn <= BLOCK:
                return once + count * one_turn
        loop.body[:0] = statements(self.look, loop)
        return once


def _constant_count(iterable: ast.expr) -> int | None:
    """Return the number of iterations of a loop over this, if it is constant."""
    if isinstance(iterable, ast.Call) and ast.unparse(iterable.func) == checked_alike.__name__:
        iterable = iterable.args[0]
    if isinstance(iterable, ast.Tuple | ast.List):
        return len(iterable.elts)
    if not (isinstance(iterable, ast.Call) and ast.unparse(iterable.func) == "range"):
        return None
    try:
        return len(range(*map(ast.literal_eval, iterable.args)))
    except (ValueError, TypeError, OverflowError):
        return None  # computed bounds, a step of 0, or more iterations than `len` can count


__all__ = ["BLOCK", "add_polls"]
