"""Strings in the predicates of joins: which pairs match is what plain Python says.

Property    a function of two tuples compares strings of both sides with each other and with literals, and asks for their
            length, whatever the threads, modes and planned reconfigurations, with an index and without; null matches
            nothing; the ids behind strings come and go with the tuples, and memory does not grow
Oracle      `headrace.reference.join`, on the same Python values
Cannot see  what functions do with strings in general: tests/headrace/codegen
"""

from __future__ import annotations

import random
import threading
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import reference
from headrace.elastic.join import compiled as compiled_join
from headrace.errors import FunctionError
from headrace.ingress.keys_kernel import FREE
from headrace.ingress.ordered_texts import OrderedTexts
from headrace.runtime import gate_inlet
from support.workloads import HANG_S, examples, scattered

SETTINGS = settings(max_examples=examples(16), deadline=None, derandomize=True)
LIMIT = 200
WORDS = ["", "a", "b", "B", "ab", "é", "日本", "z" * 11, "z" * 11 + "a", "\U0001f600"]
TEXTS = st.none() | st.sampled_from(WORDS)
LEFT = {"name": pa.string(), "kind": pa.dictionary(pa.int16(), pa.string()), "n": pa.int32()}
RIGHT = {"word": pa.large_string(), "sort": pa.string(), "n": pa.int32()}
RULE = pa.schema({"ts": pa.int64(), **LEFT}), pa.schema({"ts": pa.int64(), **RIGHT})


def near(l, r):
    return l.name == r.word or (l.kind < r.sort and r.word != "b") or (len(l.name) > 10 and r.n == l.n)


def expected(lefts, rights, within, on=()):
    """The rows of both sides that match, as `check` gets them."""

    def holds(l, r):
        read = (l["name"], l["kind"], l["n"], r["word"], r["sort"], r["n"])
        if None in read or any(l[name] != r[name] for name in on):
            return False
        return near(SimpleNamespace(**l), SimpleNamespace(**r))

    matches = reference.join([pairs(t) for t in lefts], [pairs(t) for t in rights], within, holds)
    return [(m.ts, *m.left.values(), *m.right.values()) for m in matches]


def pairs(table):
    return [(row["ts"], {k: v for k, v in row.items() if k != "ts"}) for row in table.to_pylist()]


def joined(lefts, rights, within, on=None, index=True, **options):
    left, right = (hr.stream(list(tables), event_time="ts", batch_rows=50) for tables in (lefts, rights))
    query = left.join(right, within, near, on=on, prefixes=("l_", "r_"), index=index)
    return [tuple(row.values()) for row in query.to_arrow(**options).to_pylist()]


def drawn_sides(schema, texts):
    def tables(rows):
        return [pa.Table.from_pylist(sorted(some, key=lambda row: row["ts"]), schema) for some in rows]

    columns = {"ts": st.integers(-20, 20), "n": st.none() | st.integers(0, 2)}
    row = st.fixed_dictionaries(columns | dict.fromkeys(texts, TEXTS))
    return st.lists(st.lists(row, max_size=30), min_size=1, max_size=2).map(tables)


CASES = st.tuples(
    drawn_sides(RULE[0], ("name", "kind")), drawn_sides(RULE[1], ("word", "sort")), st.sampled_from([1, 5, 30])
)


@pytest.mark.logic
@pytest.mark.parametrize("mode", ["vsn", "sn"])
@SETTINGS
@given(CASES, st.integers(1, 8), st.lists(st.tuples(st.integers(0, 80), st.integers(1, 8)), max_size=3).map(sorted))
def test_oracle_all_pairs(mode, case, threads, schedule):
    lefts, rights, within = case
    start = scattered(random.Random(threads), threads)
    assert joined(lefts, rights, within, reconfigure=schedule, mode=mode, **start) == expected(lefts, rights, within)


def passing(rows, seed=5):
    """Rows of one side each, whose strings are new all the time, and begin alike."""
    draw = random.Random(seed)
    sides = []
    for names in (("name", "kind"), ("word", "sort")):
        schema = RULE[len(sides)]
        made = []
        for i in range(rows):
            texts = {name: f"a long beginning {draw.randrange(i // 2, i // 2 + 9)}" for name in names}
            made.append({"ts": i // 2, "n": draw.randrange(3), **texts})
        sides.append([pa.Table.from_pylist(made, schema)])
    return sides


SCHEDULES = [{"threads": 1}, {"threads": 2, "reconfigure": [(300, 3), (900, 1)]}]


def in_step(table, meeting):
    """A source that gives its next rows when all that meet want to: one far ahead would hold all the strings there may be."""

    def batches():
        for batch in table.to_batches(max_chunksize=50):
            meeting.wait(HANG_S)
            yield batch

    return pa.RecordBatchReader.from_batches(table.schema, batches())


def assert_passing(mode="vsn", on=None, schedule=SCHEDULES[0]):
    lefts, rights = passing(1_500)
    meeting = threading.Barrier(2)
    sides = [[in_step(table, meeting) for table in tables] for tables in (lefts, rights)]
    got = joined(*sides, 12, on=on, mode=mode, max_keys=LIMIT, **schedule)
    wanted = expected(lefts, rights, 12, [on] if on else ())
    assert got == wanted and len(got) > 1_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "on"),
    [("vsn", None), pytest.param("sn", None, marks=pytest.mark.campaign), pytest.param("vsn", "n", marks=pytest.mark.campaign)],
    ids=["vsn", "sn", "by key"],
)
def test_agree_ids_are_used_again_while_tuples_are_compared(mode, on, monkeypatch):
    """Far more strings pass than may be live, and all are compared as long as their tuples are."""
    made = []
    monkeypatch.setattr(gate_inlet, "_KEYS_LOOKS", HANG_S * 2_000)  # a thread without a core is slower than a second of looks
    planted_init = OrderedTexts.__init__
    monkeypatch.setattr(OrderedTexts, "__init__", lambda self, limit: [made.append(self), planted_init(self, limit)][1])
    for schedule in SCHEDULES:
        assert_passing(mode, on, schedule)
    assert made and all(texts.id_limit <= LIMIT for texts in made)


