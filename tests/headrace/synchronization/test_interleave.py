"""Mailboxes, the tree and the workers' loop under every interleaving of their own text.

Property    each event sees, of those that its tag depends on, the ones of smaller rank and no others; each is processed
            once, on a state that is there; results leave in the order of events, none behind what was promised;
            planned changes of threads come into force, all of them; nobody waits for ever
Oracle      a state is the set of events processed on it, a fork copies it, a join is the union: an event's result is
            what it finds there of those it depends on, and that is known
Schedules   of `mailbox_kernel`, `tree_kernel`, `plan_kernel` and all they import, as they are (`interleave`): a feeder for
            each input, workers, a collector. Time-outs do not happen: who sleeps needs a wake-up. Trees are laid
            out by `layout`; mailboxes of few events and runs. A fifth of the sampled schedules run with store buffers;
            one feeder and one leaf are run in all schedules with one preemption, with store buffers, too
Planted     each names the failure it must cause; those that need more than draws find are in test_interleave_results.py
Cannot see  memory weaker than x86's; states and stores as they are (real runs do: test_runs.py, test_random_programs.py)
"""

# ruff: noqa: F821  (the names are the explored kernels')

from collections import namedtuple
from types import SimpleNamespace

import pytest

from headrace.progress import END_OF_TIME, MIN_TIME
from headrace.references import SOURCE_SHIFT
from headrace.synchronization.control import PlanArrays
from headrace.synchronization.layout import lay_out
from headrace.synchronization.plan_nodes import PlanNode
from headrace.synchronization.plans import Plan
from headrace.synchronization.tags import ImplementationTag
from interleave import SC, TSO, Kernels, copied, exhaustive, find_failure, sampled

MAILBOX = "headrace.synchronization.mailbox_kernel"
TREE = "headrace.synchronization.tree_kernel"
LOOP = "headrace.synchronization.plan_kernel"
NEVER = 2**63 - 1
NOTHING = -1
RESULTS = 32
Shared = namedtuple("Shared", PlanArrays._fields)


def feed(c, i, s, heartbeat):
    """An input: its rows in turn, then the end. What is not kept is gone."""
    rows = s.ts[i]
    done = 0
    while i in s.late and load_acquire(s.ended, 0) == 0 and not are_asleep(c):
        pause()
    while done < len(rows) and not stopped(c):
        kept = first_kept(c, i)
        s.kept[i][:kept] = [GONE] * kept
        go_in(c, i, s)
        taken = add_or_wait(c, i, rows, s.queues[i], done, len(rows) - done, done, heartbeat, c.words)
        store_release(s.inside, i, 0)
        done += taken
        first = min((row for row in range(done) if row not in s.done[i]), default=done)
        assert done - first <= SPAN, f"{done - first} rows of input {i} are kept"
    if i in s.promises:
        promise(c, i, s.promises[i])
    promise(c, i, END_OF_TIME)
    store_release(s.ended, 0, 1)


def are_asleep(c):
    """Whether the first input waits for room, although all that it gave is processed."""
    return load_acquire(c.words, SPACE_WAITING) != 0 and load_acquire(c.queue, PASSED) == load_acquire(c.input, ADMITTED)


def go_in(c, i, s):
    """One at a time, and no input while they are to stay out: as `entrance` has it."""
    while True:
        while load_acquire(c.words, CLOSED) != 0 and not stopped(c):
            pause()
        while exchange(s.inside, i, 1) != 0:
            pause()
        if load_acquire(c.words, CLOSED) == 0 or stopped(c):
            return
        store_release(s.inside, i, 0)


def collect(c, o, s):
    """The collector: takes results, releases them in order up to what is promised; ends the run with the last one."""
    held = []
    while True:
        bound, _ = promised(o)
        for r in range(len(o.head)):
            head = load_acquire(o.head, r)
            held += [(o.primary[r][at], o.a[r][at], o.b[r][at]) for at in range(s.tails[r], head)]
            if head > s.tails[r]:
                s.tails[r] = head
                store_release(o.tail, r, head)
        held.sort()
        held_back = sum(ts > bound for ts, _, _ in held)
        assert held_back <= s.most_held, f"{held_back} results are held back"
        while held and held[0][0] <= bound:
            s.rows.append(held.pop(0))
        if s.ordered and load_relaxed(c.words, RELEASED) != len(s.rows):
            release_results(c, len(s.rows))
        if bound == END_OF_TIME:
            stop_workers(c)
            signal(c.words, DATA_WAITING, c.signals, DATA_EVENT)
            return
        pause()


