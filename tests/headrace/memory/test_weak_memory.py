"""Memory weaker than x86's, by a model: what a seqlock protects must be stored with release.

Property    a scan under the membership seqlock never sees a change of members
            half done; it may if the stores are relaxed, or the scan's loads are
Oracle      all executions of the model, which is the release-acquire part of C11
            as views (Kang et al., "A promising semantics for relaxed-memory
            concurrency", 2017, without promises): a cell keeps every value it
            ever had; a thread may read any that is not older than what it
            already knows of; an acquire load that reads a release store, or a
            read-modify-write, learns all that its writer knew. A relaxed store
            passes on nothing, so a reader may see it and still read what was
            before the writer's earlier stores: as if it had overtaken them
Rule        read from the product's text: every store to a cell that is read
            under a seqlock is a release store, every such load an acquire load
Cannot see  what only promises allow (a load that reads a later store of its own
            thread's future): no thread here loads before it stores

The seqlock (`headrace.memory.seqlock`) over the marks of `headrace.egress.rings`::

    change      VERSION: CAS 0 -> 1 (acq_rel)      scan   VERSION (acquire): even
                mark[0] := END   (leaves)                 mark[0], mark[1]
                mark[1] := 3     (joins)                  VERSION: the same
                VERSION += 1 (acq_rel)

mark[0] = END with mark[1] = END means that the output is over: it is not.
"""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest

END = 99
VERSION, LEAVER, JOINER = "version", "leaver", "joiner"
RELEASE, RELAXED, ACQUIRE = "release", "relaxed", "acquire"


# -- the model -----------------------------------------------------------------------------------------


def outcomes(threads, initial):
    """Every result of the last thread, over all orders of steps and all values that loads may read.

    A thread is a function of no arguments that gives a generator; it yields
    ("load", cell, order), ("store", cell, value, order) or
    ("cas", cell, expected, value), and is sent what it read.
    """
    found = set()
    todo: list[list[int]] = [[]]  # choices, by step; what is not chosen yet is 0
    while todo:
        choices = todo.pop()
        at = 0
        alternatives: list[int] = []

        def choose(count, choices=choices, alternatives=alternatives):
            nonlocal at
            chosen = choices[at] if at < len(choices) else 0
            if at >= len(choices):
                alternatives.append(count)
            at += 1
            return chosen

        found.add(_run(threads, initial, choose))
        for further, count in enumerate(alternatives):
            prefix = choices + [0] * further
            todo += [[*prefix, other] for other in range(1, count)]
    return found


def _run(threads, initial, choose):
    # A message: value, what an acquire load of it learns.
    cells = {cell: [(value, {})] for cell, value in initial.items()}
    running = [thread() for thread in threads]
    views = [dict.fromkeys(initial, 0) for _ in threads]
    wishes = [next(thread) for thread in running]
    results = [None] * len(threads)

    def learn(view, more):
        for cell, place in more.items():
            view[cell] = max(view[cell], place)

    while any(wish is not None for wish in wishes):
        ready = [t for t, wish in enumerate(wishes) if wish is not None]
        t = ready[choose(len(ready))]
        what, cell, *rest = wishes[t]
        view, messages = views[t], cells[cell]
        answer = None
        if what == "load":
            place = view[cell] + choose(len(messages) - view[cell])
            answer, carried = messages[place]
            view[cell] = place
            if rest[0] == ACQUIRE:
                learn(view, carried)
        elif what == "store":
            value, order = rest
            view[cell] = len(messages)
            messages.append((value, dict(view) if order == RELEASE else {}))
        else:  # a read-modify-write reads the newest value, and is acquire and release
            expected, value = rest
            before, carried = messages[-1]
            view[cell] = len(messages) - 1
            learn(view, carried)
            answer = before == expected
            if answer:
                view[cell] = len(messages)
                messages.append((value, {**carried, **view}))
        try:
            wishes[t] = running[t].send(answer)
        except StopIteration as end:
            wishes[t], results[t] = None, end.value
    return results[-1]


def test_example_message_passing():
    """The model's own litmus tests: a flag that is released carries the data, a relaxed one does not."""

    def writer(order):
        def write():
            yield "store", "data", 1, RELAXED
            yield "store", "flag", 1, order

        return write

    def reader(order):
        def read():
            flag = yield "load", "flag", order
            data = yield "load", "data", RELAXED
            return flag, data

        return read

    cells = {"data": 0, "flag": 0}
    right = {(0, 0), (0, 1), (1, 1)}
    assert outcomes([writer(RELEASE), reader(ACQUIRE)], cells) == right
    for relaxed in ([writer(RELAXED), reader(ACQUIRE)], [writer(RELEASE), reader(RELAXED)]):
        assert outcomes(relaxed, cells) == {*right, (1, 0)}


# -- the seqlock ---------------------------------------------------------------------------------------


