"""Both sides of the Viper experiment: schedules of the kernels' own text, planted bugs.

Property    Injectors, merge operators, instances and sinks with tiny queues or gates come to their end under every
            schedule, and each sink gets the merged sequence. Waits never time out here, so a wake-up that is
            lost, or a cycle of full and empty queues, shows as a deadlock.
Oracle      The tuples sorted by (time, injector).
Cannot see  Memory weaker than x86's: the real threads of test_viper.py.
"""

from types import SimpleNamespace

import pytest

from gate_cases import EVENT_COUNT, log_state
from interleave import Kernels, exhaustive, find_failure, sampled
from support.campaign import rarely

OPERATORS = "headrace_bench.experiments.viper_operators_kernel"
READERS = "headrace_bench.experiments.viper_readers_kernel"
QUEUES = "headrace.gates.channels_kernel"
CHANNEL = "headrace_bench.experiments.viper_channel_kernel"
BATCH = 2
SMALL = {"EVENT_CELL": 1, "READ": 2, "_A": 1, "_B": 1}  # a hash that fits 64 bits without wrapping


def kernels(*planted, side=OPERATORS):
    return Kernels(
        side,
        EVENT_COUNT,
        shared=("ts", "ref", "out_ts", "out_ref"),
        planted=[bug if len(bug) == 3 else (QUEUES, *bug) for bug in planted],
        constants=SMALL,
    )


def queues(k, count, threads, capacity):
    return k.Queues(
        head=[0] * count,
        tail=[0] * count,
        mark=[-1] * count,
        ts=[[0] * capacity for _ in range(count)],
        ref=[[0] * capacity for _ in range(count)],
        at=[[0] * capacity for _ in range(count)],
        reader=[0] * count,
        writer=[0] * count,
        sleepers=[0] * threads,
        event=[0] * threads,
    )


def joined(k, q, first, inputs, to):
    return k.Merged(
        *(column[first : first + inputs] for column in (q.ts, q.ref, q.at)),
        *(column[to : to + 1] for column in (q.ts, q.ref, q.at)),
        [[0] * inputs for _ in range(3)],
    )


def work(sources, owners, instances):
    """What `inject`, `apply` and `receive` read: every tuple is a report, of a segment given by its time."""
    rows = max(map(len, sources))
    zeros = [[0] * rows for _ in sources]
    seg = [[t % 100 for t in ts] + [0] * (rows - len(ts)) for ts in sources]
    names = ("kind", "vid", "spd", "xway", "lane", "dir", "pos")
    total = sum(map(len, sources))
    results = {name: [[0] * total for _ in range(instances)] for name in ("first", "second", "born", "sink")}
    return SimpleNamespace(instance=owners, seg=seg, last=[-1], **dict.fromkeys(names, zeros), **results)


def one_sink(k, sources, capacity, chunk):
    """Injectors -> merge operator -> sink: no instance between, so that a schedule is short."""

    def build():
        inputs = len(sources)
        q = queues(k, inputs + 1, inputs + 2, capacity)
        w = work(sources, [[0] * len(ts) for ts in sources], 1)
        w.first = w.second = [[0] * 9] * inputs  # as many rows as references name
        q.writer[:] = [*range(inputs), inputs]
        q.reader[:] = [inputs] * inputs + [inputs + 1]
        only = SimpleNamespace(first=[[0]], instance=w.instance)
        ended, stop = [[-1, -1]], [0]
        threads = [
            k.inject(q, only, s, ts, list(range(len(ts))), [0], s, inputs, 0, BATCH, stop) for s, ts in enumerate(sources)
        ]
        threads.append(k.merge(q, joined(k, q, 0, inputs, inputs), 0, inputs, inputs, chunk, stop))
        threads.append(k.receive(q, w, 0, inputs, inputs + 1, chunk, [], ended, stop))

        def check():
            times = [t for t, _ in sorted((t, s) for s, ts in enumerate(sources) for t in ts)]
            zeros = [0] * len(times)
            wanted = [[k.fold(times, zeros, zeros), len(times)]]
            assert ended == wanted, f"the sink got {ended}, wanted {wanted}"

        return threads, check

    return build