def replan(c, s, times):
    """Who changes the plan, so many times: here to what it is."""
    for _ in range(times):
        call_out(c)
        while not ask_to_hold(c):
            if load_acquire(c.words, OVER) != 0 or stopped(c):
                store_release(c.words, CLOSED, 0)
                let_go(c)
                return
            pause()
        for i in range(len(c.given)):
            while exchange(s.inside, i, 1) != 0:
                pause()
        assert max(s.state[:-1], default=-1) < 0 <= s.state[-1], f"no state at the root alone: {s.state}"
        for i in range(len(c.given)):
            store_release(s.inside, i, 0)
        store_release(c.words, CLOSED, 0)
        let_go(c)


def replan_due(c, s):
    """Who makes planned changes of the plan, as `Reconfiguration` does: here to what it is."""
    while load_acquire(c.words, OVER) == 0 and not stopped(c):
        due = load_acquire(c.words, DUE)
        if due > load_acquire(c.words, PLANNED) and ask_to_hold(c):
            while exchange(c.words, PROMISING, 1) != 0:
                pause()
            if load_acquire(c.words, PLANNED) < due:
                assert max(s.state[:-1], default=-1) < 0 <= s.state[-1], f"no state at the root alone: {s.state}"
                come_into_force(c, due)
            exchange(c.words, PROMISING, 0)
            let_go(c)
        else:  # having waited in there, it has to look at OVER again before it waits here
            pause()
    let_go(c)


# -- what updates, forks and joins do, for `given`


def find_row(c, s, n, me, alone):
    """On the node's state; or, of an event that takes its own entry alone, on those of all below that hold any."""
    s.places[me] = [n] if not alone else holders(c, n)
    assert s.places[me] and all(s.state[m] >= 0 for m in s.places[me]), f"no state: an update at node {n}"
    s.found[me] = [s.state[m] for m in s.places[me]]
    s.held[me] = 0
    for m in s.places[me]:
        s.held[me] |= s.state[m]


def holders(c, n):
    """Where the state is of what is below a node: as `entries` finds them."""
    below, left, cells, joined = 3, 1, 3, 2
    found, m = [], n - 1
    while m >= c.tree[n][below]:
        if c.tree[m][left] < 0 or c.node[m * cells + joined] != 0:
            found.append(m)
            m = c.tree[m][below]
        m -= 1
    return found


def write_row(o, s, l, n, me, i, row):
    """An update gives what it finds of those it depends on, and adds itself."""
    at = l[s.out_head]
    o.primary[me][at], o.a[me][at] = s.ts[i][row], (i << SOURCE_SHIFT) | row
    o.b[me][at] = s.held[me] & s.wanted[i][row]
    l[s.out_head] += 1
    for m, found in zip(s.places[me], s.found[me], strict=True):  # what it changes goes to all sides, as a fork would have it
        s.state[m] = found | s.bits[i][row]
    s.done[i].add(row)


def fork_node(me, c, s, l, n, left, right):
    assert s.state[n] >= 0, f"no state: a fork at node {n}"
    assert s.state[left] < 0 and s.state[right] < 0, f"a fork at node {n} writes over a state"
    s.state[left] = s.state[right] = s.state[n]
    s.state[n] = NOTHING


def join_node(me, c, s, l, n, left, right):
    assert s.state[left] >= 0 and s.state[right] >= 0, f"no state: a join at node {n}"
    s.state[n] = s.state[left] | s.state[right]
    s.state[left] = s.state[right] = NOTHING


def find_row_of_change(c, x, at, over):
    """A planned change is not early: so many rows have come that no later one can precede."""
    ends = [c.input[i * CONSTANTS["INPUT_CELLS"] + 1] for i in range(len(c.given))]
    bound = min((c.input[i * CONSTANTS["INPUT_CELLS"]], i, end) for i, end in enumerate(ends))
    came = sum(ts is None or (ts, i, row) < bound for i, end in enumerate(ends) for row, ts in enumerate(x[i][0][:end]))
    assert over or came >= at, f"a change after {came} rows, before its row {at}"


NOT_EARLY = (LOOP, "        install(c, row)\n        planned += 1\n",
             "        find_row_of_change(c, x, c.plan_at[planned], over)\n        install(c, row)\n"
             "        planned += 1\n")  # fmt: skip
IN_TWO_STEPS = (
    TREE,
    "        run_rows(me, c, o, x, s, l, n, tag, i, begin, end)\n",
    "        for row in range(begin, end):\n            find_row(c, s, n, me, tag != number)\n            cut()\n"
    "            write_row(o, s, l, n, me, i, row)\n",
)
"""Others may run between what an update reads of its state and what it writes."""

