"""Mailboxes, the tree and the workers' loop under every interleaving of their own text.

Property    each event sees, of those that its tag depends on, the ones of smaller rank and no others; each is processed
            once, on a state that is there; results leave in the order of events, none behind what was promised;
            planned changes of threads come into force, all of them; checkpoints come after the same numbers of events, the
            last one before the end, and the frontier of each input says which of its rows are processed; rows that wait while
            the plan changes are in the mailboxes of the new one, in order;
            nobody waits for ever
Oracle      a state is the set of events processed on it, a fork copies it, a join is the union: an event's result is
            what it finds there of those it depends on, and that is known
Schedules   of `mailbox_kernel`, `tree_kernel`, `plan_kernel`, `dealing_kernel` and all they import, as they are
            (`interleave`): a feeder for each input, workers, a collector. Time-outs do not happen: a sleeper needs a
            wake-up. Trees are laid out by `layout`; mailboxes of few events and runs. A fifth of the sampled schedules run
            with store buffers; one feeder and one leaf are run in all schedules with one preemption, with store buffers, too
Planted     each names the failure it must cause; those that need more than draws find are in test_interleave_results.py
Cannot see  memory weaker than x86's; states and stores as they are (real runs do: test_runs.py, test_random_programs.py)
"""

import pytest

from headrace.synchronization import resuming
from interleave import SC, TSO, exhaustive, find_failure, sampled
from planted_mistakes import planted
from support.campaign import rarely
from support.plan_interleavings import DEALING, LOOP, MAILBOX, TREE, case, kernels, node

