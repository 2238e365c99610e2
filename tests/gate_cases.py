"""What the interleaving tests of both gates share: threads' programs, small states, the oracle.

The programs are written like kernels and use the kernels' names; `interleave`
turns them into generators together with the kernels. How a reader waits and how a
source waits are the engine's own functions, from their files.
"""

# ruff: noqa: F821  (the names are the explored kernels')

from __future__ import annotations

from headrace.progress import END_OF_TIME, MIN_TIME
from headrace.references import HEARTBEAT
from interleave import Kernels, copied

LOG = "headrace.gates.merged_log_kernel"
ARRIVAL = "headrace.gates.arrival_kernel"
SCALEGATE = "headrace.gates.scalegate_kernel"
SKIP_LIST = "headrace.gates.skip_list_kernel"
MEMBERSHIP = "headrace.gates.membership_kernel"
EVENT_COUNT = "headrace.memory.event_count"
READER = "headrace.gates.reader_kernel"
SOURCE = "headrace.gates.source_kernel"
NOTHING = 2**63 - 1
GATES = {"log": LOG, "scalegate": SCALEGATE}


# -- programs ----------------------------------------------------------------------------------------


def feed(g, source, ts, close, batch):
    """Add all of `ts`, waiting for room by the engine's own function; then close if asked to."""
    done = 0
    while done < len(ts):
        done += add_or_wait(g, source, ts, done, min(batch, len(ts) - done), done, GO_ON)
    if close:
        end_source(g, source)


def feed_in_turns(g, source, ts, close):
    """`feed`, in as few calls as possible."""
    done = 0
    while done < len(ts):
        done += add_in_turn(g, source, ts, done, len(ts) - done, done, GO_ON)
    if close:
        end_source(g, source)


def end_source(g, source):
    while close_or_wait(g, source, GO_ON) == 0:
        pass


def beat(g, source, ts):
    """A source that only sends heartbeats."""
    for t in ts:
        while heartbeat_or_wait(g, source, t, GO_ON) == 0:
            pass
    end_source(g, source)


def request(g, epochs):
    for epoch in epochs:
        while control(g, epoch) == 0:
            pause()


def read(g, reader, out, limit):
    """Read up to the end of input, at most `limit` records at once."""
    position = 0
    row = lane(g, reader)
    while True:
        start, count = peek(g, reader, position, limit)
        if count == 0:
            await_records(g, reader, position, 0, GO_ON)
            continue
        for i in range(count):
            cut()
            ts = g.out_ts[row][start + i]
            out.append((ts, g.out_ref[row][start + i]))
            if ts == END_OF_TIME and out[-1][1] == HEARTBEAT:
                advance(g, reader, position + i + 1)
                return
        position += count
        advance(g, reader, position)


def read_slower(g, reader, out, limit, costs):
    """`read`, and note after each batch what a record costs now."""
    position = 0
    row = lane(g, reader)
    batches = 0
    while True:
        start, count = peek(g, reader, position, limit)
        if count == 0:
            await_records(g, reader, position, 0, GO_ON)
            continue
        for i in range(count):
            out.append((g.out_ts[row][start + i], g.out_ref[row][start + i]))
        position += count
        advance(g, reader, position)
        if out[-1][0] == END_OF_TIME:
            return
        if batches < len(costs):
            store_relaxed(g.cost, reader * CELL, costs[batches])
            batches += 1


