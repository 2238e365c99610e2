"""Q1, section 8.1 of STRETCH: word and pair count, sharing against sharing nothing, over the level of duplication.

A tweet of n words has n keys, or as many as it has pairs of near words. Under virtual shared-nothing (VSN) every
thread reads the one tuple and updates the keys it owns. Shared-nothing (SN) needs Corollary 1's Map before it, which
makes one tuple for each key: this is duplication. SN is run in two ways. It gets that Map's output as its input, so that it
does not pay for the Map itself, only for the larger number of tuples, which are routed to private queues; or the Map runs in the
source's thread, which writes each tuple into the store and adds it. (In the paper the Map has 1 to 36 threads.)
There are many results: a pair of words is rare, so nearly every pair gives a row in each of its two windows. These rows, which
both sides order and build alike, are the larger part of the work, so the ratio does not grow with duplication as the paper's
does; rows per key are reported. A word count over a small vocabulary has hardly any rows, and shows what sharing saves.

On both sides, the keys are encoded and stored before the clock starts. The numbers of result rows and of updates are compared
with NumPy's; whole results are compared with the definition, on a part of the input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace import reference
from headrace.elastic import words
from headrace.ingress.store import CHUNK
from headrace.summary import counted
from headrace.windows import Window
from headrace_bench import feeding_kernel
from headrace_bench.experiments.experiment import STRETCH_MACHINE, Experiment, Paper
from headrace_bench.experiments.figure import Figure, Line
from headrace_bench.experiments.scaling import ASSUMPTIONS, predict
from headrace_bench.machine import patience_for
from headrace_bench.resident import Resident
from headrace_bench.rows import Row, median
from headrace_bench.wordcount import ADVANCE, SIZE

PAPER = Paper(
    "STRETCH, section 8.1, Figure 6",
    STRETCH_MACHINE,
    (
        "wordcount: +17 % throughput and -94 % latency against Flink.",
        "paircount L, M, H (distance 3, 10, inf): +137 %, +237 % and +283 % throughput, -89 %, -94 % and -94 % latency.",
        "Throughput falls as the level of duplication grows: each tweet makes more pairs.",
    ),
)
FEW = "wordcount, few words"
LEVELS = {FEW: 0, "wordcount": 0, "paircount L": 3, "paircount M": 10, "paircount H": 40}
WORDS, FEW_WORDS = 20_000, 300
LONGEST = 40
MAPPED = "SN with its Map"
SIDES = ("VSN", "SN", MAPPED)


class Tweets:
    """Tweets of one level of duplication: their times, and the distinct keys of each, concatenated."""

    def __init__(self, level: str, updates: int, seed: int = 7):
        rng = np.random.default_rng(seed)
        weights = 1.0 / (np.arange(FEW_WORDS if level == FEW else WORDS) + 2.7)
        cumulative = np.cumsum(weights / weights.sum())
        keys, counts = [], []
        total = 0
        while total < updates:
            # Lengths as in tweets: mean 11, standard deviation 6.
            lengths = np.clip(rng.negative_binomial(4.84, 4.84 / 15.84, 2_000), 1, LONGEST)
            words = np.searchsorted(cumulative, rng.random((lengths.size, LONGEST)))
            rows = _different(_keys_of(words, lengths, LEVELS[level]))
            keys.append(rows[rows >= 0])
            counts.append((rows >= 0).sum(axis=1))
            total += keys[-1].size
        self.keys = np.concatenate(keys)
        self.counts = np.concatenate(counts)
        self.ts = np.sort(rng.integers(0, 600_000, self.counts.size))
        self.times = np.repeat(self.ts, self.counts)

    def tables(self, tweets: int | None = None) -> dict[str, pa.Table]:
        """The input of each side, from the first `tweets` tweets only, if given."""
        n = len(self.counts) if tweets is None else tweets
        offsets = np.concatenate(([0], np.cumsum(self.counts[:n]))).astype(np.int32)
        keys = pa.array(self.keys[: offsets[-1]])
        copies = pa.table({"ts": self.times[: offsets[-1]], "key": keys})
        copies = pa.Table.from_batches(copies.to_batches(max_chunksize=CHUNK - 1), copies.schema)  # the store copies such rows
        vsn = pa.table({"ts": self.ts[:n], "key": pa.ListArray.from_arrays(offsets, keys)})
        return {"VSN": vsn, "SN": copies, MAPPED: copies}

    def results(self) -> int:
        """The number of result rows: distinct pairs (window, key)."""
        latest = self.times // ADVANCE
        span = WORDS * WORDS
        places = np.concatenate((latest * span + self.keys, (latest - 1) * span + self.keys))
        return len(np.unique(places))


def _keys_of(words: np.ndarray, lengths: np.ndarray, distance: int) -> np.ndarray:
    """Keys of each tweet in a row, -1 where there is none."""
    place = np.arange(LONGEST)
    if distance == 0:
        return np.where(place < lengths[:, None], words, -1)
    columns = []
    for apart in range(1, min(distance, LONGEST - 1) + 1):
        pairs = words[:, :-apart] * WORDS + words[:, apart:]
        columns.append(np.where(place[apart:] < lengths[:, None], pairs, -1))
    return np.concatenate(columns, axis=1)


def _different(rows: np.ndarray) -> np.ndarray:
    """Sort the keys of each row, and replace repeated ones by -1."""
    rows = np.sort(rows, axis=1)
    rows[:, 1:][rows[:, 1:] == rows[:, :-1]] = -1
    return rows


def query(side: str, table: pa.Table) -> Any:
    """The operator of a side: A+ with several keys for each tuple, or A with one."""
    stream = hr.stream(table, event_time="ts")
    keyed = stream.key_by(key=hr.each("key")) if side == "VSN" else stream.key_by("key")
    return keyed.window(SIZE, ADVANCE).aggregate(n=hr.count())


class Mapped(Resident):
    """SN whose source runs Corollary 1's Map: it reads tweets, and writes their tuples into the store as it adds them.

    Parameters
    ----------
    tweets : Tweets
    table : pa.Table
        The Map's output: it gives keys their ids, and the store its room.
    threads : int
    like : Mapped, optional
        As for `Resident`.
    **options
        As for `Resident`.
    """

    def __init__(self, tweets: Tweets, table: pa.Table, threads: int, like: Mapped | None = None, **options: Any):
        super().__init__(query("SN", table), [table], threads, like=like, mode="sn", **options)
        self._tweets = tweets
        self._chunks = like._chunks if like else [chunk for _, chunk in sorted(self.operator.inlets[0].store.chunks.items())]
        self._ids = like._ids if like else np.concatenate([chunk.keys for chunk in self._chunks])[: len(table)]
        for chunk in self._chunks:  # what the Map did not write would not be there
            chunk.ts[:], chunk.keys[:] = 0, 0

    def feeding(self, begin: np.ndarray, batch: int, per_second: int, period: int) -> list[tuple[Callable[..., Any], tuple]]:
        """The source's loop, with the Map in it."""
        offsets = np.concatenate(([0], np.cumsum(self._tweets.counts)))
        places = [np.array([getattr(chunk, name).ctypes.data for chunk in self._chunks]) for name in ("ts", "keys")]
        arguments = (self._tweets.ts, offsets, self._ids, *places, per_second, begin, batch, self.stop_word)
        return [(feeding_kernel.feed_mapped, (self.operator.gate, 0, *arguments))]


