"""Transaction functions of the nastiest shapes, which every scheme and every change must get right.

There are few, so that few are compiled: only the events differ.
"""

import headrace as hr

ROWS = 1_000
SCHEMES = ("serial", "chains", "lock", "mvlk", "partition", "speculative")
EMITS = {"o": "int64", "u": "int64"}
B_AT = 5
A = hr.table("A", columns={"b": "int64", "next": "int64"}, rows=ROWS, first={"b": 1_000, "next": 1})
B = hr.table("B", columns={"b": "int64", "last": "int64"}, rows=ROWS)
V = hr.table(
    "V", columns={"l": hr.list_of("int64"), "s": hr.set_of("int64"), "m": hr.map_of("int64", "int64")}, rows=ROWS
)


def move(e, t):
    """May be rejected after one write, or after both."""
    A[e.a].b -= e.x
    if A[e.a].b < 0:
        t.reject()
    A[e.c].b += e.x
    if e.y > 0:
        t.reject()
    t.emit(o=A[e.a].b, u=A[e.c].b)


def carry_on(e, t):
    """Each event's write builds on what the previous event wrote: a chain as long as the input."""
    B[e.c].b = B[e.a].b * 3 % 1_000_003 + e.x
    B[e.c].last = e.a
    t.emit(o=B[e.c].b, u=B[B_AT].last)


def spread(e, t):
    """Reads what it has written, and keys twice or more; rejected between two writes of one loop."""
    total = 0
    for k in e.ks:
        A[k].b = A[k].b * 3 % 10_007 + e.x
        total = total * 7 % 1_000_003 + A[k].b
        if e.y > 0 and total % 4 == 0:
            t.reject()
    t.emit(o=total)


def look_or_put(e, t):
    """Operations that depend on no other: real chains of them."""
    total = 0
    for k in e.ks:
        if e.y > 0:
            A[k].b = e.x
        else:
            total += A[k].b
    t.emit(o=total)


def gather(e, t):
    """Lists, sets and maps grow and are emptied, after a change of a row that is undone if the event is rejected."""
    mine = V[e.a]
    other = V[e.c]
    A[e.a].b -= e.x
    left = A[e.a].b
    if e.y > 0:
        t.reject()
    mine.l.append(e.x)
    other.s.add(e.x % 97)
    other.m[e.x % 31] = left
    if len(mine.l) > 20:
        mine.l.clear()
    t.emit(o=len(mine.l) + sum(mine.l), u=len(other.s) + sum(other.m))


def follow(e, t):
    """Keys that depend on values read, and change these."""
    first = A[e.a].next
    A[first].b += e.x
    A[e.a].next = (first * 5 + e.x) % 1_000
    if A[first].b > 2_000 and e.y > 0:
        t.reject()
    t.emit(o=A[first].b, u=first)


FUNCTIONS = (move, carry_on, spread, look_or_put, gather, follow)


def cannot(scheme, function):
    """Whether a scheme refuses it: it has no versions of containers, or no keys that depend on values read."""
    if function is gather:
        return scheme == "speculative"
    return function is follow and scheme not in ("serial", "speculative")