def whole(k, sources, owners, capacity, chunk):
    """All stages: two instances and two sinks, merge operators before each."""
    injectors, instances = len(sources), 2

    def build():
        to_instance = injectors * instances
        results = to_instance + instances
        to_sink = results + instances * instances
        threads = injectors + 4 * instances
        q = queues(k, to_sink + instances, threads, capacity)
        w = work(sources, owners, instances)
        ended, stop, running = [[-1, -1] for _ in range(instances)], [0], []
        for s, ts in enumerate(sources):
            for i in range(instances):
                q.writer[i * injectors + s] = s
            running.append(k.inject(q, w, s, ts, list(range(len(ts))), [0], s, injectors, 0, BATCH, stop))
        for i in range(instances):
            before, thread = i * injectors, len(running)
            q.reader[before : before + injectors] = [thread] * injectors
            q.writer[to_instance + i], q.reader[to_instance + i] = thread, thread + 1
            m = joined(k, q, before, injectors, to_instance + i)
            running.append(k.merge(q, m, before, to_instance + i, thread, chunk, stop))
            for s in range(instances):
                q.writer[results + s * instances + i] = thread + 1
            running.append(k.operate(q, w, 0, i, to_instance + i, results, thread + 1, chunk, stop))
        for s in range(instances):
            before, thread = results + s * instances, len(running)
            q.reader[before : before + instances] = [thread] * instances
            q.writer[to_sink + s], q.reader[to_sink + s] = thread, thread + 1
            m = joined(k, q, before, instances, to_sink + s)
            running.append(k.merge(q, m, before, to_sink + s, thread, chunk, stop))
            running.append(k.receive(q, w, s, to_sink + s, thread + 1, chunk, [], ended, stop))

        return running, lambda: assert_merged(k, sources, ended)

    return build


def readers(k, injectors_k, sources, owners, capacity, chunk):
    """All stages without merge operators: two instances and two sinks that merge what is sent to them."""
    injectors, instances = len(sources), 2

    def build():
        to_instance = injectors * instances
        results = to_instance + instances
        to_sink = results + instances * instances
        q = queues(k, to_sink + instances, injectors + 2 * instances, capacity)
        w = work(sources, owners, instances)
        ended, stop, running = [[-1, -1] for _ in range(instances)], [0], []
        for s, ts in enumerate(sources):
            for i in range(instances):
                q.writer[i * injectors + s] = s
            running.append(injectors_k.inject(q, w, s, ts, list(range(len(ts))), [0], s, injectors, 0, BATCH, stop))
        for i in range(instances):
            before, own, thread = i * injectors, to_instance + i, len(running)
            q.reader[before : before + injectors] = [thread] * injectors
            q.writer[own] = q.reader[own] = thread
            for s in range(instances):
                q.writer[results + s * instances + i] = thread
            m = joined(k, q, before, injectors, own)
            running.append(k.operate(q, m, before, w, 0, i, own, results, thread, chunk, stop))
        for s in range(instances):
            before, own, thread = results + s * instances, to_sink + s, len(running)
            q.reader[before : before + instances] = [thread] * instances
            q.writer[own] = q.reader[own] = thread
            m = joined(k, q, before, instances, own)
            running.append(k.receive(q, m, before, w, s, own, thread, chunk, [], ended, stop))
        return running, lambda: assert_merged(k, sources, ended)

    return build


def assert_merged(k, sources, ended):
    """Sink s got the tuples of segment s, modulo the number of sinks, in order."""
    times = sorted(t for ts in sources for t in ts)
    for s in range(len(ended)):
        mine = [t for t in times if t % len(ended) == s]
        wanted = [k.fold(mine, [t % 100 for t in mine], [0] * len(mine)), len(mine)]
        assert ended[s] == wanted, f"sink {s} got {ended[s]}, wanted {wanted}"


def channel_kernels(*planted):
    return Kernels(
        CHANNEL,
        EVENT_COUNT,
        shared=("ring_ts", "ring_ref", "out_ts", "out_ref"),
        planted=[(CHANNEL, *bug) for bug in planted],
        constants={**SMALL, "CONTROL_RESERVE": 0},
    )


def channel(k, sources, owners, bound):
    """All stages with gates of `bound` tuples: two instances, two sinks."""

    def build():
        before = log_state(k, len(sources), 2, ring=bound, log=2 * bound, bound=bound, reading=2)
        after = log_state(k, 2, 2, ring=bound, log=2 * bound, bound=bound, reading=2)
        w = work(sources, owners, 2)
        ended, stop = [[-1, -1] for _ in range(2)], [0]
        running = [k.inject(before, s, ts, [*range(len(ts))], [0], 0, BATCH, stop) for s, ts in enumerate(sources)]
        for i in range(2):
            running.append(k.operate(before, after, w, 0, i, stop))
            running.append(k.receive(after, w, i, [], ended, stop))
        return running, lambda: assert_merged(k, sources, ended)

    return build


SHORT = [[1], [2]]
LONG = [[1, 2, 3, 8, 9], [4, 5, 6, 7, 10]]
OWNERS = [[0, 0, 0, 0, 1], [1, 1, 1, 0, 0]]  # long runs for one instance: full queues beside empty ones


def test_interleave_few_preemptions_of_a_merge():
    assert exhaustive("viper queues", one_sink(kernels(), SHORT, 2, 2), preemptions=1) > 20