def member(g, me, words, changes, wanted, limit, got):
    """A pooled worker: reads while it is a reader, and meets the others where membership changes.

    changes[e] = (position, members before, members after), the same for all;
    words = [arrived, epoch, finished].
    """
    activation = 0
    position = 0
    epoch = 0
    last = changes[-1][2] if changes else [me]
    row = lane(g, me)
    while load_acquire(words, 2) < len(last):
        active = load_acquire(g.reading, me * CELL)
        if active == 0:
            activation = 0
            pause()
            continue
        if active != activation:
            activation = active
            position = load_acquire(g.cursor, me * CELL)
            epoch = activation - 1
            while load_acquire(words, 1) < epoch:  # a member already, but the epoch is not in force yet
                pause()
        until = changes[epoch][0] if epoch < len(changes) else wanted
        if position >= until:
            if epoch == len(changes):
                fetch_add(words, 2, 1)
                return
            if fetch_add(words, 0, 1) == len(changes[epoch][1]) - 1:
                store_release(words, 0, 0)
                change_readers(g, changes[epoch][1], changes[epoch][2], position, epoch + 2)
                store_release(words, 1, epoch + 1)
            else:
                while load_acquire(words, 1) <= epoch:
                    pause()
            epoch += 1
            continue
        start, count = peek(g, me, position, min(limit, until - position))
        if count == 0:
            await_records(g, me, position, 0, GO_ON)
            continue
        for i in range(count):
            cut()
            got.append((g.out_ts[row][start + i], g.out_ref[row][start + i]))
        position += count
        advance(g, me, position)


def worker(g, me, words, sets, got):
    """A pooled worker as in the engine: the members meet at each control record.

    sets[e] are the members of epoch e; words = [arrived, epoch, finished].
    """
    activation = 0
    position = 0
    row = lane(g, me)
    while True:
        finished = load_acquire(words, 2)  # readers that finished have met every control, so all have joined
        active = load_acquire(g.reading, me * CELL)
        if active == 0:
            if finished != 0:
                return
            activation = 0
            pause()
            continue
        if active != activation:
            activation = active
            position = load_acquire(g.cursor, me * CELL)
            while load_acquire(words, 1) < activation - 1:
                pause()
        start, count = peek(g, me, position, 2)
        if count == 0:
            await_records(g, me, position, 0, GO_ON)
            continue
        cut()
        ts = g.out_ts[row][start]
        ref = g.out_ref[row][start]
        got.append((position, ts, ref))
        position += 1
        advance(g, me, position)
        if ref == HEARTBEAT and ts == END_OF_TIME:
            fetch_add(words, 2, 1)
            return
        if ref < HEARTBEAT:
            epoch = -1 - ref
            if fetch_add(words, 0, 1) == len(sets[epoch - 1]) - 1:
                store_release(words, 0, 0)
                change_readers(g, sets[epoch - 1], sets[epoch], position, epoch + 1)
                store_release(words, 1, epoch)
            else:
                while load_acquire(words, 1) < epoch:
                    pause()


def change_readers(g, before, after, position, activation):
    while not open_membership(g):
        pause()
    for r in after:
        if r not in before:
            join_reader(g, r, position, activation)
    for r in before:
        if r not in after:
            leave_reader(g, r)
    close_membership(g)


def newcomer(g, source, ts, added):
    """Let another source in, add to it from the smallest time it may have, and leave again."""
    while not open_membership(g):
        pause()
    taken = add_source(g, source)
    close_membership(g)
    if taken == 0:
        return
    floor = g.mark[source * CELL]
    times = [max(t, floor) for t in ts]
    added.extend(times)
    feed(g, source, times, False, 2)
    while not open_membership(g):
        pause()
    remove_source(g, source)
    close_membership(g)


PROGRAMS = [
    feed,
    feed_in_turns,
    end_source,
    beat,
    request,
    read,
    read_slower,
    member,
    worker,
    change_readers,
    newcomer,
]


def load(gate: str, *planted, **constants) -> Kernels:
    """The kernels of a gate and the programs above as generators.

    `planted` bugs are (text, new text) in the gate's kernel file, or
    (module, text, new text) in another one.
    """
    module = GATES[gate]
    of_gate = [] if gate == "log" else [(shared, LOG, module) for shared in (SOURCE, READER)]  # as `headrace.gates.variants` does
    return Kernels(
        module,
        EVENT_COUNT,
        SOURCE,
        READER,
        programs=PROGRAMS,
        shared=("ring_ts", "ring_ref", "out_ts", "out_ref", "nodes"),
        planted=of_gate + [bug if len(bug) == 3 else (module, *bug) for bug in planted],
        constants=constants,
        given={"GO_ON": [0]},
    )


