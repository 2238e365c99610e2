"""Which thread runs a node: a leaf is run by any worker, an inner node by the one that brought its last child to rest.

A node is *run* by one thread at a time, which processes the events of the node's queues that may be processed. Any
worker may take a leaf that is not being run (READY). A leaf comes to rest (AT_REST) when an event of a node
above waits for it, and it has no more events on which this event depends (`wanted_above`). An inner
node has no thread of its own: the thread that brought the second of its children to rest runs it. That thread joins
the states of all nodes below when there is something to process. Then it either brings the node to rest too, if an
event further up waits for it, or forks the state and sets the leaves free.

Where few events come between two events of an inner node, a fork and a join cost more than those events do: five or six
cache lines move from one core to another, and threads wait for them. So the state stays joined, and the node's thread also
processes the events of the nodes below, until that takes longer (`stays_joined`). A consistent program gives the same
results. For a program that is consistent only up to rounding, nothing stays joined (`binding.Bound.may_stay_joined`).

Coming to rest is never wrong: only the rule of `mailbox_kernel`, applied by the thread that runs a node,
decides what may be processed, and the leaves can always be set free again.

Invariants  I1  a node's state, and HEAD and AT of its queues, belong to the thread that runs it; while
                a node is run, the nodes above it are not
            I2  a node that has JOINED, and is below no other that has, holds the whole state of its subtree, and no node
                below holds any; a node below it that has JOINED gets its part back when the upper one forks
            I3  RESTING of a node is the number of its children that are at rest
            I4  the thread that runs a node that has JOINED may process events of the nodes below on its state, by the
                rule of `mailbox_kernel`: all below is at rest
            I5  the thread that runs a node that has not JOINED may, instead of joining, take entries out of the states
                below and put them back: all below is at rest, and its states are where I2 says
Ordering    N1 state, HEAD, AT are written, N2 STATE of the leaf := AT_REST, N3 fetch_add RESTING + 1;
            the second thread, which sees 2, runs the node: N1 -> N3 -> N3 of the second
            H1 everything is at rest and joined, H2 store_release HELD := 1; the thread that replans reads HELD,
            writes what is constant while a plan is in force, and H3 store_release RESTS := 0, H4 HELD := 0, which
            the thread that holds reads
                    it waits for HELD, which no other thread sets, and not for RESTS, which may be set again before
                    it looks; RESTS is cleared first, or leaves that are set free would come to rest for no caller
            T1 states are forked, RESTING := 0, T2 store_release STATE := READY; K1 compare_exchange
            STATE READY -> RUNNING takes a leaf: T1 -> T2 -> K1. A leaf that is put back is READY by
            store_release too
            W1 DATA_WAITING += 1 (`prepare`: a fence), W2 a look at all leaves, W3 sleep; T2, T3 fence,
            T4 DATA_WAITING is read (`signal`)
                    one of the two fences comes first: W2 finds the leaf, or T4 sees the sleeper
            Q1 compare_exchange QUOTA claims events, Q2 they are processed, Q3 M3 publishes that; Q4 load_acquire QUOTA
                    a thread that sees all events processed sees what was claimed for them, so none calls the run over
                    (`plan_kernel`) while the quota is used up
            Q1, Q5 everything is joined, Q6 HELD := 1, a fence, REST_WAITING is read (`signal`)
                    a thread that waits for QUOTA to be 0 looks at it after a fence of its own (`await_use`): it sees 0, or
                    is woken
            K1 and W1 to W3 are in `plan_kernel`; M1 to M3 and B1 of `process` are explained in `mailbox_kernel`
Quota       Checkpoints are due after a number of events, however these come: so it is the workers who count. Before a worker
            processes events it takes them out of QUOTA, and there are never more than that. Once none are left every leaf
            comes to rest and everything is held, as if rest had been asked for, until a new quota is set (H1 to H4).
            The worker that takes the last ones looks at all leaves once more, and a leaf that it passes over because
            another worker runs it is brought to rest by that one, before it sleeps.
Progress    Leaves may rest for an event for which other leaves are not ready; set free, they would rest again at once. So a
            thread that finds nothing to do with all of them at rest waits for input before it sets them free, if only input
            can help (`is_stuck`): a leaf may have got events since it came to rest, which no event above waited for.
Source      Flumina, section 3.4 (join requests and responses); the last arriver in place of a thread for each node
Checked     tests/headrace/synchronization
"""