@pytest.mark.parametrize("capacity, chunk", [(2, 1), *rarely((2, 2)), (4, 2)])
def test_interleave_samples_of_a_merge(capacity, chunk):
    for sources in (LONG, [[1, 5], [2, 6], [3, 4]], [[1, 1, 2], [1, 2]]):
        assert sampled("viper queues", one_sink(kernels(), sources, capacity, chunk), 400) >= 400


@pytest.mark.parametrize("capacity, chunk", [(2, 1), (4, 2)])
def test_interleave_samples_of_all_stages(capacity, chunk):
    build = whole(kernels(), LONG, OWNERS, capacity, chunk)
    assert sampled("viper stages", build, 200, longest=20_000) >= 200


@pytest.mark.parametrize("capacity, chunk", [(2, 1), (4, 2)])
def test_interleave_samples_of_readers_that_merge(capacity, chunk):
    build = readers(kernels(side=READERS), kernels(), LONG, OWNERS, capacity, chunk)
    assert sampled("viper readers", build, 200, longest=20_000) >= 200


@pytest.mark.parametrize(
    "old, new",
    [
        pytest.param(
            "        if merged == NOTHING_DONE and step == NOTHING_DONE:\n            number = ticket(q, thread)\n"
            "            merged = merge_step(q, m, before, r, chunk)\n            step = operate_step",
            "        if step == NOTHING_DONE:\n            number = ticket(q, thread)\n"
            "            merged = NOTHING_DONE\n            step = operate_step",
            id="what could be merged is not looked at before a sleep",
        ),
    ],
)
def test_interleave_catches_in_readers(old, new):
    build = readers(kernels((READERS, old, new), side=READERS), kernels(), LONG, OWNERS, 2, 1)
    find_failure("viper readers", build, ASLEEP, count=400, longest=20_000)


ASLEEP = r"deadlock: threads \[\] wait, \[[\d, ]+\] sleep"
WRONG = "sink.* got .*, wanted"


@pytest.mark.parametrize(
    "old, new, expected",
    [
        pytest.param(
            "            store_release(q.head, r * CELL, heads[i])  # W2\n            news = True\n"
            "        if load_relaxed(q.mark, r * CELL) < mark:\n"
            "            store_release(q.mark, r * CELL, mark)  # W3\n            news = True\n",
            "            news = True\n"
            "        if load_relaxed(q.mark, r * CELL) < mark:\n"
            "            store_release(q.mark, r * CELL, mark)  # W3\n            news = True\n"
            "        store_release(q.head, r * CELL, heads[i])  # W2\n",
            WRONG,
            id="promise before tuples",
        ),
        pytest.param(
            "    if end < stop or end - begin == ready:\n", "    if True:\n", WRONG, id="promise of what is not moved yet"
        ),
        pytest.param(
            "capacity - load_relaxed(q.head, r * CELL) + load_acquire",
            "1 + capacity - load_relaxed(q.head, r * CELL) + load_acquire",
            WRONG,
            id="one slot too many",
        ),
        pytest.param("            wake(q, q.writer[r])\n", "            pass\n", ASLEEP, id="writers are not woken"),
        pytest.param("        if news:\n", "        if False:\n", ASLEEP, id="readers are not woken"),
    ],
)
def test_interleave_catches(old, new, expected):
    build = one_sink(kernels((old, new)), LONG, 2, 1)
    find_failure("viper queues", build, expected, count=2_000)


def test_interleave_catches_a_promise_to_one_reader_only():
    """I3: without the promise to those that got nothing, full and empty queues make a circle."""
    old = "        if load_relaxed(q.mark, r * CELL) < mark:\n"
    new = "        if news and load_relaxed(q.mark, r * CELL) < mark or mark == NOTHING:\n"
    build = whole(kernels((old, new)), LONG, OWNERS, 2, 2)
    find_failure("viper stages", build, ASLEEP, count=200, longest=20_000)


@pytest.mark.parametrize("bound", [2, *rarely(4)])
def test_interleave_samples_of_the_channel(bound):
    for sources, owners in ((LONG, OWNERS), (LONG[:1], OWNERS[:1])):
        build = channel(channel_kernels(), sources, owners, bound)
        assert sampled("viper channel", build, 200, longest=20_000) >= 200


@pytest.mark.parametrize(
    "planted, expected",
    [
        pytest.param(
            [
                ("            if owes:\n", "            if False:\n"),
                ("        if owes and results == 0:\n", "        if False:\n"),
            ],
            ASLEEP,
            id="no promise",
        ),
        pytest.param([("        reached = ts[count - 1]\n", "        reached = ts[count - 1] + 2\n")], ASLEEP, id="too much"),
        pytest.param(
            [("        made += results\n", "        made += mine\n        made -= results // 2\n")], WRONG, id="rows"
        ),
    ],
)
def test_interleave_catches_in_the_channel(planted, expected):
    build = channel(channel_kernels(*planted), LONG, OWNERS, 2)
    find_failure("viper channel", build, expected, count=400, longest=20_000)