CONSTANTS = {
    # A cell is one word here, so what lies beside one needs a place of its own.
    "AT": 5, "COUNTED": 6, "WAKE_AT": 7, "QUEUE_CELLS": 8, "MERGED": 2, "INPUT_CELLS": 3, "FEW": 1, "BLOCK": 2,
    "LEAF_LOOKS": 0,  # a pause stands for a wait until something changes, and these end by themselves
    "STATE": 0,  # of a node; workers' meters have another one, which nobody reads here
    "CAPACITY": 4, "RUNS": 4, "ROWS_AT_A_TIME": 2, "LEAST_LEAVE": 2, "SPAN": 6, "MOST_RESULTS": 4,
}  # fmt: skip


def kernels(*planted, **constants):
    return Kernels(
        LOOP, programs=[feed, are_asleep, go_in, collect, replan, replan_due],
        planted=[IN_TWO_STEPS, NOT_EARLY, *planted], shared=("runs",),
        constants={**CONSTANTS, **constants},
        given={
            "view_i64": lambda times, size: times, "find_row": find_row, "write_row": write_row, "fork_node": fork_node,
            "join_node": join_node, "GONE": None, "find_row_of_change": find_row_of_change,
        },
    )  # fmt: skip


class Relation:
    """Which tags depend on each other, written as pairs of letters; all that `layout` asks of a program."""

    types = {"": {}}  # noqa: RUF012

    def __init__(self, pairs):
        self._pairs = {frozenset(pair) for pair in pairs.split()}

    def depends(self, a, b, same_part=True):
        return frozenset((a, b)) in self._pairs


def node(tags, *children):
    """A node of a plan: tags as letter and number of the stream."""
    return PlanNode([(tag[0], 0, int(tag[1])) for tag in tags.split()], children)


def case(
    k, relation, tree, inputs, *, workers=2, heartbeat=1, threads=(), plan_at=(), may_rest_in_vain=True, replans=0,
    ordered=True, replans_at=(), promises=None, entries="", most_held=RESULTS * 9,
    late=(),
):  # fmt: skip
    """Inputs are lists of (ts, tag), tags as in the tree; `threads` at first, then from each of `plan_at` on; else all."""
    relation, plan = Relation(relation), Plan([tree] if isinstance(tree, PlanNode) else tree)
    names = sorted({tag.tag for tag in plan.tags})
    own = [sorted({ImplementationTag(tag[0], 0, int(tag[1])) for _, tag in rows}) for rows in inputs]
    layout = lay_out(plan, relation, own)
    threads = [*threads] or [workers]
    places, queues = layout.places, layout.queues
    cells = k.QUEUE_CELLS
    control = Shared(
        words=[0] * 48, event=[0] * (k.PARK_EVENT + 32 * workers), signals=[0] * 64, meter=[[0] * 16 for _ in range(workers)],
        failure=[0] * 16, reading=[int(me < threads[0]) for me in range(workers)], input=[0] * (k.INPUT_CELLS * len(inputs)),
        given=[], queue=[0] * (cells * len(queues)), runs=[0] * (len(queues) * k.RUNS * k.RUN_WORDS), out=[], out_f=[],
        work=[[0] * 8 for _ in places], shape=[len(places), len(layout.leaves), len(queues), len(places) - 1], tree=[],
        node=[], leaves=layout.leaves, form=[], dependents=[], owned=[],
        rows=[[count, int(at in replans_at)] for at, count in zip([-1, *plan_at], threads, strict=True)],
        plan_at=[*plan_at, NEVER], plan_row=list(range(1, len(threads))) + [0], met_at=[0] * 8, done_at=[0] * 8,
        installed=[[0, 0] for _ in range(8)],
    )  # fmt: skip
    for i in range(len(inputs)):
        mine = layout.queues_from(i)
        control.input[i * k.INPUT_CELLS + k.FRONTIER] = MIN_TIME
        control.given.append([1, mine[0], mine[-1] + 1, 1])  # a directory of one address: TS
    for q, queue in enumerate(queues):
        first = len(control.dependents)
        control.dependents.extend(layout.dependents[q])
        control.form.append([queue.input, queue.node, names.index(queue.tag), first, len(control.dependents),
                             len(names) if queue.tag in entries else -1])  # fmt: skip
        control.queue[q * cells + k.DONE_TS], control.queue[q * cells + k.WAKE_AT] = MIN_TIME, NEVER
    for n, place in enumerate(places):
        first = len(control.owned)
        control.owned.extend(layout.queues_of(n))
        control.tree.append([place.parent, place.left, place.right, place.below, first, len(control.owned)])
        control.node.extend([k.AT_REST, 2, 1])
    out = k.OutArrays(
        words=[0] * 8, event=[0] * 64, head=[0] * (workers + 1), tail=[0] * (workers + 1),
        mark=[END_OF_TIME] * workers + [MIN_TIME], mark_ts=[END_OF_TIME] * workers + [MIN_TIME],
        primary=[[0] * RESULTS for _ in range(workers + 1)], a=[[0] * RESULTS for _ in range(workers + 1)],
        b=[[0] * RESULTS for _ in range(workers + 1)], c=[], at=[], meter=control.meter, membership=[0], list_words=[[]],
        list_head=[], list_tail=[],
    )  # fmt: skip

    ts = [[when for when, _ in rows] for rows in inputs]
    events = [(when, i, row, tag) for i, rows in enumerate(inputs) for row, (when, tag) in enumerate(rows)]
    events.sort()
    bits = [[0] * len(rows) for rows in inputs]
    wanted = [[0] * len(rows) for rows in inputs]
    results = []
    for number, (when, i, row, tag) in enumerate(events):
        bits[i][row] = 1 << number
        wanted[i][row] = sum(1 << m for m, other in enumerate(events) if relation.depends(tag[0], other[3][0]))
        results.append((when, (i << SOURCE_SHIFT) | row, wanted[i][row] & ((1 << number) - 1)))
    by_tag = [dict(zip(tags, route, strict=True)) for tags, route in zip(own, layout.routes, strict=True)]
    routed = [[by_tag[i][ImplementationTag(tag[0], 0, int(tag[1]))] for _, tag in rows] for i, rows in enumerate(inputs)]

    def build():
        c, o = copied(control), copied(out)
        if not ordered:
            c.words[k.RELEASED] = NEVER
            o.mark[-1] = END_OF_TIME - 1
        state = [NOTHING] * len(places)
        state[-1] = 0
        s = SimpleNamespace(
            state=state, held=[0] * workers, found=[[] for _ in range(workers)], places=[[] for _ in range(workers)],
            rows=[], tails=[0] * (workers + 1), ts=ts, bits=bits, wanted=wanted, queues=routed, late=late, ended=[0],
            out_head=k.OUT_HEAD, ordered=ordered, most_held=most_held, inside=[0] * len(inputs),
            kept=[list(times) for times in ts], done=[set() for _ in inputs],
            promises=promises or {},
        )  # fmt: skip
        x = [[times] for times in s.kept]
        threads_ = [k.feed(c, i, s, heartbeat) for i in range(len(inputs))]
        threads_ += [k.run_worker(me, c, o, x, s, [0] * 20) for me in range(workers)]
        threads_.append(k.collect(c, o, s))
        if replans:
            threads_.append(k.replan(c, s, replans))
        if replans_at:
            threads_.append(k.replan_due(c, s))

        def check():
            rows = s.rows if ordered else sorted(s.rows)
            assert rows == results, f"rows {rows}, wanted {results}"
            in_vain = sum(row[k.RESTS_IN_VAIN] for row in c.meter)
            assert may_rest_in_vain or in_vain == 0, f"leaves rested {in_vain} times in vain"
            assert c.words[k.PLANNED] == len(plan_at), f"planned changes: {c.words[k.PLANNED]} of {len(plan_at)}"
            assert sum(c.queue[q * cells + k.PASSED] for q in range(len(queues))) == len(events)

        return threads_, check

    return build