def assert_known_as_long_as_compared():
    """When strings are let go: what the run's threads do then, done by hand behind its end."""
    side = pa.table({"ts": range(60), "name": [f"left {ts}" for ts in range(60)]})
    other = pa.table({"ts": range(60), "word": [f"right {ts}" for ts in range(60)]})
    left, right = (hr.stream(rows, event_time="ts") for rows in (side, other))
    run = left.join(right, 10, lambda l, r: l.name < r.word).start()
    run.wait()
    (section,) = run._execution.sections.values()
    (texts,) = {id(texts): texts for texts in section.compiled.texts_of(0).values()}.values()
    ids = texts.encode(pa.concat_arrays([side["name"].combine_chunks(), other["word"].combine_chunks()]))
    for watermark in (30, 45):
        section.compiled.release(watermark)
        texts.recycle(texts.horizon)
        known = texts.decode(np.array([each for each in ids if texts.last_use([each]) != FREE]))[0].to_pylist()
        in_reach = {f"{name} {ts}" for name in ("left", "right") for ts in range(watermark - 10 + 1, 60)}
        assert in_reach <= set(known), "strings of tuples in reach"
        # Of one source: what the other one brought in later counts as used at its time.
        assert len(known) <= 120 - (watermark - 10 + 1), "strings that nothing can meet"


@pytest.mark.logic
def test_example_strings_are_known_as_long_as_their_tuples_are_compared():
    assert_known_as_long_as_compared()


def strings_are_forgotten_too_early(monkeypatch):
    """As soon as their tuples are let in, and not when no tuple of the other side can meet them any more."""

    def release(self, watermark):
        planted(self, watermark + 12)

    planted = compiled_join.CompiledJoin.release
    monkeypatch.setattr(compiled_join.CompiledJoin, "release", release)


def strings_are_kept_for_ever(monkeypatch):
    monkeypatch.setattr(compiled_join.CompiledJoin, "release", lambda self, watermark: None)


def assert_compared():
    lefts, rights = passing(200)
    assert joined(lefts, rights, 12) == expected(lefts, rights, 12), "pairs that match"


def strings_are_compared_as_they_came(monkeypatch):
    def note(self, ids):
        planted(self, ids)
        self.prefixes[ids] = self.lengths[ids] = 0

    planted = OrderedTexts._note
    monkeypatch.setattr(OrderedTexts, "_note", note)


@pytest.mark.slow
@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("mistake", "check", "fails"),
    [
        (strings_are_forgotten_too_early, assert_known_as_long_as_compared, "strings of tuples in reach"),
        (strings_are_kept_for_ever, assert_known_as_long_as_compared, "strings that nothing can meet"),
        (strings_are_compared_as_they_came, assert_compared, "pairs that match"),
    ],
)
def test_planted_mistakes_are_seen(mistake, check, fails, monkeypatch):
    mistake(monkeypatch)
    with pytest.raises(AssertionError, match=fails):
        check()


LEFTS = pa.table({"ts": [0, 3], "name": ["pear", "fig"], "x": [2, 0]})
RIGHTS = pa.table({"ts": [1, 2], "name": ["fig", "quince"], "a": [4, 6]})


def two(where, **options):
    query = hr.stream(LEFTS, event_time="ts").join(
        hr.stream(RIGHTS, event_time="ts"), 10, where, prefixes=("l_", "r_"), **options
    )
    return query.to_arrow().to_pylist()


@pytest.mark.logic
def test_example_a_name_may_be_text_on_one_side_and_a_number_on_the_other():
    rights = pa.table({"ts": [1, 2], "name": [4, 6]})
    query = hr.stream(LEFTS, event_time="ts").join(
        hr.stream(rights, event_time="ts"), 10, lambda l, r: len(l.name) == r.name, prefixes=("l_", "r_")
    )
    assert query.to_arrow().to_pylist() == [{"ts": 2, "l_name": "pear", "l_x": 2, "r_name": 4}]


@pytest.mark.logic
def test_example_a_function_that_fails_shows_the_strings():
    with pytest.raises(FunctionError, match="division") as caught:
        two(lambda l, r: l.name == "fig" and r.a // l.x == 2)
    assert caught.value.tuple["l.name"] == "fig" and caught.value.tuple["l.x"] == 0


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (lambda l, r: l.name.upper() == r.name, "text work"),
        (lambda l, r: l.name == r.a, "a string"),
        (lambda l, r: l.name + "s" == r.name, "text work|string"),
    ],
)
def test_bad_uses_of_strings_are_refused(where, words):
    with pytest.raises(FunctionError, match=words):
        two(where)
