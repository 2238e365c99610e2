"""What the interleavings of plans run: a case is a plan, the inputs' rows, and programs around the kernels' own text.

The kernels of `synchronization` run with a feeder for each input, a collector, and a thread that changes the plan. A state is
the set of events processed on it; a fork copies it, a join is the union. So an event's result is the set of events that it
finds there and depends on. That set is known, and `case` checks it when all threads have ended.
"""

# ruff: noqa: F821  (the names are the explored kernels')

from collections import namedtuple
from types import SimpleNamespace

import numpy as np

from headrace.progress import END_OF_TIME, MIN_TIME
from headrace.references import SOURCE_SHIFT
from headrace.synchronization.arrays import PlanArrays
from headrace.synchronization.layout import lay_out
from headrace.synchronization.plan_nodes import PlanNode
from headrace.synchronization.plans import Plan
from headrace.synchronization.resuming import Frontier, Reread
from headrace.synchronization.tags import ImplementationTag
from interleave import Kernels, copied

MAILBOX = "headrace.synchronization.mailbox_kernel"
TREE = "headrace.synchronization.tree_kernel"
LOOP = "headrace.synchronization.plan_kernel"
DEALING = "headrace.synchronization.dealing_kernel"
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
        go_in(c, i, s)
        kept = first_kept(c, i)
        s.kept[i][:kept] = [GONE] * kept
        s.tags[i][:kept] = [GONE] * kept
        taken = add_or_wait(c, i, rows, s.queues[i], done, len(rows) - done, done, heartbeat, c.words)
        store_release(s.inside, i, 0)
        done += taken
        first = min((row for row in range(done) if row not in s.done[i]), default=done)
        assert done - first <= SPAN, f"{done - first} rows of input {i} are kept"
    go_in(c, i, s)
    if i in s.promises:
        promise(c, i, s.promises[i])
    promise(c, i, END_OF_TIME)
    store_release(s.inside, i, 0)
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
    """The thread that changes the plan so many times: to each of `s.plans` in turn; to the same plan where there is no other."""
    for number in range(times):
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
        check_root(c, s)
        if len(s.plans) > 1:  # else nothing is written that a promise reads
            while exchange(c.words, PROMISING, 1) != 0:
                pause()
            move(c, s, s.plans[(number + 1) % len(s.plans)])
            exchange(c.words, PROMISING, 0)
        for i in range(len(c.given)):
            store_release(s.inside, i, 0)
        store_release(c.words, CLOSED, 0)
        let_go(c)


def take_checkpoints(c, s, every):
    """The thread that takes checkpoints, as `Checkpointing` does: it notes how many events each has, and checks its frontiers."""
    while load_acquire(c.words, OVER) == 0 and not stopped(c):
        if not await_use(c, 1):
            continue
        while not ask_to_hold(c):
            pause()
        call_out(c)
        for i in range(len(c.given)):
            while exchange(s.inside, i, 1) != 0:
                pause()
        check_root(c, s)
        s.cuts.append(s.passed + passed(c))
        for i in range(len(c.given)):
            runs = [[0] * RUN_WORDS for _ in range(runs_waiting(c, i))]
            copy_waiting(c, s.x, i, runs)
            check_frontier(c, s, i, runs)
        store_release(c.words, QUOTA, every)
        for i in range(len(c.given)):
            store_release(s.inside, i, 0)
        store_release(c.words, CLOSED, 0)
        let_go(c)


def move(c, s, plan):
    """Put another plan into force, and deal out the rows that wait, as `Replanning` does it while everything is at rest."""
    dealt = [[] for _ in c.given]
    for i in range(len(c.given)):
        column = 0 if len(plan.routes[i]) > 1 else -1
        runs = [[0] * RUN_WORDS for _ in range(runs_waiting(c, i))]
        copy_waiting(c, s.x, i, runs)
        runs = in_order(runs)
        dealt[i] = [[0] * DEALT_WORDS for _ in range(count_rows(runs))]
        count = deal(c, s.x, i, runs, plan.routes[i], column, dealt[i])
        dealt[i] = dealt[i][:count]
    write(c, s, plan)
    for i in range(len(c.given)):
        put(c, dealt[i])


def replan_due(c, s):
    """The thread that makes planned changes of the plan, as `Reconfiguration` does, here to the same plan."""
    while load_acquire(c.words, OVER) == 0 and not stopped(c):
        due = load_acquire(c.words, DUE)
        if due > load_acquire(c.words, PLANNED) and ask_to_hold(c):
            while exchange(c.words, PROMISING, 1) != 0:
                pause()
            if load_acquire(c.words, PLANNED) < due:
                check_root(c, s)
                come_into_force(c, due)
            exchange(c.words, PROMISING, 0)
            let_go(c)
        else:  # after waiting above, it must look at OVER again before it waits here
            pause()
    let_go(c)


# -- what a change of the plan does besides, for `given`


def check_root(c, s):
    """Check that everything is joined."""
    root = c.shape[3]
    others = [held for n, held in enumerate(s.state) if n != root]
    assert max(others, default=-1) < 0 <= s.state[root], f"no state at the root alone: {s.state}"