from headrace.egress.rings import publish
from headrace.kernel import kernel
from headrace.memory.atomics import (
    CELL,
    compare_exchange,
    fetch_add,
    load_acquire,
    load_relaxed,
    nanosleep,
    now_ns,
    store_relaxed,
    store_release,
)
from headrace.memory.event_count import cancel, prepare, signal, sleep
from headrace.progress import MIN_TIME, NEVER
from headrace.synchronization.mailbox_kernel import (
    first_of,
    is_below,
    is_run_below,
    limit_of,
    pass_rows,
    queue_cell,
    rows_below,
    run_of,
    ts_of,
)
from headrace.synchronization.words import (
    AT,
    AT_NODE,
    AT_REST,
    BELOW,
    COUNTS,
    DATA_EVENT,
    DATA_WAITING,
    DECLINED,
    END,
    END_DEPENDENT,
    END_OWN,
    ENTRY_TAG,
    EVENTS,
    FIRST,
    FIRST_DEPENDENT,
    FORK,
    FORKS,
    HEAD,
    HELD,
    INPUT,
    JOIN,
    JOINED,
    JOINS,
    KIND,
    LEFT,
    NODE,
    NODE_CELLS,
    NUMBER,
    OUT_HEAD,
    OVER,
    OWN_QUEUES,
    PARENT,
    PIECE,
    PIECE_WORDS,
    PIECES,
    PUBLISHED,
    QUOTA,
    READY,
    REST_EVENT,
    REST_WAITING,
    RESTING,
    RESTS,
    RESTS_IN_VAIN,
    RESULTS,
    RIGHT,
    ROOT,
    SLICE_BEGAN,
    SPENT_NS,
    STATE,
    STAYED,
    STAYS,
    TAG,
    TAIL,
    UPDATE,
)
from headrace.workers.worker_kernel import stopped

ROWS_AT_A_TIME = 1024
"""Events between two looks at what else there is."""
LEAST_LEAVE = 16 * ROWS_AT_A_TIME
"""Events after which a worker leaves a leaf: other leaves may wait for a worker."""
VAIN_WAIT_NS = 1_000_000
TURN_NS = 1_000
"""Assumed cost of a fork and a join, with the threads that wait and the cache lines that move between cores."""
AT_FIRST = 8
LOOK_EVERY = 16
"""A node that stays joined checks every LOOK_EVERY turns whether they take longer. It allows for AT_FIRST turns more, since
states and mailboxes come from other cores at first."""
MOST_BELOW = ROWS_AT_A_TIME
"""A turn with more events than this is too long in any case."""
DECLINE = 1_000
"""Turns for which a node does not try again to stay joined."""
HELD_NAP_NS = 20_000


@kernel
def node_cell(n, what):
    return n * (NODE_CELLS * CELL) + what


@kernel
def is_within(c, m, n):
    """Whether a node is the given one, or below it."""
    return c.tree[n, BELOW] <= m <= n


# -- processing


@kernel
def next_queue(c, n):
    """Of the node's queues with an event that may be processed, the one of smallest rank, and its limit: its events below
    that rank may be processed; -1: none.

    Events of independent queues may go in any order: taking the smallest is only a choice.
    """
    found, found_ts, found_place = -1, 0, 0
    found_limit_ts, found_limit_place = 0, 0
    for k in range(c.tree[n, OWN_QUEUES], c.tree[n, END_OWN]):
        q = c.owned[k]
        ts, place, is_there = first_of(c, q)
        if not is_there or (found >= 0 and not is_below(ts, place, found_ts, found_place)):
            continue
        limit_ts, limit_place = limit_of(c, q)
        if is_below(ts, place, limit_ts, limit_place):
            found, found_ts, found_place = q, ts, place
            found_limit_ts, found_limit_place = limit_ts, limit_place
    return found, found_limit_ts, found_limit_place