# -- small states ------------------------------------------------------------------------------------


def log_state(k, sources, readers, *, ring=4, log=8, bound=4, reading=1, feeding=None, lead=0, ranks=0, rows=0):
    """Arrays of a merged log far smaller than `allocate` makes them; every reader starts at 0."""
    words = [0] * k.WORD_COUNT
    words[k.BOUND] = words[k.LIMIT] = bound
    words[k.LAST_TS] = MIN_TIME
    words[k.LEAD] = lead
    feeding = sources if feeding is None else feeding
    return k.LogArrays(
        words=words,
        event=[0] * 64,
        head=[0] * sources,
        mark=[MIN_TIME if s < feeding else NOTHING for s in range(sources)],
        merged=[0] * sources,
        feeding=[int(s < feeding) for s in range(sources)],
        ring_ts=[[0] * ring for _ in range(sources)],
        ring_ref=[[0] * ring for _ in range(sources)],
        ring_at=[[0] * ring for _ in range(sources)],
        out_ts=[[0] * log],
        out_ref=[[0] * log],
        out_at=[[0] * log],
        cursor=[0] * readers,
        reading=[int(r < reading) for r in range(readers)],
        cost=[0] * readers,
        scratch=[[0] * sources for _ in range(6)],
        rank=[[0] * rows for _ in range(sources * ranks)],
        rank_layout=[0] * ranks,
    )


def skip_list_state(k, sources, readers, *, pool=4, buffer=4, bound=3, reading=1, feeding=None):
    """Arrays of a ScaleGate with very small pools; every reader starts at 0."""
    head = sources * pool
    words = [0] * k.WORD_COUNT
    words[k.POOL_SHIFT] = pool.bit_length() - 1
    words[k.BOUND] = bound
    nodes = ([0, 0, 0, -1] + [k.NIL] * 4) * head + [MIN_TIME, 0, 0, 1] + [k.NIL] * 4
    feeding = sources if feeding is None else feeding
    own = [head, 0, 0, bound] + [head] * 4
    return k.ScaleGateArrays(
        words=words,
        event=[0] * 64,
        nodes=nodes,
        mark=[MIN_TIME] * sources,
        feeding=[int(s < feeding) for s in range(sources)],
        source=[own[:] for _ in range(sources)],
        out_ts=[[0] * buffer for _ in range(readers)],
        out_ref=[[0] * buffer for _ in range(readers)],
        out_at=[[0] * buffer for _ in range(readers)],
        out_node=[[0] * buffer for _ in range(readers)],
        cursor=[0] * readers,
        reading=[int(r < reading) for r in range(readers)],
        cost=[0] * readers,
        stand=[head] * readers,
        passed=[1] * readers,
        claim=[0] * readers,
        delivered=[0] * readers,
        reader=[[head, 0, -NOTHING, 0] for _ in range(readers)],
        boundary=[0] * k.CONTROL_RING,
        boundary_epoch=[0] * k.CONTROL_RING,
        boundary_at=[0] * k.CONTROL_RING,
    )


def small_state(gate: str, k, sources, readers, *, tight=False, **sizes):
    """A template of a gate's arrays; take `copied(...)` of it for each execution.

    `tight`: so small that every record waits for room.
    """
    if tight:
        sizes |= {"ring": 2, "log": 2, "bound": 1} if gate == "log" else {"pool": 2, "bound": 1}
    return (log_state if gate == "log" else skip_list_state)(k, sources, readers, **sizes)


# -- the oracle --------------------------------------------------------------------------------------


def merged(*sources):
    """The tuples of all sources in the one order: (ts, source, position)."""
    records = [(t, s, row) for s, ts in enumerate(sources) for row, t in enumerate(ts)]
    return [(t, s << 48 | row) for t, s, row in sorted(records)]