def check_frontier(c, s, i, runs):
    """Check what a checkpoint says of an input: the rows that are processed, and no others."""
    waiting = [row for first, end, *_ in sorted(runs) for row in range(first, end)]
    read = c.input[i * CONSTANTS["INPUT_CELLS"] + 1]
    frontier = Reread(Frontier(), None, {}, "").frontier(read, np.array(waiting, np.int64))
    found = set(np.flatnonzero(frontier.processed_of(0, len(s.ts[i]))).tolist())
    assert found == s.done[i], f"the frontier of input {i} says {sorted(found)}, processed are {sorted(s.done[i])}"


def in_order(runs):
    return sorted(runs)


def count_rows(runs):
    return sum(end - first for first, end, *_ in runs)


def write(c, s, plan):
    """Write another plan, with empty mailboxes, and move the state from root to root. No array becomes shorter."""
    s.passed += passed(c)
    root = c.shape[3]
    s.state[root], s.state[plan.shape[3]] = NOTHING, s.state[root]
    for name in ("tree", "node", "leaves", "form", "dependents", "owned", "queue", "shape"):
        values = getattr(plan, name)
        getattr(c, name)[: len(values)] = [each[:] if isinstance(each, list) else each for each in values]
    for i, (first, end) in enumerate(plan.ranges):
        c.given[i][1:3] = first, end
    s.queues = plan.queues


def passed(c):
    """Events that are processed under the plan in force."""
    cells, place = CONSTANTS["QUEUE_CELLS"], 4
    return sum(c.queue[q * cells + place] for q in range(c.shape[2]))


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
    "DONE_TS": 3, "PASSED": 4, "AT": 5, "COUNTED": 6, "WAKE_AT": 7, "QUEUE_CELLS": 8, "NODE_CELLS": 3, "MERGED": 2,
    "INPUT_CELLS": 3, "FEW": 1, "BLOCK": 2,
    "LEAF_LOOKS": 0,  # a pause means a wait until something changes, but these looks end by themselves
    "STATE": 0,  # of a node; workers' meters have another STATE, which is not read here
    "CAPACITY": 4, "RUNS": 4, "ROWS_AT_A_TIME": 2, "LEAST_LEAVE": 2, "SPAN": 6, "MOST_RESULTS": 4, "PIECES": 2,
}  # fmt: skip