def change(order, joiner_first=False):
    """One instance leaves and another joins, under the seqlock."""

    def run():
        yield "cas", VERSION, 0, 1
        stores = [("store", LEAVER, END, order), ("store", JOINER, 3, order)]
        yield from reversed(stores) if joiner_first else stores
        yield "cas", VERSION, 1, 2

    return run


def scan(order):
    """`promised`: both marks, or None when the change is seen to be under way."""

    def run():
        before = yield "load", VERSION, ACQUIRE
        leaver = yield "load", LEAVER, order
        joiner = yield "load", JOINER, order
        after = yield "load", VERSION, ACQUIRE
        return (leaver, joiner) if before % 2 == 0 and after == before else None

    return run


START = {VERSION: 0, LEAVER: 1, JOINER: END}
WHOLE = {None, (1, END), (END, 3)}
HALF = {(END, END), (1, 3)}


@pytest.mark.parametrize("joiner_first", [False, True])
def test_example_release_stores_are_seen_whole(joiner_first):
    """In whichever order: it needs none."""
    assert outcomes([change(RELEASE, joiner_first), scan(ACQUIRE)], START) == WHOLE


@pytest.mark.parametrize("joiner_first", [False, True])
def test_planted_relaxed_stores_are_seen_early(joiner_first):
    """The output ends too soon, even if the joiner is stored first: VERSION still looks even."""
    assert outcomes([change(RELAXED, joiner_first), scan(ACQUIRE)], START) == WHOLE | HALF


def test_planted_relaxed_loads_of_the_scan():
    """Release stores alone are not enough: readers must learn what they carry."""
    assert outcomes([change(RELEASE), scan(RELAXED)], START) == WHOLE | HALF


# -- the rule, in the product's text -------------------------------------------------------------------

GATES = ("membership_kernel", "merged_log_kernel", "scalegate_kernel", "skip_list_kernel")
QUEUES = "headrace.elastic.shared_nothing.instance_queues"
MODULES = (*(f"headrace.gates.{name}" for name in GATES), "headrace.egress.rings", QUEUES)
CELLS = {"reading", "cursor", "passed", "feeding", "mark", "mark_ts"}
"""What is read under the seqlock, by the name of its array."""

HINTS = {"cost"}
"""Read under it, too, but right whatever it says: how long a reader takes for a record."""

SCANS = {"slowest_reader", "promised", "_fill"}
"""The functions that read under the seqlock."""


def trees():
    for module in MODULES:
        yield module, ast.parse(Path(find_spec(module).origin).read_text())


def calls(node):
    return [c for c in ast.walk(node) if isinstance(c, ast.Call) and isinstance(c.func, ast.Name)]


def array_of(call):
    """Name of the array of an atomic's cell, if it is a field."""
    return call.args[0].attr if call.args and isinstance(call.args[0], ast.Attribute) else None


def assert_released(source, where=""):
    stores = [c for c in calls(source) if c.func.id.startswith("store_") and array_of(c) in CELLS]
    for call in stores:
        assert call.func.id == "store_release", f"{where} line {call.lineno}: {ast.unparse(call)} is not a release store"
    return len(stores)


def test_example_every_store_to_what_a_seqlock_protects_is_a_release_store():
    assert sum(assert_released(tree, module) for module, tree in trees()) > 15


def test_example_no_other_cells_are_read_under_a_seqlock():
    """If this fails, `CELLS` is out of date: a scan reads more, or there is another one."""
    functions = {f.name: f for _, tree in trees() for f in ast.walk(tree) if isinstance(f, ast.FunctionDef)}

    def called(f):
        return {c.func.id for c in calls(f)}

    assert {name for name, f in functions.items() if called(f) >= {"begin_scan", "is_whole"}} == SCANS
    for name, f in functions.items():
        assert name in SCANS or not called(f) & {"begin_scan", "is_whole"}, f"{name} scans by halves"
        assert not any("VERSION" in ast.unparse(c) for c in calls(f) if c.func.id.startswith("load_")), name
    read, given = set(), set()
    for name in ("slowest_reader", "smallest_of_readers", "promised", "_limit"):  # and what they call
        for call in calls(functions[name]):
            if call.func.id.startswith("load_") and array_of(call) not in {None, "words"}:
                read.add(array_of(call))
                order = "load_relaxed" if array_of(call) in HINTS else "load_acquire"
                assert call.func.id == order, f"{name}: {ast.unparse(call)}"
    for _, tree in trees():
        for call in calls(tree):
            if call.func.id in {"slowest_reader", "smallest_of_readers"} and isinstance(call.args[1], ast.Attribute):
                given.add(call.args[1].attr)
    assert read | given == CELLS | HINTS


def test_planted_a_relaxed_store():
    planted = "def start_mark(o, me, mark):\n    store_relaxed(o.mark, me * CELL, mark)\n"
    with pytest.raises(AssertionError, match="line 2: store_relaxed.* is not a release store"):
        assert_released(ast.parse(planted))
