"""What the interleavings of plans run: a case is a plan, the inputs' rows, and programs around the kernels' own text.

The kernels of `synchronization` run with a feeder for each input, a collector, and a thread that changes the plan. A state is
the set of events processed on it; a fork copies it, a join is the union. So an event's result is the set of events that it
finds there and depends on. That set is known, and `case` checks it when all threads have ended.
"""

# ruff: noqa: F821  (the names are the explored kernels')

from collections import namedtuple
from types import SimpleNamespace

from headrace.progress import END_OF_TIME, MIN_TIME
from headrace.references import SOURCE_SHIFT
from headrace.synchronization.arrays import PlanArrays
from headrace.synchronization.layout import lay_out
from headrace.synchronization.plan_nodes import PlanNode
from headrace.synchronization.plans import Plan
from headrace.synchronization.tags import ImplementationTag
from interleave import Kernels, copied

MAILBOX = "headrace.synchronization.mailbox_kernel"
TREE = "headrace.synchronization.tree_kernel"
LOOP = "headrace.synchronization.plan_kernel"
NEVER = 2**63 - 1
NOTHING = -1
RESULTS = 32
Shared = namedtuple("Shared", PlanArrays._fields)


def feed(c, i, s, heartbeat):
    """An input: gives its rows in turn, then the end. Rows that are not kept are erased."""
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
    """Whether the first input waits for room although all its rows so far have been processed."""
    return load_acquire(c.words, SPACE_WAITING) != 0 and load_acquire(c.queue, PASSED) == load_acquire(c.input, ADMITTED)


def go_in(c, i, s):
    """Enter, one thread at a time, and no input while inputs must stay out: as `entrance` does it."""
    while True:
        while load_acquire(c.words, CLOSED) != 0 and not stopped(c):
            pause()
        while exchange(s.inside, i, 1) != 0:
            pause()
        if load_acquire(c.words, CLOSED) == 0 or stopped(c):
            return
        store_release(s.inside, i, 0)


def collect(c, o, s):
    """The collector: takes results, releases them in order up to the promise, and ends the run with the last one."""
    held = []
    while True:
        bound, _ = promised(o)
        place = promised_place(o, bound)
        for r in range(len(o.head)):
            head = load_acquire(o.head, r)
            held += [(o.primary[r][at], o.a[r][at], o.b[r][at]) for at in range(s.tails[r], head)]
            if head > s.tails[r]:
                s.tails[r] = head
                store_release(o.tail, r, head)
        held.sort()
        held_back = sum(ts > bound for ts, _, _ in held)
        assert held_back <= s.most_held, f"{held_back} results are held back"
        while held and (held[0][0] <= bound or (held[0][0] == bound + 1 and held[0][1] < place)):
            s.rows.append(held.pop(0))
        if s.ordered and load_relaxed(c.words, RELEASED) != len(s.rows):
            release_results(c, len(s.rows))
        if bound == END_OF_TIME:
            stop_workers(c)
            signal(c.words, DATA_WAITING, c.signals, DATA_EVENT)
            return
        pause()


def replan(c, s, times):
    """The thread that changes the plan so many times, here to the same plan."""
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
    """The thread that makes planned changes of the plan, as `Reconfiguration` does, here to the same plan."""
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
        else:  # after waiting above, it must look at OVER again before it waits here
            pause()
    let_go(c)


# -- what updates, forks and joins do, for `given`


def find_row(c, s, n, me, alone):
    """Read the node's state; for an event that takes only its own entry, all states below that hold entries."""
    s.places[me] = [n] if not alone else holders(c, n)
    assert s.places[me] and all(s.state[m] >= 0 for m in s.places[me]), f"no state: an update at node {n}"
    s.found[me] = [s.state[m] for m in s.places[me]]
    s.held[me] = 0
    for m in s.places[me]:
        s.held[me] |= s.state[m]


def holders(c, n):
    """The nodes that hold the state of everything below a node, as `entries` finds them."""
    below, left, cells, joined = 3, 1, 3, 2
    found, m = [], n - 1
    while m >= c.tree[n][below]:
        if c.tree[m][left] < 0 or c.node[m * cells + joined] != 0:
            found.append(m)
            m = c.tree[m][below]
        m -= 1
    return found


def write_row(o, s, l, n, me, i, row):
    """An update gives the events that it finds and depends on, and adds itself."""
    at = l[s.out_head]
    o.primary[me][at], o.a[me][at] = s.ts[i][row], (i << SOURCE_SHIFT) | row
    o.b[me][at] = s.held[me] & s.wanted[i][row]
    l[s.out_head] += 1
    for m, found in zip(s.places[me], s.found[me], strict=True):  # its change goes to all sides, as a fork would copy it
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
    """Check that a planned change is not early: enough rows have come that no later row can precede it."""
    ends = [c.input[i * CONSTANTS["INPUT_CELLS"] + 1] for i in range(len(c.given))]
    bound = min((c.input[i * CONSTANTS["INPUT_CELLS"]], i, end) for i, end in enumerate(ends))
    came = sum(ts is None or (ts, i, row) < bound for i, end in enumerate(ends) for row, ts in enumerate(x[i][0][:end]))
    assert over or came >= at, f"a change after {came} rows, before its row {at}"


NOT_EARLY = (LOOP, "        install(c, row)\n        planned += 1\n",
             "        find_row_of_change(c, x, c.plan_at[planned], over)\n        install(c, row)\n"
             "        planned += 1\n")  # fmt: skip