WINDOW = ("vb bb", node("b0", node("v0"), node("v1")))
THREE = [[(1, "v0"), (3, "v0")], [(1, "v1"), (2, "v1")], [(2, "b0"), (4, "b0")]]
LEVELS = ("vb bb bw vw uw", node("w0", node("b0", node("v0"), node("v1")), node("u0")))
MIXED = ("ac cb be", node("c0 e0", node("a0"), node("b0")))
CROSSED = [[(1, "a0"), (4, "a0")], [(3, "b0"), (9, "b0")], [(2, "c0"), (8, "c0")], [(5, "e0"), (6, "e0")]]
"""What a leaf rests for, an `e`, need not be the next event above: a `c` comes, waits for an `a`, and the leaf rests."""
STAYING = [[(1, "v0"), (3, "v0"), (5, "v0")], [(1, "v1"), (2, "v1"), (5, "v1")], [(2, "b0"), (4, "b0"), (6, "b0")]]
APART = ("xb", node("", node("x0 b0"), node("y0")))
WAITING = [[(1, "x0"), *((t, "y0") for t in range(2, 12)), (12, "x0")], [(1, "b0"), (5, "b0"), (11, "b0")]]
"""While an `x` waits for what may come of `b`, events pass that do not depend on it, and their results wait."""
MOVING = ("uu ub vb bb", node("b0", node("u0"), node("v0")))
MIXED_ROWS = [[(1, "u0"), (1, "v0"), (2, "u0"), (3, "v0"), (4, "u0"), (5, "u0"), (5, "v0")], [(2, "b0"), (4, "b0")]]
"""Rows of two mailboxes take turns, so one mailbox has several runs, and a `u` out of its turn shows."""
PARTED = [[(1, "v0"), (1, "v1"), (2, "v0"), (3, "v1"), (3, "v0"), (5, "v1")], [(2, "b0"), (4, "b0")]]
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
        "workers": 1, "constants": {"ROWS_AT_A_TIME": 4, "PIECES": 4},
    }),
    "mailboxes of one event": (*LEVELS, [*THREE, [(3, "w0"), (4, "w0")], [(2, "u0"), (3, "u0")]], {
        "constants": {"CAPACITY": 1, "RUNS": 1, "SPAN": 1, "MOST_RESULTS": 1, "ROWS_AT_A_TIME": 1},
    }),
    "threads change": (*WINDOW, THREE, {"workers": 3, "threads": [1, 3, 1, 2], "plan_at": [1, 3, 5]}),
    "a change at the end": (*WINDOW, THREE, {"threads": [2, 1], "plan_at": [99]}),
    "one waits, others pass": (*APART, WAITING, {}),
    "one waits, others pass, two at a time": (*APART, WAITING, {"heartbeat": 2, "workers": 3}),
    "in any order": (*APART, WAITING, {"ordered": False}),
    "a window in any order": (*WINDOW, THREE, {"ordered": False}),
    "threads change, far behind": (*APART, WAITING, {"threads": [2, 1, 2], "plan_at": [9, 13], "ordered": False}),
    "results wait for the input that lags": ("", node("", node("a0"), node("b0")), [
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
    "a plan changes at the end": ("vv", node("v0"), [[(1, "v0")]], {"replans": 1}),
    "plans change, with full mailboxes": (*WINDOW, [
        [(t, "v0") for t in range(9)], [(t, "v1") for t in range(5)], [(2, "b0"), (7, "b0")],
    ], {"heartbeat": 3, "replans": 3}),
    "stays joined": (*WINDOW, STAYING, {"stays": True, "heartbeat": 2}),
    "stays joined, ties": (*WINDOW, [[(1, "b0"), (1, "v0")], [(1, "v1"), (1, "v1")], [(1, "b0"), (1, "v1")]], {"stays": True}),
    "stays joined, in levels": (*LEVELS, [*STAYING, [(3, "w0"), (6, "w0")], [(2, "u0"), (5, "u0")]], {
        "stays": True, "heartbeat": 3,
    }),
    "stays joined, independent events above": (*MIXED, CROSSED, {"stays": True, "heartbeat": 2}),
    "stays joined, entries alone, and all": ("vb bb vw bw ww", node("b0 w0", node("v0"), node("v1")), [
        [(1, "v0"), (6, "v0")], [(2, "v1"), (5, "v1")], [(2, "b0"), (4, "w0"), (4, "b0"), (7, "b0")],
    ], {"entries": "b", "heartbeat": 2, "stays": True}),
    "stays joined, plans and threads change": (*WINDOW, STAYING, {
        "stays": True, "heartbeat": 2, "replans": 2, "threads": [2, 1, 2], "plan_at": [3, 6],
    }),
    "plans change, and waiting rows move to other leaves": (*MOVING, MIXED_ROWS, {
        "replans": 3, "other": node("b0", node("v0"), node("u0")),
    }),
    "plans change, and waiting rows move to a leaf of all": (*MOVING, MIXED_ROWS, {
        "replans": 3, "heartbeat": 2, "other": node("u0 v0 b0"),
    }),
    "plans change, and two mailboxes become one": (*WINDOW, PARTED, {
        "replans": 3, "heartbeat": 2, "other": node("b0", node(""), node("v0 v1")),
    }),
    "checkpoints": (*WINDOW, THREE, {"every": 2}),
    "checkpoints, the last one at the end": (*WINDOW, THREE, {"every": 3, "heartbeat": 2, "workers": 3}),
    "a checkpoint of each event, in levels": (*LEVELS, [*THREE, [(3, "w0")], [(2, "u0")]], {"every": 1}),
    "checkpoints of one leaf": ("vb bb", node("v0 v1 b0"), THREE, {"every": 4, "heartbeat": 2, "workers": 1}),
    "checkpoints, one input waits": (*APART, WAITING, {"every": 5, "heartbeat": 2}),
    "checkpoints, and it stays joined": (*WINDOW, STAYING, {"every": 4, "heartbeat": 2, "stays": True}),
    "checkpoints, and a worker parks": (*WINDOW, THREE, {"every": 3, "threads": [2, 1], "plan_at": [2]}),
    "checkpoints, with full mailboxes": (*WINDOW, [
        [(t, "v0") for t in range(9)], [(t, "v1") for t in range(5)], [(2, "b0"), (7, "b0")],
    ], {"every": 5, "heartbeat": 3}),
    "checkpoints of entries alone": (*LEVELS, [*THREE, [(3, "w0"), (4, "w0")], [(2, "u0"), (3, "u0")]], {
        "every": 3, "entries": "b",
    }),
    "plans change, in levels": (*LEVELS, [*THREE, [(3, "w0")], [(2, "u0")]], {"workers": 3, "replans": 2}),
}  # fmt: skip


def built(name, *planted):
    relation, tree, inputs, options = CASES[name]
    constants = options.get("constants", {})
    options = {option: value for option, value in options.items() if option != "constants"}
    return case(kernels(*planted, **constants), relation, tree, inputs, **options)


@pytest.mark.parametrize("count", [120, *rarely(300)])
@pytest.mark.parametrize("name", CASES)
def test_interleave_plans(name, count):
    sampled("plan", built(name), count, longest=20_000)


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
        (MAILBOX, "        if is_below(frontier, (i << SOURCE_SHIFT) | row, first_ts, first_place):\n", "        if True:\n"),
    ),
    "ties are promised that an input may still give": (
        "ties of one input, in a tree", ROWS, SC,
        (MAILBOX, "            first_ts, first_place = frontier, (i << SOURCE_SHIFT) | row\n",
         "            first_ts, first_place = frontier, ((i + 1) << SOURCE_SHIFT) | row\n"),
    ),
    "ties are promised that wait": (
        "ties of inputs", ROWS, SC,
        (MAILBOX, "            place = c.form[q, INPUT] << SOURCE_SHIFT\n",
         "            place = (c.form[q, INPUT] + 1) << SOURCE_SHIFT\n"),
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
    "an input that waits for room wants more than there is": (
        "full mailboxes", ASLEEP, SC,
        (MAILBOX, "passed + (waiting + 1) // 2 if waiting > 0", "passed + waiting + 1 if waiting > 0"),
    ),
    "a waiting input says when after a look for room": (
        "a full mailbox", ASLEEP, SC,
        (MAILBOX, "        say_when(c, i)  # S0\n", ""),
        (MAILBOX, "        if taken == 0 and load_acquire(stop, 0) == 0 and",
         "        say_when(c, i)\n        if taken == 0 and load_acquire(stop, 0) == 0 and"),
    ),
    "what is processed is more than may be": (
        "two at a time", ROWS, SC,
        (TREE, "            end = rows_below(c, x, i, begin, end, limit_ts, limit_place)\n", "            pass\n"),
    ),
    "a run goes whole before one that waits": (
        "full mailboxes", ROWS, SC,
        (TREE, "is_run_below(c, i, run_of(q, head + 1), limit_ts, limit_place)", "True"),
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
        (MAILBOX, "        other = c.dependents[k]\n        ts, place, _ = first_of(c, other)\n",
         "        other = c.dependents[k]\n        if c.form[other, NODE] < c.form[q, NODE]:\n            continue\n"
         "        ts, place, _ = first_of(c, other)\n"),
        (TREE, "        if not is_below(ts, place, other_ts, other_place):\n            return False\n",
         "        if other_ts == NEVER:\n            return False\n"),
    ),
    "a waiting worker does not look at the leaves": (
        "events above that are independent", ASLEEP, SC,
        (TREE, "    for m in range(c.tree[n, BELOW], n + 1):\n        if next_queue(c, m)[0] >= 0:\n",
         "    for m in range(n, n + 1):\n        if next_queue(c, m)[0] >= 0:\n"),
    ),
    "a leaf is taken by two": (
        "three workers, two rows at a time", f"{ROWS}|{NO_STATE}|Error", SC,
        (LOOP, "        if not compare_exchange(c.node, node_cell(leaf, STATE), READY, RUNNING):  # K1\n",
         "        if exchange(c.node, node_cell(leaf, STATE), RUNNING) == AT_REST:  # K1\n"),
    ),
    "a worker that parks wakes nobody": (
        "a worker parks", ASLEEP, SC,
        (LOOP, "            signal(c.words, DATA_WAITING, c.signals, DATA_EVENT)  # W4\n", ""),
    ),
    "the holder waits until nobody asks": (
        "plans change", ASLEEP, SC,
        (TREE, "    while load_acquire(c.words, HELD) != 0 and not stopped(c):  # H4\n",
         "    while load_acquire(c.words, RESTS) != 0 and not stopped(c):  # H4\n"),
    ),
    "the holder is let go while rest is asked for": (
        "plans change, and waiting rows move to a leaf of all", ASLEEP, SC,
        (TREE, "    store_release(c.words, RESTS, 0)  # H3\n    store_release(c.words, HELD, 0)  # H4\n",
         "    store_release(c.words, HELD, 0)\n    store_release(c.words, RESTS, 0)\n"),
    ),
    "the holder forks when the run stops": (
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
    "nobody says that results are released": (
        "results wait for the input that lags", ASLEEP, SC,
        (MAILBOX, "    if load_acquire(c.words, RESULTS) - before > MOST_RESULTS:\n", "    if False:\n"),
    ),
    "nobody says that rows are counted": (
        "threads change, far behind", ASLEEP, SC,
        (MAILBOX, "    if moved:\n        signal(c.words, SPACE_WAITING, c.signals, SPACE_EVENT)\n", ""),
        (LOOP, "        signal(c.words, SPACE_WAITING, c.signals, SPACE_EVENT)  # rows are not kept for this any more\n",
         "        pass\n"),
    ),
    "a sleeper does not count before": (
        "threads change, far behind", ASLEEP, SC,
        (LOOP, "    change(c, x, False)\n    found = look_around", "    found = look_around"),
    ),
    "rows are counted that an earlier one may precede": (
        "threads change, far behind", "before its row", SC,
        (MAILBOX, "            found = rows_below(c, x, i, row, end, ts, place)\n", "            found = end\n"),
    ),
    "an input that waits for room is not called out": (
        "plans change, with full mailboxes", ASLEEP, SC,
        (MAILBOX, "    signal(c.words, SPACE_WAITING, c.signals, SPACE_EVENT)  # G2, G3\n", ""),
    ),
    "an input that is called out waits for room": (
        "plans change, with full mailboxes", ASLEEP, SC,
        (MAILBOX, " and load_acquire(stop, 0) == 0 and load_acquire(c.words, CLOSED) == 0:\n",
         " and load_acquire(stop, 0) == 0:\n"),
    ),
    "no fence between what is processed and the wait for room": (
        "a mailbox emptied at once", ASLEEP, TSO,
        (MAILBOX, "    store_release(c.queue, queue_cell(q, PASSED), passed)  # G1\n    fence()  # G2\n",
         "    store_release(c.queue, queue_cell(q, PASSED), passed)\n"),
    ),
    "results are not counted": (
        "results are held back", "results are held back", SC,
        (TREE, "        fetch_add(c.words, RESULTS, l[OUT_HEAD] - results)  # B1\n", "        pass\n"),
    ),
    "a leaf rests for a heartbeat": (
        "a window", "in vain", SC,
        (MAILBOX, "        return frontier, (i << SOURCE_SHIFT) | row, False\n",
         "        return frontier, (i << SOURCE_SHIFT) | row, frontier < END_OF_TIME\n"),
    ),
    "a heartbeat is processed as an event": (
        "a window", f"{ROWS}|{GONE}", SC,
        (MAILBOX, "        return frontier, (i << SOURCE_SHIFT) | row, False\n",
         "        return frontier, (i << SOURCE_SHIFT) | row, MIN_TIME < frontier < END_OF_TIME\n"),
        (TREE, "    while head < tail and total < most and pieces < PIECES:\n",
         "    if head == tail:  # what it says of the input's last row\n"
         "        last = load_acquire(c.input, input_cell(i, ADMITTED)) - 1\n"
         "        l[PIECE], l[PIECE + 1], l[PIECE + 2], pieces, total = last, last + 1, 0, 1, 1\n"
         "    while head < tail and total < most and pieces < PIECES:\n"),
    ),
    "what is below a joined node goes by that node's events alone": (
        "stays joined, in levels", ROWS, SC,
        (TREE, "        limit_ts, limit_place = limit_of(c, q)\n"
         "        if is_below(first_ts, first_place, limit_ts, limit_place):\n"
         "            limit_ts, limit_place = first_ts, first_place\n",
         "        limit_ts, limit_place = first_ts, first_place\n"),
    ),
    "a state that is not joined stays so": (
        "stays joined, independent events above", NO_STATE, SC,
        (TREE, " or c.node[node_cell(n, JOINED)] == 0 or load_acquire(c.words, RESTS)", " or load_acquire(c.words, RESTS)"),
    ),
    "what is below a joined node is processed on its own state": (
        "stays joined", NO_STATE, SC,
        (TREE, "process(me, c, o, x, s, l, n, q, c.form[q, TAG], limit_ts, limit_place)",
         "process(me, c, o, x, s, l, c.form[q, NODE], q, c.form[q, TAG], limit_ts, limit_place)"),
    ),
    "rows that wait are lost when the plan changes": (
        "plans change, and waiting rows move to other leaves", f"{ROWS}|{ASLEEP}|are kept", SC,
        (DEALING, "    for k in range(dealt.shape[0]):\n", "    for k in range(1, dealt.shape[0]):\n"),
    ),
    "rows that wait change their order with the plan": (
        "plans change, and waiting rows move to other leaves", f"{ROWS}|{GONE}|{ASLEEP}", SC,
        (DEALING, "    for k in range(dealt.shape[0]):\n", "    for k in range(dealt.shape[0] - 1, -1, -1):\n"),
    ),
    "rows that are processed move with those that wait": (
        "plans change, and waiting rows move to other leaves", f"{ROWS}|{GONE}", SC,
        (DEALING, "                runs[at, FIRST] += begin\n", "                pass\n"),
    ),
    "a run that moves spans rows that are processed": (
        "plans change, and two mailboxes become one", f"{ROWS}|{GONE}", SC,
        (DEALING, " and dealt[count - 1, END] == row:", ":"),
    ),
    "a leaf that rested in vain sleeps although the run stops": (
        "a plan changes at the end", ASLEEP, SC,
        (TREE, "        if is_stuck(c, n) and not stopped(c):\n", "        if is_stuck(c, n):\n"),
    ),
    "the run is over before its last checkpoint": (
        "checkpoints, the last one at the end", f"checkpoints after|{ASLEEP}", SC,
        (LOOP, "    over = ts == END_OF_TIME and load_acquire(c.words, QUOTA) != 0", "    over = ts == END_OF_TIME"),
    ),
    "two workers claim the same events": (
        "checkpoints, the last one at the end", "checkpoints after", SC,
        (TREE, "not compare_exchange(c.words, QUOTA, quota, quota - total)", "exchange(c.words, QUOTA, quota - total) < 0"),
    ),
    "more events than are left": (
        "checkpoints", f"checkpoints after|{ASLEEP}", SC,
        (TREE, "    most = min(ROWS_AT_A_TIME, quota) if is_counted else ROWS_AT_A_TIME\n", "    most = ROWS_AT_A_TIME\n"),
    ),
    "leaves do not rest for a checkpoint": (
        "checkpoints", ASLEEP, SC,
        (TREE, " or load_acquire(c.words, QUOTA) == 0  # Q4\n", "\n"),
    ),
    "nobody says that a checkpoint is due": (
        "checkpoints of one leaf", ASLEEP, SC,
        (TREE, "        signal(c.words, REST_WAITING, c.signals, REST_EVENT)\n    while", "        pass\n    while"),
    ),
    "a sleeper does not look before": (
        "a full mailbox", ASLEEP, SC,
        (LOOP, "    found = look_around(me, c, o, x, s, l)  # W2\n", "    found = False\n"),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("mistake", PLANTED)
def test_interleave_planted_mistake_is_found(mistake):
    name, expected, memory, *planted = PLANTED[mistake]
    find_failure("plan", built(name, *planted), expected, count=8000, longest=20_000, memory=memory)


FRONTIERS = {
    # One number for all tags of an input, although some are further than others.
    "one for all tags": ("checkpoints, one input waits", ("rest = _runs(waiting)", "rest = _runs(waiting[:0])")),
    "up to the first that waits": (
        "checkpoints, one input waits", ("rest = _runs(waiting)", "read, rest = min([*waiting, read]), _runs(waiting[:0])"),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("mistake", FRONTIERS)
def test_interleave_a_wrong_frontier_is_found(mistake):
    name, text = FRONTIERS[mistake]
    with planted(resuming, *text):
        find_failure("plan", built(name), "the frontier of input", count=8000, longest=20_000)