@kernel
def process(me, c, o, x, s, l, n, q, tag, limit_ts, limit_place):
    """Run the function of a queue's tag on its events below the limit, so many at a time; `tag` says on which state.

    Where an input deals out its rows to many queues, runs may have only an event or two. So there is one call for several
    runs, and all that can be looked up or published once for them is. Returns how many events; 0 if another worker claimed
    some of the quota meanwhile.
    """
    i = c.form[q, INPUT]
    number = c.form[q, TAG]
    l[KIND], l[NUMBER], l[AT_NODE] = UPDATE, number, n
    results = l[OUT_HEAD]
    head, at, total, last, pieces = c.queue[queue_cell(q, HEAD)], c.queue[queue_cell(q, AT)], 0, 0, 0
    tail = load_acquire(c.queue, queue_cell(q, TAIL))
    quota = load_acquire(c.words, QUOTA)  # Q4
    is_counted = quota != NEVER and c.given[i, COUNTS] != 0
    most = min(ROWS_AT_A_TIME, quota) if is_counted else ROWS_AT_A_TIME
    while head < tail and total < most and pieces < PIECES:
        run = run_of(q, head)
        begin, run_end = c.runs[run + FIRST] + at, c.runs[run + END]
        end = min(run_end, begin + most - total)
        if not (head + 1 < tail and is_run_below(c, i, run_of(q, head + 1), limit_ts, limit_place)):
            end = rows_below(c, x, i, begin, end, limit_ts, limit_place)
        if end == begin:
            break
        piece = PIECE + pieces * PIECE_WORDS
        l[piece], l[piece + 1], l[piece + 2] = begin, end, c.runs[run + PUBLISHED]
        pieces += 1
        total += end - begin
        last = end - 1
        if end == run_end:
            head, at = head + 1, 0
        else:
            at += end - begin
    if is_counted and (total == 0 or not compare_exchange(c.words, QUOTA, quota, quota - total)):  # Q1
        l[KIND] = 0
        return 0
    run_rows(me, c, o, x, s, l, n, tag, i, pieces)
    l[KIND] = 0
    if l[OUT_HEAD] != load_relaxed(o.head, me * CELL):
        publish(o, me, l[OUT_HEAD], MIN_TIME, MIN_TIME)  # M1, M2
    if l[OUT_HEAD] != results:
        fetch_add(c.words, RESULTS, l[OUT_HEAD] - results)  # B1
    following = last if head == tail else c.runs[run_of(q, head) + FIRST] + at
    pass_rows(c, q, head, at, total, ts_of(c, x, i, following))  # M3
    c.work[n, EVENTS] += total
    return total


@kernel
def process_below(me, c, o, x, s, l, n):
    """Process on a joined node's state the events below it that precede its own first event, if all of them are there.

    Returns how many events, from each queue at most so many at a time; 0: the node has no event, or some that precede it may
    still come.
    """
    first, first_ts, first_place = -1, 0, 0
    for k in range(c.tree[n, OWN_QUEUES], c.tree[n, END_OWN]):
        ts, place, is_there = first_of(c, c.owned[k])
        if is_there and (first < 0 or is_below(ts, place, first_ts, first_place)):
            first, first_ts, first_place = c.owned[k], ts, place
    total = 0
    if first < 0:
        return total
    for k in range(c.tree[c.tree[n, BELOW], OWN_QUEUES], c.tree[n, OWN_QUEUES]):
        q = c.owned[k]
        ts, place, is_there = first_of(c, q)
        if not is_below(ts, place, first_ts, first_place):
            continue
        if not is_there:
            return total
        limit_ts, limit_place = limit_of(c, q)
        if is_below(first_ts, first_place, limit_ts, limit_place):
            limit_ts, limit_place = first_ts, first_place
        if is_below(ts, place, limit_ts, limit_place):
            total += process(me, c, o, x, s, l, n, q, c.form[q, TAG], limit_ts, limit_place)
    return total


@kernel
def stays_joined(me, c, o, x, s, l, n, turns, begun):
    """Go on with the events below a joined node that has nothing to do, instead of a fork and a join. Returns how many; 0: no.

    This pays while it takes no longer than a fork and a join would. Where the events between two of the node's own take
    longer, the node does not stay joined, and does not try again for a while.
    """
    if c.shape[STAYS] == 0 or c.node[node_cell(n, JOINED)] == 0 or load_acquire(c.words, RESTS) != 0:
        return 0
    if c.work[n, DECLINED] > 0:
        c.work[n, DECLINED] -= 1
        return 0
    if turns % LOOK_EVERY == 0 and now_ns() - begun > (turns + AT_FIRST) * TURN_NS:
        c.work[n, DECLINED] = DECLINE
        return 0
    count = process_below(me, c, o, x, s, l, n)
    if count > MOST_BELOW:
        c.work[n, DECLINED] = DECLINE
    return count


