"""Strings of a pipeline come and go: ids are given to others when nothing has them any more, and never before.

Method: far more strings than are live at a time, in states of every kind, results compared with the reference or with what
the input says they must be; ids in use are counted. What is let in waits for what was let in before, so that it is known
what is live. Cannot see: whether ids could have been given away sooner.
"""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.ingress.keys_kernel import FREE
from headrace.memory.atomics import CELL
from headrace.ordering import compiled, ingest_kernel, section, words
from headrace.ordering.compiled import CompiledPipeline
from support.campaign import rarely
from support.pipelines import SHAPES, some_rows
from support.workloads import Steered, eventually

KEYS, HELD = 10, 100


def remember(state, t, emit):
    if state.n > 0:
        emit(before=state.text, n=state.n)
    if state.n % HELD == 0:
        state.text = t.text
    state.n += 1


def remembered(batches):
    return (
        hr.stream(batches, event_time="ts")
        .ordered()
        .partitioned(
            remember, by="key", state={"text": "string", "n": "int64"}, emits={"before": "string", "n": "int64"}, buckets=3
        )
    )


def texts_of(count):
    numbers = np.arange(count)
    return pa.table({"ts": numbers, "key": numbers % KEYS, "text": [f"a text of its own, {number}" for number in range(count)]})