def check(tweets: Tweets) -> None:
    """Compare both sides with the definition, on the first tweets."""
    tables = tweets.tables(60)
    rows = [(row["ts"], {"key": row["key"]}) for row in tables["VSN"].to_pylist()]
    definition = reference.aggregate(
        [rows], Window(SIZE, ADVANCE), reference.each("key"), {"n": ("count", None)}
    )
    wanted = [{"ts": row.ts, "key": row.key, **row.values} for row in definition]
    for side in ("VSN", "SN"):
        rows = query(side, tables[side]).to_arrow(mode=side.lower()).to_pylist()
        assert rows == wanted, f"{side}: not the definition's rows"


def measure(full: bool, tiny: bool = False) -> Experiment:
    """Tweets/s and latency of both sides, over threads and levels."""
    updates, repetitions, threads = 1_000_000, 3, (1, 2, 4, 8)
    if full:
        updates, repetitions = 30_000_000, 5
    if tiny:
        updates, repetitions, threads = 20_000, 1, (1, 2)
    rates: dict[tuple[str, str, int], float] = {}
    delays: dict[tuple[str, str, int], tuple[float, float]] = {}
    keys: dict[str, float] = {}
    rows_a_key: dict[str, float] = {}
    patience = patience_for(repetitions)
    for level in LEVELS:
        tweets = Tweets(level, updates)
        if LEVELS[level] == 0:
            check(tweets)
        keys[level] = float(tweets.counts.mean())
        results, tables, n = tweets.results(), tweets.tables(), len(tweets.ts)
        rows_a_key[level] = results / tweets.keys.size
        first: dict[str, Resident] = {}
        samples: dict[tuple[str, int], list[float]] = {}

        def run(side: str, count: int, per_second: int = 0, first=first, tables=tables, tweets=tweets, results=results):
            options = {"like": first.get(side), "collect": True}
            if side == MAPPED:
                case = Mapped(tweets, tables[side], count, **options)
            else:
                case = Resident(query(side, tables[side]), [tables[side]], count, mode=side.lower(), **options)
            first.setdefault(side, case)
            seconds = case.run(per_second=per_second)
            assert case.results == results, f"{side}, {count} threads: {case.results} rows instead of {results}"
            assert case.meter(words.UPDATES) == 2 * tweets.keys.size, f"{side}, {count} threads: updates lost"
            return seconds, case

        for _ in range(repetitions):
            for count in threads:
                patience.await_near(count)
                for side in SIDES:
                    samples.setdefault((side, count), []).append(n / run(side, count)[0])
        for (side, count), values in samples.items():
            rates[level, side, count] = median(values)
            tuples = len(tables[side])
            half = int(rates[level, side, count] / 2 * tuples / n)
            summary = run(side, count, max(1, half))[1].operator.collector.latency.summary()
            delays[level, side, count] = summary["p50"], summary["p99"]
    return _experiment(threads, keys, rows_a_key, rates, delays)