# -- states


@kernel
def join_below(me, c, s, l, n):
    """Join the states of all nodes below into the node's."""
    for m in range(c.tree[n, BELOW], n + 1):
        if c.tree[m, LEFT] >= 0 and c.node[node_cell(m, JOINED)] == 0:
            l[KIND], l[NUMBER] = JOIN, m
            join_node(me, c, s, l, m, c.tree[m, LEFT], c.tree[m, RIGHT])
            l[KIND] = 0
            c.node[node_cell(m, JOINED)] = 1
            c.work[m, JOINS] += 1


@kernel
def fork_below(me, c, s, l, n):
    """Fork the node's state down to the leaves, and set them free."""
    for m in range(n, c.tree[n, BELOW] - 1, -1):
        if c.tree[m, LEFT] >= 0:
            if c.node[node_cell(m, JOINED)] != 0:
                l[KIND], l[NUMBER] = FORK, m
                fork_node(me, c, s, l, m, c.tree[m, LEFT], c.tree[m, RIGHT])
                l[KIND] = 0
                c.node[node_cell(m, JOINED)] = 0
                c.work[m, FORKS] += 1
            store_relaxed(c.node, node_cell(m, RESTING), 0)  # T1
    for m in range(c.tree[n, BELOW], n + 1):
        if c.tree[m, LEFT] < 0:
            store_release(c.node, node_cell(m, STATE), READY)  # T2
    signal(c.words, DATA_WAITING, c.signals, DATA_EVENT)  # T3, T4


# -- rest


@kernel
def is_to_rest(c):
    """Whether everything is to come to rest: a thread asks for it, or the quota is used up."""
    return load_acquire(c.words, RESTS) != 0 or load_acquire(c.words, QUOTA) == 0  # Q4


@kernel
def wanted_above(c, n):
    """Whether an event of a node above waits for this node, which has no more events that it depends on.

    Nodes beside this one are not looked at: others may be running them.
    """
    if is_to_rest(c):
        return True
    above = c.tree[n, PARENT]
    while above >= 0:
        for k in range(c.tree[above, OWN_QUEUES], c.tree[above, END_OWN]):
            q = c.owned[k]
            ts, place, is_there = first_of(c, q)
            if is_there and is_ready_for(c, n, above, q, ts, place):
                return True
        above = c.tree[above, PARENT]
    return False


@kernel
def is_ready_for(c, n, above, q, ts, place):
    """Whether an event of a node above waits neither for this node, nor for nodes between, nor for nodes above."""
    for k in range(c.form[q, FIRST_DEPENDENT], c.form[q, END_DEPENDENT]):
        other = c.dependents[k]
        m = c.form[other, NODE]
        if is_within(c, m, above) and m != above and not is_within(c, m, n) and not is_within(c, n, m):
            continue  # beside the node
        other_ts, other_place, _ = first_of(c, other)
        if not is_below(ts, place, other_ts, other_place):
            return False
    return True


@kernel
def is_stuck(c, n):
    """Whether a node and those below, all at rest, can process none of the events that are there."""
    for m in range(c.tree[n, BELOW], n + 1):
        if next_queue(c, m)[0] >= 0:
            return False
    return not wanted_above(c, n)


@kernel
def run_node(me, c, o, x, s, l, n, begun):
    """Process the events of a node's queues that may be processed; this began at `begun`. Returns how many events."""
    total, turns = 0, 0
    while not stopped(c) and load_acquire(c.words, QUOTA) != 0:  # Q4
        q, limit_ts, limit_place = next_queue(c, n)
        if q < 0:
            if c.tree[n, LEFT] < 0 or total > LEAST_LEAVE:
                break
            count = stays_joined(me, c, o, x, s, l, n, turns, begun)
            if count == 0:
                break
            turns += 1
            total += count
            c.work[n, STAYED] += 1
            continue
        tag = c.form[q, TAG]
        if c.tree[n, LEFT] >= 0:
            if c.form[q, ENTRY_TAG] >= 0 and c.node[node_cell(n, JOINED)] == 0:
                tag = c.form[q, ENTRY_TAG]  # I5
            else:
                join_below(me, c, s, l, n)
        total += process(me, c, o, x, s, l, n, q, tag, limit_ts, limit_place)
        if c.tree[n, LEFT] < 0 and total >= LEAST_LEAVE:
            break
    return total