def expected_of(table):
    """What each row but the first of a key finds."""
    number = np.arange(KEYS, table.num_rows)
    return table["text"].combine_chunks().take(pa.array((number // KEYS - 1) // HELD * HELD * KEYS + number % KEYS))


def ran(table, batch, **options):
    """Run it batch by batch, the results of each awaited; results, and the pipeline as compiled for the run."""
    batches = Steered(table, [batch] * (table.num_rows // batch))
    with remembered(batches).start(**options) as run:
        (one,) = run._execution.sections.values()
        for last in range(batch, table.num_rows + 1, batch):
            batches.let()
            eventually(lambda last=last: run.metrics().tuples_out >= last - KEYS or run.state != "running")
        batches.let_all()
        run.wait()
    return run.to_arrow(), one.compiled


@pytest.mark.slow
def test_a_million_strings_come_and_go():
    """Each key has one of its last hundred; the others' ids are used again."""
    table = texts_of(1_000_000)
    found, made = ran(table, 20_000, threads=2)
    assert found["before"].combine_chunks().equals(expected_of(table))
    assert made.texts.id_limit < 150_000, "more ids than two batches and what is looked for at a time"
    assert made.texts.nbytes < 60e6


def check_known(monkeypatch):
    """When strings are let go: what the run's threads do then, done by hand behind its end."""
    table = texts_of(HELD * KEYS)
    monkeypatch.setattr(compiled, "LEAST_RECYCLED", 1 << 20)
    with remembered(table).start(threads=1) as run:
        run.wait()
    (section,) = run._execution.sections.values()
    texts = section.compiled.texts
    ids = texts.encode(table["text"].combine_chunks())
    section.compiled._recycle_at = 0
    section.compiled.release(table.num_rows, section.arrays)
    assert all(texts.last_use([each]) != FREE for each in ids[:KEYS]), "strings that states hold"


@pytest.mark.slow
@pytest.mark.interpreted  # compiled, it would read strings that are not there any more
def test_planted_states_that_do_not_say_what_they_hold(monkeypatch):
    monkeypatch.setattr(compiled, "LEAST_RECYCLED", 8)
    table = texts_of(1_000)
    expected = expected_of(table).to_pylist()
    found, made = ran(table, 50, threads=2)
    assert found["before"].to_pylist() == expected and made.texts.id_limit < 500
    check_known(monkeypatch)
    original = CompiledPipeline.__init__

    def silent(self, *given, **named):
        original(self, *given, **named)
        self._keeps_texts = False

    monkeypatch.setattr(CompiledPipeline, "__init__", silent)
    with pytest.raises(AssertionError, match="strings that states hold"):
        check_known(monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"threads": 2, "batch": 1}, {"threads": 4, "capacity": 4096}])
def test_strings_on_their_way_into_a_state_are_not_given_away(options, monkeypatch):
    """What the states hold is asked all the time, while the rings are full; each text is held by a state for long."""
    monkeypatch.setattr(compiled, "LEAST_RECYCLED", 8)
    monkeypatch.setattr(section, "GATE_CAPACITY", 1 << 10)
    original = CompiledPipeline._recycle

    def again(self, horizon):
        original(self, horizon)
        self._recycle_at = 8

    monkeypatch.setattr(CompiledPipeline, "_recycle", again)
    table = texts_of(100_000)
    with remembered(table.to_batches(max_chunksize=500)).start(max_threads=4, **options) as run:
        run.wait()
    assert run.to_arrow()["before"].combine_chunks().equals(expected_of(table))
    (one,) = run._execution.sections.values()
    assert one.compiled._asked > 0


@pytest.mark.slow
@pytest.mark.interpreted
def test_states_are_looked_at_while_nothing_is_on_its_way(monkeypatch):
    """What is on its way may come into a state that was looked at already."""
    looked = []
    monkeypatch.setattr(ingest_kernel, "hold_texts", lambda c, s, l, ts: looked.append(ts), raising=False)
    stage, cells = np.zeros(2 * words.STAGE_CELLS * CELL, np.int64), words.STAGE_CELLS * CELL
    c = SimpleNamespace(words=np.zeros(words.WORD_COUNT * CELL, np.int64), stage=stage, form=np.zeros((2, 16), np.int64))
    assert ingest_kernel.tell_texts(c, None, None) and looked == [], "nobody has asked"
    c.words[words.TEXTS_ASKED] = 1
    stage[words.PROGRESS] = 70
    for busy in (0, cells):
        stage[busy + words.TAIL] = 1
        assert not ingest_kernel.tell_texts(c, None, None), f"a record of stage {busy // cells} is on its way"
        stage[busy + words.NEXT] = 1
    assert looked == [] and c.words[words.TEXTS_TOLD] == 0
    assert ingest_kernel.tell_texts(c, None, None) and looked == [70]
    assert c.words[words.TEXTS_TOLD] == 1 and c.words[words.TEXTS_AT] == 70
    assert ingest_kernel.tell_texts(c, None, None) and looked == [70], "once each time that somebody asks"


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["forgotten keys", *rarely("containers and strings")])
def test_oracle_strings_in_containers_and_keys(shape, monkeypatch):
    """Every kind of state, under drawn options, while they change; what comes at one time is another word than before."""
    monkeypatch.setattr(compiled, "LEAST_RECYCLED", 8)
    rng = np.random.default_rng(11)
    spared = []
    for case in range(5):
        table = some_rows(rng, 3_000, 5)
        ts = table["ts"].to_numpy()
        drawn = pa.array([f"{when // 40} {which}" for when, which in zip(ts, rng.integers(0, 6, 3_000), strict=True)])
        table = table.set_column(table.schema.get_field_index("text"), "text", drawn)
        expected = SHAPES[shape].expected([table])
        batches = Steered(table, [100] * 30)
        options = {
            "threads": int(rng.integers(1, 5)), "max_threads": 4, "batch": int(rng.choice([1, 7, 64])),
            "capacity": int(rng.choice([2, 64, 1024])), "queues": ("auto", "hybrid", "partitioned", "shared")[case % 4],
            "reorder": ("nonblocking", "lock")[case % 2], "reconfigure": [(1_000, 4), (2_000, {"schedule": "lp"})],
        }  # fmt: skip
        with SHAPES[shape].on(hr.stream(batches, event_time="ts")).start(**options) as run:
            (one,) = run._execution.sections.values()
            (operator,) = (run[name] for name in run.operators)
            for last in range(100, 3_001, 100):
                batches.let()
                eventually(lambda one=operator, last=last: one.metrics().processed >= last or run.state != "running")
            batches.let_all()
            run.wait()
        assert run.to_arrow().to_pylist() == expected, options
        spared.append(len(drawn.unique()) - one.compiled.texts.id_limit)
    assert max(spared) > 0 or shape != "forgotten keys", "ids are given to others"