def kernels(*planted, **constants):
    return Kernels(
        LOOP, DEALING, programs=[feed, are_asleep, go_in, collect, replan, move, replan_due, take_checkpoints],
        planted=[IN_TWO_STEPS, NOT_EARLY, *planted], shared=("runs",),
        constants={**CONSTANTS, **constants},
        given={
            "view_i64": lambda times, size: times, "find_row": find_row, "write_row": write_row, "fork_node": fork_node,
            "join_node": join_node, "GONE": None, "find_row_of_change": find_row_of_change, "check_root": check_root,
            "check_frontier": check_frontier,
            "in_order": in_order, "count_rows": count_rows, "write": write, "passed": passed,
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


def plan_arrays(k, tree, relation, names, own, entries, stays, rows):
    """A plan as the arrays have it, as `layout.write_plan` writes it; and the mailbox of each row."""
    layout = lay_out(Plan([tree] if isinstance(tree, PlanNode) else tree), relation, own)
    places, queues, cells = layout.places, layout.queues, k.QUEUE_CELLS
    made = SimpleNamespace(
        places=len(places), tree=[], node=[], leaves=layout.leaves, form=[], dependents=[], owned=[],
        queue=[0] * (cells * len(queues)), routes=layout.routes,
        shape=[len(places), len(layout.leaves), len(queues), len(places) - 1, int(stays)], ranges=[], queues=[],
    )  # fmt: skip
    for i, (tags, route) in enumerate(zip(own, layout.routes, strict=True)):
        mine = layout.queues_from(i)
        made.ranges.append((mine[0], mine[-1] + 1))
        made.queues.append([route[tags.index(implementation_tag(tag))] for _, tag in rows[i]])
    for q, queue in enumerate(queues):
        first = len(made.dependents)
        made.dependents.extend(layout.dependents[q])
        made.form.append([queue.input, queue.node, names.index(queue.tag), first, len(made.dependents),
                          len(names) if queue.tag in entries else -1])  # fmt: skip
        made.queue[q * cells + k.DONE_TS], made.queue[q * cells + k.WAKE_AT] = MIN_TIME, NEVER
    for n, place in enumerate(places):
        first = len(made.owned)
        made.owned.extend(layout.queues_of(n))
        made.tree.append([place.parent, place.left, place.right, place.below, first, len(made.owned)])
        made.node.extend([k.AT_REST, 2, 1])
    return made


def implementation_tag(tag):
    return ImplementationTag(tag[0], 0, int(tag[1]))


def case(
    k, relation, tree, inputs, *, workers=2, heartbeat=1, threads=(), plan_at=(), may_rest_in_vain=True, replans=0,
    ordered=True, replans_at=(), promises=None, entries="", most_held=RESULTS * 9,
    late=(), stays=False, other=None, every=0,
):  # fmt: skip
    """Inputs are lists of (ts, tag), tags as in the tree; `threads`: at first, then from each of `plan_at` on; default all.
    `replans` lead to the plan `other` and back, in turns, or to the same plan if there is no other. A checkpoint is taken after
    `every` so many events, if that is not 0."""
    relation = Relation(relation)
    names = sorted({tag[0] for rows in inputs for _, tag in rows})
    own = [sorted({implementation_tag(tag) for _, tag in rows}) for rows in inputs]
    trees = [tree] if other is None else [tree, other]
    plans = [plan_arrays(k, each, relation, names, own, entries, stays, inputs) for each in trees]
    plan = plans[0]

    def most(name):
        """The first plan's values, followed by zeros where another plan has more."""
        values = getattr(plan, name)
        more = max(plans, key=lambda each: len(getattr(each, name)))
        return values + [[0] * len(v) if isinstance(v, list) else 0 for v in getattr(more, name)[len(values) :]]

    threads = [*threads] or [workers]
    places, queues = max(each.places for each in plans), most("queue")
    shared = Shared(
        words=[0] * 48, event=[0] * (k.PARK_EVENT + 32 * workers), signals=[0] * 96, meter=[[0] * 16 for _ in range(workers)],
        failure=[0] * 16, reading=[int(me < threads[0]) for me in range(workers)], input=[0] * (k.INPUT_CELLS * len(inputs)),
        given=[[1, first, end, 1] for first, end in plan.ranges], queue=queues,
        runs=[0] * (len(queues) // k.QUEUE_CELLS * k.RUNS * k.RUN_WORDS), out=[], out_f=[],
        work=[[0] * k.WORK_WORDS for _ in range(places)], tree=most("tree"), shape=plan.shape,
        node=most("node"), leaves=most("leaves"), form=most("form"), dependents=most("dependents"), owned=most("owned"),
        rows=[[count, int(at in replans_at)] for at, count in zip([-1, *plan_at], threads, strict=True)],
        plan_at=[*plan_at, NEVER], met_at=[0] * 8, done_at=[0] * 8,
        installed=[[0, 0] for _ in range(8)],
    )  # fmt: skip
    for i in range(len(inputs)):
        shared.input[i * k.INPUT_CELLS + k.FRONTIER] = MIN_TIME
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
    tag_of = [[tags.index(implementation_tag(tag)) for _, tag in rows] for tags, rows in zip(own, inputs, strict=True)]

    def build():
        c, o = copied(shared), copied(out)
        c.words[k.QUOTA] = every or NEVER
        if not ordered:
            c.words[k.RELEASED] = NEVER
            o.mark[-1] = END_OF_TIME - 1
        state = [NOTHING] * places
        state[plan.places - 1] = 0
        s = SimpleNamespace(
            state=state, held=[0] * workers, found=[[] for _ in range(workers)], places=[[] for _ in range(workers)],
            rows=[], tails=[0] * (workers + 1), ts=ts, bits=bits, wanted=wanted, queues=plan.queues, late=late, ended=[0],
            out_head=k.OUT_HEAD, ordered=ordered, most_held=most_held, inside=[0] * len(inputs),
            kept=[list(times) for times in ts], done=[set() for _ in inputs],
            promises=promises or {}, plans=plans, passed=0, tags=[list(tags) for tags in tag_of], cuts=[],
        )  # fmt: skip
        # A directory of one chunk: the addresses of TS and, at `values_at(0)`, of the column of tags.
        x = s.x = [[times, None, None, tags] for times, tags in zip(s.kept, s.tags, strict=True)]
        threads_ = [k.feed(c, i, s, heartbeat) for i in range(len(inputs))]
        threads_ += [k.run_worker(me, c, o, x, s, [0] * (k.PIECE + k.PIECE_WORDS * (k.PIECES + 1))) for me in range(workers)]
        threads_.append(k.collect(c, o, s))
        if replans:
            threads_.append(k.replan(c, s, replans))
        if replans_at:
            threads_.append(k.replan_due(c, s))
        if every:
            threads_.append(k.take_checkpoints(c, s, every))

        def check():
            rows = s.rows if ordered else sorted(s.rows)
            assert rows == results, f"rows {rows}, wanted {results}"
            in_vain = sum(row[k.RESTS_IN_VAIN] for row in c.meter)
            assert may_rest_in_vain or in_vain == 0, f"leaves rested {in_vain} times in vain"
            assert c.words[k.PLANNED] == len(plan_at), f"planned changes: {c.words[k.PLANNED]} of {len(plan_at)}"
            assert s.passed + passed(c) == len(events), f"{s.passed + passed(c)} events were processed"
            due = [*range(every, len(events) + 1, every)] if every else []
            assert s.cuts == due, f"checkpoints after {s.cuts} events, wanted after {due}"

        return threads_, check

    return build
