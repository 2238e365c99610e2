"""The stream of the tour, of the dashboard on its own page and of the pictures: endless posts, and work that is worth a thread.

Counting is too cheap to need a second thread: reading and checking the input costs more. Here each word has a score, and
each update of a score computes for about 20 microseconds, as a model or a parser would; a post has about eleven words.
The updates are meant to be most of the work by far, so that a second thread is worth a second core.

The score is iterated by a chaotic map: if a bit differs anywhere, every later score of that word changes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

import headrace as hr
from headrace.apps.app import sources
from headrace.reference.apps import words_of
from headrace.reference.operators import operator as reference_operator
from headrace.windows import Window

WORK = 8_000
"""Steps of one update."""
WINDOW = "2s"
SEED = 3
"""The first hours of its stream are calm: the rate of a lesson is the one that is set, without bursts of its own."""
ROWS = 100_000
"""Posts that are generated, once, and then repeated: generating costs nothing while threads are watched."""
EVENT_RATE = 16_000.0
"""Posts per second of event time in the long run; these calm hours have a third of it, so that event time passes about as
fast as the clock."""
BATCH_ROWS = 250
_SETTLING_S = 0.3
_FIRST_SCORE = 0.5


def posts() -> Iterator[pa.RecordBatch]:
    """Iterate over endless posts, the same at each call."""
    from headrace_datasets import tweets

    return tweets(n=ROWS, seed=SEED, rate=EVENT_RATE).repeated(BATCH_ROWS)


def _update(state, t, emit):
    score = state.score
    for _ in range(WORK):
        score = 3.9 * score * (1.0 - score)
    state.score = score
    state.n += 1


def _output(key, state, emit):
    emit(n=state.n, score=state.score)


def scored(batches: Iterable[pa.RecordBatch]) -> hr.Stream:
    """Build the query: a score for each word in windows of two seconds."""
    score = hr.operator(
        state={"n": "int64", "score": _FIRST_SCORE}, emits={"n": "int64", "score": "float64"},
        update=_update, output=_output, name="score",
    )  # fmt: skip
    stream = hr.stream(iter(batches), event_time="ts", name="posts")
    return stream.key_by(word=hr.words("text")).window(WINDOW).apply(score)


def capacity(threads: int, seconds: float = 1.5) -> float:
    """Measure how many posts per second this many threads can process on this machine, at present.

    Parameters
    ----------
    threads : int
    seconds : float
        How long to measure, after the first moments.
    """
    with scored(posts()).start(threads=threads, max_threads=threads, sink=hr.discard()) as run:
        while run.metrics().operators["score"].processed == 0:
            run.wait(0.05)
        run.wait(_SETTLING_S)
        before = run.metrics()
        run.wait(seconds)
        after = run.metrics()
    count = after.operators["score"].processed - before.operators["score"].processed
    return count / (after.seconds - before.seconds)


def expected(rows: pa.Table) -> list[dict[str, Any]]:
    """Compute the results of `scored` in plain Python, one post at a time: the reference.

    Words that occur equally often have equal scores, so each number of steps is computed once.
    """

    @functools.cache
    def stepped(score: float) -> float:
        for _ in range(WORK):
            score = 3.9 * score * (1.0 - score)
        return score

    def update(state, t, emit):
        state.score = stepped(state.score)
        state.n += 1

    found = reference_operator(
        [sources([rows])], Window.parse(WINDOW, WINDOW, "us"), lambda t: words_of(t["text"]),
        state={"n": 0, "score": _FIRST_SCORE}, update=update, output=_output,
    )  # fmt: skip
    return [{"ts": row.ts, "word": row.key, **row.values} for row in found]