WINDOW = ("vb bb", node("b0", node("v0"), node("v1")))
THREE = [[(1, "v0"), (3, "v0")], [(1, "v1"), (2, "v1")], [(2, "b0"), (4, "b0")]]
LEVELS = ("vb bb bw vw uw", node("w0", node("b0", node("v0"), node("v1")), node("u0")))
MIXED = ("ac cb be", node("c0 e0", node("a0"), node("b0")))
CROSSED = [[(1, "a0"), (4, "a0")], [(3, "b0"), (9, "b0")], [(2, "c0"), (8, "c0")], [(5, "e0"), (6, "e0")]]
"""What a leaf rests for, an `e`, need not be the next event above: a `c` comes, waits for an `a`, and the leaf rests."""
APART = ("xb", node("", node("x0 b0"), node("y0")))
WAITING = [[(1, "x0"), *((t, "y0") for t in range(2, 12)), (12, "x0")], [(1, "b0"), (5, "b0"), (11, "b0")]]
"""While an `x` waits for what may come of `b`, events pass that do not depend on it, and their results wait."""
TIES = [(1, "v0"), (1, "b0"), (1, "v0"), (1, "b0"), (1, "b0"), (1, "v0")]
CASES = {
    "a window": (*WINDOW, THREE, {"may_rest_in_vain": False}),
    "two at a time": (*WINDOW, THREE, {"heartbeat": 2}),
    "three workers": (*WINDOW, THREE, {"workers": 3, "may_rest_in_vain": False}),
    "three workers, two rows at a time": (*WINDOW, THREE, {"workers": 3, "heartbeat": 2}),
    "a worker parks": (*WINDOW, THREE, {"threads": [2, 1], "plan_at": [2]}),
    "ties of one input": ("vb bb", node("v0 b0"), [TIES], {"heartbeat": 2}),
    "ties of one input, in a tree": ("vb bb", node("b0", node("v0"), node("u0")), [[*TIES, (1, "u0")]], {"heartbeat": 3}),
    "ties of inputs": (*WINDOW, [[(1, "b0"), (1, "v0")], [(1, "v1"), (1, "v1")], [(1, "b0"), (1, "v1")]], {}),
    "one leaf": ("vb bb", node("v0 v1 b0"), THREE, {}),
    "events above that are independent": (*MIXED, CROSSED, {}),
    "three levels": (*LEVELS, [*THREE, [(3, "w0"), (4, "w0")], [(2, "u0"), (3, "u0")]], {}),
    "two roots": ("vb bb", [node("b0 v0"), node("u0")], [[(1, "v0"), (2, "b0"), (3, "v0")], [(1, "u0"), (2, "u0")]], {}),
    "full mailboxes": (*WINDOW, [
        [(t, "v0") for t in range(9)], [(t, "v1") for t in range(5)], [(2, "b0"), (7, "b0")],
    ], {"heartbeat": 3}),
    "a full mailbox": ("vv", node("v0"), [[(t, "v0") for t in range(7)]], {"workers": 1}),
    "a mailbox emptied at once": ("vv", node("v0"), [[(t, "v0") for t in range(7)]], {
        "workers": 1, "constants": {"ROWS_AT_A_TIME": 4},
    }),
    "threads change": (*WINDOW, THREE, {"workers": 3, "threads": [1, 3, 1, 2], "plan_at": [1, 3, 5]}),
    "a change at the end": (*WINDOW, THREE, {"threads": [2, 1], "plan_at": [99]}),
    "one waits, others pass": (*APART, WAITING, {}),
    "one waits, others pass, two at a time": (*APART, WAITING, {"heartbeat": 2, "workers": 3}),
    "in any order": (*APART, WAITING, {"ordered": False}),
    "a window in any order": (*WINDOW, THREE, {"ordered": False}),
    "threads change, far behind": (*APART, WAITING, {"threads": [2, 1, 2], "plan_at": [9, 13], "ordered": False}),
    "results wait for who lags": ("", node("", node("a0"), node("b0")), [
        [(t, "a0") for t in range(9)], [(3, "b0"), (5, "b0"), (6, "b0")],
    ], {"heartbeat": 2}),
    "results are held back": ("", node("", node("a0"), node("b0")), [
        [(t, "a0") for t in range(24)], [(99, "b0")],
    ], {"heartbeat": 2, "most_held": 18, "late": (1,)}),
    "an input is not ahead any more": ("", node("", node("a0"), node("b0")), [
        [(5, "a0")] * 9, [(1, "b0")],
    ], {"promises": {1: 2}}),
    "entries alone": (*WINDOW, THREE, {"entries": "b"}),
    "entries alone, in levels": (*LEVELS, [*THREE, [(3, "w0"), (4, "w0")], [(2, "u0"), (3, "u0")]], {"entries": "b"}),
    "entries alone, and all": ("vb bb vw bw ww", node("b0 w0", node("v0"), node("v1")), [
        [(1, "v0"), (6, "v0")], [(2, "v1"), (5, "v1")], [(2, "b0"), (4, "w0"), (4, "b0"), (7, "b0")],
    ], {"entries": "b", "heartbeat": 2}),
    "plans change, with entries alone": (*LEVELS, [*THREE, [(3, "w0")], [(2, "u0")]], {"entries": "bw", "replans": 2}),
    "plans are planned": (*WINDOW, THREE, {"threads": [2, 2, 1, 2], "plan_at": [2, 3, 5], "replans_at": (2, 5)}),
    "a plan is planned at the end": (*WINDOW, THREE, {"threads": [2, 2], "plan_at": [6], "replans_at": (6,)}),
    "plans change": (*WINDOW, THREE, {"replans": 3}),
    "plans change, with full mailboxes": (*WINDOW, [
        [(t, "v0") for t in range(9)], [(t, "v1") for t in range(5)], [(2, "b0"), (7, "b0")],
    ], {"heartbeat": 3, "replans": 3}),
    "plans change, in levels": (*LEVELS, [*THREE, [(3, "w0")], [(2, "u0")]], {"workers": 3, "replans": 2}),
}  # fmt: skip