IN_TWO_STEPS = (
    TREE,
    "    run_rows(me, c, o, x, s, l, n, tag, i, pieces)\n",
    "    for piece in range(PIECE, PIECE + PIECE_WORDS * pieces, PIECE_WORDS):\n"
    "        for row in range(l[piece], l[piece + 1]):\n"
    "            find_row(c, s, n, me, tag != number)\n            cut()\n            write_row(o, s, l, n, me, i, row)\n",
)
"""Other threads may run between an update's read of its state and its write."""

CONSTANTS = {
    # A cell is one word here, so what normally shares a cell needs a place of its own.
    "AT": 5, "COUNTED": 6, "WAKE_AT": 7, "QUEUE_CELLS": 8, "MERGED": 2, "INPUT_CELLS": 3, "FEW": 1, "BLOCK": 2,
    "LEAF_LOOKS": 0,  # a pause means a wait until something changes, but these looks end by themselves
    "STATE": 0,  # of a node; workers' meters have another STATE, which is not read here
    "CAPACITY": 4, "RUNS": 4, "ROWS_AT_A_TIME": 2, "LEAST_LEAVE": 2, "SPAN": 6, "MOST_RESULTS": 4, "PIECES": 2,
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
    """Which tags depend on each other, written as pairs of letters: all that `layout` needs of a program."""

    types = {"": {}}  # noqa: RUF012

    def __init__(self, pairs):
        self._pairs = {frozenset(pair) for pair in pairs.split()}

    def depends(self, a, b, same_part=True):
        return frozenset((a, b)) in self._pairs


def node(tags, *children):
    """A node of a plan; each tag is written as a letter and the number of its stream."""
    return PlanNode([(tag[0], 0, int(tag[1])) for tag in tags.split()], children)


def case(
    k, relation, tree, inputs, *, workers=2, heartbeat=1, threads=(), plan_at=(), may_rest_in_vain=True, replans=0,
    ordered=True, replans_at=(), promises=None, entries="", most_held=RESULTS * 9,
    late=(), stays=False,
):  # fmt: skip
    """Inputs are lists of (ts, tag), tags as in the tree; `threads`: at first, then from each of `plan_at` on; default all."""
    relation, plan = Relation(relation), Plan([tree] if isinstance(tree, PlanNode) else tree)
    names = sorted({tag.tag for tag in plan.tags})
    own = [sorted({ImplementationTag(tag[0], 0, int(tag[1])) for _, tag in rows}) for rows in inputs]
    layout = lay_out(plan, relation, own)
    threads = [*threads] or [workers]
    places, queues = layout.places, layout.queues
    cells = k.QUEUE_CELLS
    shared = Shared(
        words=[0] * 48, event=[0] * (k.PARK_EVENT + 32 * workers), signals=[0] * 64, meter=[[0] * 16 for _ in range(workers)],
        failure=[0] * 16, reading=[int(me < threads[0]) for me in range(workers)], input=[0] * (k.INPUT_CELLS * len(inputs)),
        given=[], queue=[0] * (cells * len(queues)), runs=[0] * (len(queues) * k.RUNS * k.RUN_WORDS), out=[], out_f=[],
        work=[[0] * k.WORK_WORDS for _ in places], tree=[],
        shape=[len(places), len(layout.leaves), len(queues), len(places) - 1, int(stays)],
        node=[], leaves=layout.leaves, form=[], dependents=[], owned=[],
        rows=[[count, int(at in replans_at)] for at, count in zip([-1, *plan_at], threads, strict=True)],
        plan_at=[*plan_at, NEVER], plan_row=list(range(1, len(threads))) + [0], met_at=[0] * 8, done_at=[0] * 8,
        installed=[[0, 0] for _ in range(8)],
    )  # fmt: skip
    for i in range(len(inputs)):
        mine = layout.queues_from(i)
        shared.input[i * k.INPUT_CELLS + k.FRONTIER] = MIN_TIME
        shared.given.append([1, mine[0], mine[-1] + 1, 1])  # a directory of one address: TS
    for q, queue in enumerate(queues):
        first = len(shared.dependents)
        shared.dependents.extend(layout.dependents[q])
        shared.form.append([queue.input, queue.node, names.index(queue.tag), first, len(shared.dependents),
                             len(names) if queue.tag in entries else -1])  # fmt: skip
        shared.queue[q * cells + k.DONE_TS], shared.queue[q * cells + k.WAKE_AT] = MIN_TIME, NEVER
    for n, place in enumerate(places):
        first = len(shared.owned)
        shared.owned.extend(layout.queues_of(n))
        shared.tree.append([place.parent, place.left, place.right, place.below, first, len(shared.owned)])
        shared.node.extend([k.AT_REST, 2, 1])
    out = k.OutArrays(
        words=[0] * 16, event=[0] * 64, head=[0] * (workers + 1), tail=[0] * (workers + 1),
        mark=[END_OF_TIME] * workers + [MIN_TIME], mark_ts=[END_OF_TIME] * workers + [MIN_TIME],
        primary=[[0] * RESULTS for _ in range(workers + 1)], a=[[0] * RESULTS for _ in range(workers + 1)],
        b=[[0] * RESULTS for _ in range(workers + 1)], c=[], at=[], meter=shared.meter, membership=[0], list_words=[[]],
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
        c, o = copied(shared), copied(out)
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
        threads_ += [k.run_worker(me, c, o, x, s, [0] * (k.PIECE + k.PIECE_WORDS * (k.PIECES + 1))) for me in range(workers)]
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