def _experiment(threads, keys, rows_a_key, rates, delays) -> Experiment:
    finished = Experiment(
        "q1",
        "Many keys in a tuple: sharing it, or a copy for each key?",
        "Tweets of 11 words on average; windows of 120 s that advance by 60 s; keys: "
        + ", ".join(f"{level} {count:.1f}" for level, count in keys.items())
        + f" for each tweet. VSN reads tweets and updates all their keys; SN reads a tuple for each key, made beforehand: its "
        f"time does not include the Map that makes them. In '{MAPPED}', the source's thread runs the Map: it writes a tuple for "
        "each key and adds it, with keys encoded beforehand as on the other sides; the paper's Map has 1 to 36 threads, and its "
        "figure shows the range. Result rows: "
        + ", ".join(f"{level} {count:.2f}" for level, count in rows_a_key.items())
        + " for each key. Both sides order and build them at the same cost, so where there is a row or more for each key, "
        f"as with pairs of a large vocabulary, that cost hides what sharing saves; tweets of {FEW_WORDS} different words have "
        "hardly any rows. "
        "Latency is taken at half of each side's own highest rate, from the arrival of the tuple that completes a "
        "window to its result; a window ends with a burst of all its keys, whose last result is the latest.",
        PAPER,
        assumptions=list(ASSUMPTIONS),
    )
    for level in LEVELS:
        finished.rows.append(Row("q1", f"{level}, results for each key", rows_a_key[level], "rows", "lower"))
        for count in threads:
            vsn, sn = rates[level, "VSN", count], rates[level, "SN", count]
            case = f"{level}, {counted(count, 'thread')}"
            finished.rows.append(
                Row("q1", case, vsn / 1e3, "k tweets/s", goal=1.0, baseline=sn / 1e3, baseline_name="SN", goal_is_ratio=True)
            )
            mapped = rates[level, MAPPED, count]
            finished.rows.append(
                Row("q1", f"{case}, beside {MAPPED}", vsn / 1e3, "k tweets/s", baseline=mapped / 1e3, baseline_name=MAPPED)
            )
            ours = delays[level, "VSN", count]
            for side, beside in (("SN", ""), (MAPPED, f", beside {MAPPED}")):
                for value, theirs, name in zip(ours, delays[level, side, count], ("p50", "p99"), strict=True):
                    latency = f"{case}, latency {name}{beside}"
                    finished.rows.append(Row("q1", latency, value, "ms", "lower", baseline=theirs, baseline_name=side))
        model = predict(0.0, 1e9 / rates[level, "VSN", 1])
        error = abs(model(2) / rates[level, "VSN", 2] - 1)
        finished.rows.append(Row("q1", f"{level}, 2 threads: prediction's error", error, "fraction", "lower"))
        far = [2, 4, 8, 16, 36, 72]
        measured = [Line(side, threads, [rates[level, side, n] / 1e3 for n in threads]) for side in SIDES]
        line = Line("VSN, no scan cost", far, [model(n) / 1e3 for n in far], predicted=True)
        finished.figures.append(
            Figure(f"{level}: throughput", "threads", "k tweets/s", [*measured, line], log_x=True, log_y=True)
        )
        lines = [
            Line(f"{side}, {name}", threads, [delays[level, side, n][k] for n in threads])
            for side in SIDES
            for k, name in enumerate(("p50", "p99"))
        ]
        finished.figures.append(Figure(f"{level}: latency at half of the rate", "threads", "ms", lines, log_y=True))
    return finished