@kernel
def book_time(c, l, n, count):
    """Book what passed since SLICE_BEGAN as time of a node, if it processed any of `count` events; the next slice begins now.
    Reading the clock once for both matters: with a clock read at both ends of each slice, a join and a fork took a quarter
    longer. A slice without events is idle: at low rates, most of the time of a node would be such slices."""
    now = now_ns()
    if count > 0:
        c.work[n, SPENT_NS] += now - l[SLICE_BEGAN]
    l[SLICE_BEGAN] = now


@kernel
def hold(me, c, s, l, n):
    """With everything at rest, join it, and wait until the caller lets go. If the run stops, everything stays joined, for
    threads that read it meanwhile."""
    join_below(me, c, s, l, n)
    store_release(c.words, HELD, 1)  # H2, Q6
    if load_acquire(c.words, QUOTA) == 0:
        signal(c.words, REST_WAITING, c.signals, REST_EVENT)
    while load_acquire(c.words, HELD) != 0 and not stopped(c):  # H4
        nanosleep(HELD_NAP_NS)
    if not stopped(c):
        fork_below(me, c, s, l, c.shape[ROOT])


@kernel
def ask_to_hold(c):
    """Ask for everything to be joined; for the thread that changes the plan. True once it is."""
    if load_relaxed(c.words, RESTS) == 0:
        store_release(c.words, RESTS, 1)
        signal(c.words, DATA_WAITING, c.signals, DATA_EVENT)
    return load_acquire(c.words, HELD) != 0


@kernel
def await_hold(c, nanoseconds):
    """Ask, and wait at most so long. True once everything is joined."""
    until = now_ns() + nanoseconds
    while not ask_to_hold(c):
        if now_ns() >= until or stopped(c) or load_acquire(c.words, OVER) != 0:
            return False
        nanosleep(HELD_NAP_NS)
    return True


@kernel
def await_use(c, nanoseconds):
    """Wait until the quota is used up, or everything is held, but no longer than that. True if the quota is used up."""
    ticket = prepare(c.words, REST_WAITING, c.signals, REST_EVENT)
    if load_acquire(c.words, QUOTA) != 0 and not stopped(c) and load_acquire(c.words, OVER) == 0:
        sleep(c.words, REST_WAITING, c.signals, REST_EVENT, ticket, nanoseconds)
    else:
        cancel(c.words, REST_WAITING)
    return load_acquire(c.words, QUOTA) == 0


@kernel
def let_go(c):
    """Go on, perhaps under another plan."""
    store_release(c.words, RESTS, 0)  # H3
    store_release(c.words, HELD, 0)  # H4


@kernel
def rest(me, c, o, x, s, l, leaf):
    """Bring a leaf to rest, and run the nodes above whose last child this was. Returns how many events were processed there."""
    total = 0
    n = leaf
    store_release(c.node, node_cell(leaf, STATE), AT_REST)  # N2
    while True:
        above = c.tree[n, PARENT]
        if above < 0:
            break
        if fetch_add(c.node, node_cell(above, RESTING), 1) == 0:  # N3
            return total
        n = above
        count = run_node(me, c, o, x, s, l, n, l[SLICE_BEGAN])
        book_time(c, l, n, count)
        total += count
        if stopped(c):
            return total
        if not wanted_above(c, n):
            break
    if is_to_rest(c) and c.tree[n, PARENT] < 0:
        hold(me, c, s, l, n)
        l[SLICE_BEGAN] = 0
        return total
    if total == 0:
        c.meter[me, RESTS_IN_VAIN] += 1
        ticket = prepare(c.words, DATA_WAITING, c.signals, DATA_EVENT)
        if is_stuck(c, n) and not stopped(c):
            sleep(c.words, DATA_WAITING, c.signals, DATA_EVENT, ticket, VAIN_WAIT_NS)
            l[SLICE_BEGAN] = 0
        else:
            cancel(c.words, DATA_WAITING)
    fork_below(me, c, s, l, n)
    return total


__all__ = [
    "ask_to_hold", "await_hold", "await_use", "book_time", "fork_below", "let_go", "node_cell", "rest", "run_node",
    "wanted_above",
]  # fmt: skip