END = (END_OF_TIME, -1)


def tuples(records):
    return [r for r in records if r[1] >= 0]


def check_readers(outs, wanted, epochs):
    for out in outs:
        assert tuples(out) == wanted, f"got {out}, wanted {wanted}"
        assert out[-1] == END, f"after the end: {out}"
        controls = [-1 - ref for _, ref in out if ref < -1]
        assert controls == list(epochs)[: len(controls)], f"controls {controls} of {epochs}"
    shortest = min(len(out) for out in outs)
    for out in outs:
        assert out[: shortest - 1] == outs[0][: shortest - 1], f"readers disagree: {out} and {outs[0]}"


def static_case(gate, k, streams, readers, *, limit=2, batch=2, epochs=(), beats=(), **sizes):
    """All sources feed and close, every reader reads to the end, somebody requests controls.

    Sources in `beats` send their times as heartbeats. Checked: each reader gets
    exactly the merged tuples in order, then the end; each control is met by
    all readers at the same position (or, requested late, by none).
    """
    template = small_state(gate, k, len(streams), readers, reading=readers, **sizes)
    wanted = [r for r in merged(*streams) if r[1] >> 48 not in beats]

    def build():
        g = copied(template)
        outs = [[] for _ in range(readers)]
        threads = [
            k.beat(g, s, ts) if s in beats else k.feed(g, s, ts, True, batch) for s, ts in enumerate(streams)
        ]
        threads += [k.read(g, r, outs[r], limit) for r in range(readers)]
        if epochs:
            threads.append(k.request(g, epochs))
        return threads, lambda: check_readers(outs, wanted, epochs)

    return build


def check_as_they_come(records, streams, lead):
    """What `arrival_kernel` promises of the tuples of `streams`, in whatever order they came: U1, U2, U3."""
    reached = MIN_TIME
    for ts, ref in records:
        if ref == HEARTBEAT:
            assert ts > reached, f"the watermark {ts} after {reached}: {records}"
            reached = ts
        elif ref >= 0:
            assert ts >= reached, f"{ts} behind the watermark {reached}: {records}"
            assert ts < reached + lead, f"{ts} is {lead} ahead of the watermark {reached}: {records}"
    assert records[-1] == END, f"no end: {records}"
    for s, times in enumerate(streams):
        of_source = [(ts, ref) for ts, ref in records if ref >= 0 and ref >> 48 == s]
        wanted = [(ts, s << 48 | row) for row, ts in enumerate(times)]
        assert of_source == wanted, f"of source {s} got {of_source}, wanted {wanted}"


def as_they_come_case(k, streams, readers, lead, *, limit=2, batch=2, epochs=(), beats=(), **sizes):
    """As `static_case`, of a log into which records come as they come."""
    template = small_state("log", k, len(streams), readers, reading=readers, lead=lead, **sizes)
    wanted = [[] if s in beats else ts for s, ts in enumerate(streams)]

    def build():
        g = copied(template)
        outs = [[] for _ in range(readers)]
        threads = [k.beat(g, s, ts) if s in beats else k.feed(g, s, ts, True, batch) for s, ts in enumerate(streams)]
        threads += [k.read(g, r, outs[r], limit) for r in range(readers)]
        if epochs:
            threads.append(k.request(g, epochs))

        def check():
            for out in outs:
                check_as_they_come([record for record in out if record[1] >= HEARTBEAT], wanted, lead)
                controls = [-1 - ref for _, ref in out if ref < HEARTBEAT]
                assert controls == list(epochs)[: len(controls)], f"controls {controls} of {epochs}"
            shortest = min(map(len, outs))
            assert all(out[:shortest] == outs[0][:shortest] for out in outs), f"readers disagree: {outs}"

        return threads, check

    return build