def built(name, *planted):
    relation, tree, inputs, options = CASES[name]
    constants = options.get("constants", {})
    options = {option: value for option, value in options.items() if option != "constants"}
    return case(kernels(*planted, **constants), relation, tree, inputs, **options)


@pytest.mark.parametrize("name", CASES)
def test_interleave_plans(name):
    sampled("plan", built(name), 300, longest=20_000)


@pytest.mark.slow
@pytest.mark.parametrize("memory", [SC, TSO])
def test_interleave_one_leaf_in_all_schedules_with_one_preemption(memory):
    build = case(kernels(), "vb bb", node("v0 b0"), [[(1, "v0"), (1, "v0"), (1, "b0")]], workers=1, heartbeat=2)
    assert exhaustive("plan", build, preemptions=1, memory=memory) > 200


# -- planted mistakes ----------------------------------------------------------------------------------

TAILS = "    for q in range(c.given[i, FIRST_QUEUE], c.given[i, END_QUEUE]):\n        tail = c.queue[queue_cell(q, PENDING)]\n"
ROWS = r"rows \["
ASLEEP = "deadlock"
NO_STATE = "no state|writes over"
GONE = "TypeError"
"""A row that is not kept was read."""

PLANTED = {
    "the frontier is published before the tails": (
        "two at a time", ROWS, SC,
        (MAILBOX, TAILS, "    store_release(c.input, input_cell(i, FRONTIER), ts)\n" + TAILS),
    ),
    "the frontier does not move": (
        "a window", ASLEEP, SC,
        (MAILBOX, "        store_release(c.input, input_cell(i, FRONTIER), ts)  # F3, G1\n", "        pass\n"),
    ),
    "an empty queue may get any row of its input": (
        "ties of one input", ROWS, SC,
        (MAILBOX, "        return frontier, (i << SOURCE_SHIFT) | row, False\n",
         "        return frontier, (i << SOURCE_SHIFT) | ((1 << SOURCE_SHIFT) - 1), False\n"),
    ),
    "rows are admitted before the tails are published": (
        "ties of one input", ROWS, SC,
        (MAILBOX, TAILS,
         "    store_release(c.input, input_cell(i, ADMITTED), load_relaxed(c.input, input_cell(i, ADMITTED)) + count)\n" + TAILS),
        (MAILBOX, "    store_release(c.input, input_cell(i, ADMITTED), load_relaxed(c.input, input_cell(i, ADMITTED)) + count)\n"
         "    if ts >", "    if ts >"),
    ),
    "the frontier is looked at after the tail": (
        "two at a time", ROWS, SC,
        (MAILBOX, "        return frontier, (i << SOURCE_SHIFT) | row, False\n",
         "        frontier = load_acquire(c.input, input_cell(i, FRONTIER))\n"
         "        return frontier, (i << SOURCE_SHIFT) | row, False\n"),
    ),
    "ties go first": (
        "ties of inputs", ROWS, SC,
        (MAILBOX, "    return ts < other_ts or (ts == other_ts and place < other_place)\n", "    return ts <= other_ts\n"),
    ),
    "ties wait": (
        "ties of inputs", ASLEEP, SC,
        (MAILBOX, "    return ts < other_ts or (ts == other_ts and place < other_place)\n", "    return ts < other_ts\n"),
    ),
    "what is promised is that of one input": (
        "a window", ROWS, SC,
        (MAILBOX, "        smallest = min(smallest, load_acquire(c.input, input_cell(i, FRONTIER)))\n",
         "        smallest = load_acquire(c.input, input_cell(i, FRONTIER))\n"),
    ),
    "results are published after the promise": (
        "a window", ROWS, SC,
        (TREE, "    if l[OUT_HEAD] != load_relaxed(o.head, me * CELL):\n"
         "        publish(o, me, l[OUT_HEAD], MIN_TIME, MIN_TIME)  # M1, M2\n", ""),
        (TREE, "    pass_rows(c, q, head, at, total, ts_of(c, x, i, following))  # M3\n",
         "    pass_rows(c, q, head, at, total, ts_of(c, x, i, following))\n"
         "    publish(o, me, l[OUT_HEAD], MIN_TIME, MIN_TIME)\n"),
    ),
    "nobody says that there is room": (
        "full mailboxes", ASLEEP, SC,
        (MAILBOX, " and passed >= load_relaxed(c.queue, queue_cell(q, WAKE_AT)):\n", " and False:\n"),
    ),
    "who waits for room wants more than there is": (
        "full mailboxes", ASLEEP, SC,
        (MAILBOX, "passed + (waiting + 1) // 2 if waiting > 0", "passed + waiting + 1 if waiting > 0"),
    ),
    "who waits says when after a look for room": (
        "a full mailbox", ASLEEP, SC,
        (MAILBOX, "        say_when(c, i)  # S0\n", ""),
        (MAILBOX, "        if taken == 0 and load_acquire(stop, 0) == 0 and",
         "        say_when(c, i)\n        if taken == 0 and load_acquire(stop, 0) == 0 and"),
    ),
    "what is processed is more than may be": (
        "two at a time", ROWS, SC,
        (TREE, "        end = rows_below(c, x, i, begin, min(run_end, begin + ROWS_AT_A_TIME - total), limit_ts, limit_place)\n",
         "        end = min(run_end, begin + ROWS_AT_A_TIME - total)\n"),
    ),
    "nobody looks again before waiting for room": (
        "a full mailbox", ASLEEP, SC,
        (MAILBOX, "        taken = add(c, i, ts, queues, start, count, first_row, heartbeat)  # S2\n", ""),
    ),
    "a leaf goes on before its fork": (
        "two at a time", f"{ROWS}|{NO_STATE}", SC,
        (TREE, "    for m in range(n, c.tree[n, BELOW] - 1, -1):\n",
         "    for m in range(c.tree[n, BELOW], n + 1):\n        if c.tree[m, LEFT] < 0:\n"
         "            store_release(c.node, node_cell(m, STATE), READY)\n"
         "    for m in range(n, c.tree[n, BELOW] - 1, -1):\n"),
    ),
    "a leaf is free without a word": (
        "events above that are independent", ASLEEP, SC,
        (TREE, "    signal(c.words, DATA_WAITING, c.signals, DATA_EVENT)  # T3, T4\n", ""),
    ),
    "joined twice": (
        "a window", NO_STATE, SC, (TREE, "            c.node[node_cell(m, JOINED)] = 1\n", ""),
    ),
    "a joined child is joined again": (
        "three levels", NO_STATE, SC,
        (TREE, "        if c.tree[m, LEFT] >= 0 and c.node[node_cell(m, JOINED)] == 0:\n", "        if c.tree[m, LEFT] >= 0:\n"),
    ),
    "the first child runs the node above": (
        "two at a time", f"{ROWS}|{NO_STATE}", SC,
        (TREE, "        if fetch_add(c.node, node_cell(above, RESTING), 1) == 0:  # N3\n",
         "        if fetch_add(c.node, node_cell(above, RESTING), 1) > 2:  # N3\n"),
    ),
    "a leaf rests while an event that the one above depends on is there, or may come": (
        "a window", "in vain", SC,
        (TREE, "        if not is_below(ts, place, other_ts, other_place):\n            return False\n",
         "        if other_ts == NEVER:\n            return False\n"),
    ),
    "a node does not look at those below": (
        "a window", ROWS, SC,
        (MAILBOX, "        other = c.dependents[k]\n        ts, place, _ = first_of(c, x, other)\n",
         "        other = c.dependents[k]\n        if c.form[other, NODE] < c.form[q, NODE]:\n            continue\n"
         "        ts, place, _ = first_of(c, x, other)\n"),
        (TREE, "        if not is_below(ts, place, other_ts, other_place):\n            return False\n",
         "        if other_ts == NEVER:\n            return False\n"),
    ),
    "who waits does not look at the leaves": (
        "events above that are independent", ASLEEP, SC,
        (TREE, "    for m in range(c.tree[n, BELOW], n + 1):\n        if next_queue(c, x, m)[0] >= 0:\n",
         "    for m in range(n, n + 1):\n        if next_queue(c, x, m)[0] >= 0:\n"),
    ),
    "a leaf is taken by two": (
        "three workers, two rows at a time", f"{ROWS}|{NO_STATE}|Error", SC,
        (LOOP, "        if not compare_exchange(c.node, node_cell(leaf, STATE), READY, RUNNING):  # K1\n",
         "        if exchange(c.node, node_cell(leaf, STATE), RUNNING) == AT_REST:  # K1\n"),
    ),
    "who parks wakes nobody": (
        "a worker parks", ASLEEP, SC,
        (LOOP, "            signal(c.words, DATA_WAITING, c.signals, DATA_EVENT)  # W4\n", ""),
    ),
    "who holds waits until nobody asks": (
        "plans change", ASLEEP, SC,
        (TREE, "    while load_acquire(c.words, HELD) != 0 and not stopped(c):  # H4\n",
         "    while load_acquire(c.words, RESTS) != 0 and not stopped(c):  # H4\n"),
    ),
    "who holds is let go while rest is asked for": (
        "plans change", ASLEEP, SC,
        (TREE, "    store_release(c.words, RESTS, 0)  # H3\n    store_release(c.words, HELD, 0)  # H4\n",
         "    store_release(c.words, HELD, 0)\n    store_release(c.words, RESTS, 0)\n"),
    ),
    "who holds forks when the run stops": (
        "plans change", "at the root alone", SC,
        (TREE, "    if not stopped(c):\n        fork_below(me, c, s, l, c.shape[ROOT])\n",
         "    fork_below(me, c, s, l, c.shape[ROOT])\n"),
    ),
    "entries are taken from below a joined node": (
        "entries alone, and all", NO_STATE, SC,
        (TREE, "            if c.form[q, ENTRY_TAG] >= 0 and c.node[node_cell(n, JOINED)] == 0:\n",
         "            if c.form[q, ENTRY_TAG] >= 0:\n"),
    ),
    "entries are taken while leaves run": (
        "entries alone", f"{ROWS}|{NO_STATE}", SC,
        (TREE, "        if fetch_add(c.node, node_cell(above, RESTING), 1) == 0:  # N3\n",
         "        if fetch_add(c.node, node_cell(above, RESTING), 1) > 2:  # N3\n"),
    ),
    "a plan comes into force while rows are counted": (
        "plans are planned", f"{GONE}|{ASLEEP}|planned changes", SC,
        (LOOP, "    while exchange(c.words, PLANNING, 1) != 0:  # D2\n        pause()\n", ""),
    ),
    "what is kept has no bound": (
        "one waits, others pass, two at a time", "rows of input 0 are kept", SC,
        (MAILBOX, "    return min(CAPACITY - waiting, SPAN - kept)\n", "    return CAPACITY - waiting\n"),
    ),
    "rows are freed that came after the last one that was processed": (
        "one waits, others pass", GONE, SC,
        (MAILBOX, "            row = min(row, c.runs[run_of(q, head) + FIRST])\n", "            pass\n"),
    ),
    "rows are freed that a planned change counts": (
        "threads change, far behind", GONE, SC,
        (MAILBOX, "        row = min(row, load_acquire(c.input, input_cell(i, MERGED)))  # K4\n", "        pass\n"),
    ),
    "all inputs wait for results to be released": (
        "one waits, others pass", ASLEEP, SC,
        (MAILBOX, "        if load_acquire(c.input, input_cell(other, FRONTIER)) < frontier:\n", "        if True:\n"),
    ),
    "nobody says that an input is not ahead any more": (
        "an input is not ahead any more", ASLEEP, SC,
        (MAILBOX, "        if load_acquire(c.words, RESULTS) - load_acquire(c.words, RELEASED) > MOST_RESULTS:\n",
         "        if False:\n"),
    ),
    "nobody says that results are released": (
        "results wait for who lags", ASLEEP, SC,
        (MAILBOX, "    if load_acquire(c.words, RESULTS) - before > MOST_RESULTS:\n", "    if False:\n"),
    ),
    "nobody says that rows are counted": (
        "threads change, far behind", ASLEEP, SC,
        (MAILBOX, "    if moved:\n        signal(c.words, SPACE_WAITING, c.signals, SPACE_EVENT)\n", ""),
        (LOOP, "        signal(c.words, SPACE_WAITING, c.signals, SPACE_EVENT)  # rows are not kept for this any more\n",
         "        pass\n"),
    ),
    "who sleeps does not count before": (
        "threads change, far behind", ASLEEP, SC,
        (LOOP, "    change(c, x, False)\n    found = look_around", "    found = look_around"),
    ),
    "rows are counted that an earlier one may precede": (
        "threads change, far behind", "before its row", SC,
        (MAILBOX, "            found = rows_below(c, x, i, row, end, ts, place)\n", "            found = end\n"),
    ),
    "who waits for room is not called out": (
        "plans change, with full mailboxes", ASLEEP, SC,
        (MAILBOX, "    signal(c.words, SPACE_WAITING, c.signals, SPACE_EVENT)  # G2, G3\n", ""),
    ),
    "who is called out waits for room": (
        "plans change, with full mailboxes", ASLEEP, SC,
        (MAILBOX, " and load_acquire(stop, 0) == 0 and load_acquire(c.words, CLOSED) == 0:\n",
         " and load_acquire(stop, 0) == 0:\n"),
    ),
    "no fence between what is processed and who waits for room": (
        "a mailbox emptied at once", ASLEEP, TSO,
        (MAILBOX, "    store_release(c.queue, queue_cell(q, PASSED), passed)  # G1\n    fence()  # G2\n",
         "    store_release(c.queue, queue_cell(q, PASSED), passed)\n"),
    ),
    "results are not counted": (
        "results are held back", "results are held back", SC,
        (TREE, "        fetch_add(c.words, RESULTS, l[OUT_HEAD] - results)  # B1\n", "        pass\n"),
    ),
    "a heartbeat is an event": (
        "a window", "in vain", SC,
        (MAILBOX, "        return frontier, (i << SOURCE_SHIFT) | row, False\n",
         "        return frontier, (i << SOURCE_SHIFT) | row, frontier < END_OF_TIME\n"),
    ),
    "who sleeps does not look before": (
        "a full mailbox", ASLEEP, SC,
        (LOOP, "    found = look_around(me, c, o, x, s, l)  # W2\n", "    found = False\n"),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("mistake", PLANTED)
def test_interleave_planted_mistake_is_found(mistake):
    name, expected, memory, *planted = PLANTED[mistake]
    find_failure("plan", built(name, *planted), expected, count=8000, longest=20_000, memory=memory)