def costs_case(gate, k, times, limit, costs, bound_ns, **sizes):
    """One source, one reader whose cost changes: the bound in time moves under a source that waits."""
    template = small_state(gate, k, 1, 1, reading=1, **sizes)
    template.words[k.BOUND_NS] = bound_ns

    def build():
        g = copied(template)
        outs = [[]]
        threads = [k.feed_in_turns(g, 0, times, True), k.read_slower(g, 0, outs[0], limit, costs)]
        return threads, lambda: check_readers(outs, merged(times), ())

    return build


def readers_case(gate, k, streams, changes, *, limit=2, readers=2, **sizes):
    """Readers join and leave at given positions; every member of an epoch reads all of it, once."""
    template = small_state(gate, k, len(streams), readers, reading=0, **sizes)
    for r in changes[0][1]:
        template.reading[r] = 1
    records = merged(*streams)
    sets = [changes[0][1]] + [after for _, _, after in changes]
    ends = [position for position, _, _ in changes] + [len(records)]
    wanted = [[] for _ in range(readers)]
    for e, chosen in enumerate(sets):
        for r in chosen:
            wanted[r] += records[ends[e - 1] if e else 0 : ends[e]]

    def build():
        g = copied(template)
        words = [0, 0, 0]
        got = [[] for _ in range(readers)]
        threads = [k.feed(g, s, ts, True, 2) for s, ts in enumerate(streams)]
        threads += [k.member(g, r, words, changes, len(records), limit, got[r]) for r in range(readers)]

        def check():
            assert got == wanted, f"got {got}, wanted {wanted}"

        return threads, check

    return build


def epochs_case(gate, k, streams, sets, *, readers=2, **sizes):
    """Membership changes at control records, wherever these happen to be placed.

    Checked: all members of an epoch get the same record at the same position;
    they get every position of the epoch; the tuples of all positions are the
    merged ones.
    """
    template = small_state(gate, k, len(streams), readers, reading=0, **sizes)
    for r in sets[0]:
        template.reading[r] = 1
    wanted = merged(*streams)

    def build():
        g = copied(template)
        words = [0, 0, 0]
        got = [[] for _ in range(readers)]
        threads = [k.feed(g, s, ts, True, 2) for s, ts in enumerate(streams)]
        threads += [k.worker(g, r, words, sets, got[r]) for r in range(readers)]
        threads.append(k.request(g, range(1, len(sets))))

        def check():
            at = {}
            for records in got:
                for position, ts, ref in records:
                    assert at.setdefault(position, (ts, ref)) == (ts, ref), f"readers disagree: {got}"
            whole = [at.get(position) for position in range(len(at))]
            assert None not in whole and tuples(whole) == wanted, f"got {whole}, wanted {wanted}"
            epoch = 0
            for position, (_, ref) in enumerate(whole):
                for r in range(readers):
                    reads = [p for p, _, _ in got[r]].count(position)
                    assert reads == (r in sets[epoch]), f"reader {r} at {position} in epoch {epoch}: {got}"
                if ref < -1:
                    assert -1 - ref == epoch + 1, f"a lost control record: {whole}"
                    epoch += 1

        return threads, check

    return build


def sources_case(gate, k, streams, joining, readers=1, **sizes):
    """Source 0.. feed from the start; one more joins, adds, and leaves."""
    template = small_state(gate, k, len(streams) + 1, readers, reading=readers, feeding=len(streams), **sizes)

    def build():
        g = copied(template)
        outs = [[] for _ in range(readers)]
        added: list[int] = []
        threads = [k.feed(g, s, ts, True, 2) for s, ts in enumerate(streams)]
        threads += [k.read(g, r, outs[r], 2) for r in range(readers)]
        threads.append(k.newcomer(g, len(streams), joining, added))
        return threads, lambda: check_readers(outs, merged(*streams, added), ())

    return build


__all__ = [
    "ARRIVAL",
    "EVENT_COUNT",
    "GATES",
    "LOG",
    "READER",
    "SOURCE",
    "as_they_come_case",
    "check_as_they_come",
    "costs_case",
    "epochs_case",
    "load",
    "readers_case",
    "sources_case",
    "static_case",
]
