"""Results passed on to an operator whose key is some of the key's columns, or these in another order.

Property    the rows that the reference gives, for keys of any columns of the one before, any threads, changes of them and
            batches; a key means the same behind though its id, or that of the one before, was another key's meanwhile
Oracle      `headrace.reference`, one aggregate behind the other; where keys come and go, the run through a collector
Planted     here: ids that are kept though they are another key's now, before or behind; keys that expire too early behind
Cannot see  in which order ids are recycled: that depends on when results are collected
"""

import random
import threading

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace import reference
from headrace.elastic.passed_keys import PassedKeys
from headrace.elastic.section import ElasticSection
from headrace.errors import OverflowInputError
from headrace.ingress import keys
from headrace.ingress.keys import KeyDictionary
from headrace.windows import Window
from support.books import changed_and_watched, check_end
from support.passing import GATE, options_of
from support.typed_cases import check_rows, payloads, stream
from support.workloads import HANG_S, Steered, examples

FIRST, SECOND = Window(6, 3), Window(24, 12)
COLUMNS = ("house", "room", "plug")
BEHIND = [("house",), ("room",), ("plug",), ("plug", "house"), ("room", "plug"), ("plug", "room", "house")]


def table(rows=60, seed=1, span=72, names=3):
    draw = random.Random(seed)
    return pa.table({
        "ts": sorted(draw.randrange(span) for _ in range(rows)),
        "house": [draw.choice("äbc") * draw.randrange(1, names) for _ in range(rows)],
        "room": pa.array([draw.randrange(names) for _ in range(rows)], pa.int16()),
        "plug": [draw.choice([0.5, -1.0, 1e9]) for _ in range(rows)],
        "v": pa.array([draw.choice([None, *range(-9, 9)]) for _ in range(rows)], pa.int32()),
    })  # fmt: skip


def upper(source, size=FIRST.size, advance=FIRST.advance, key=COLUMNS):
    given = source if isinstance(source, hr.Stream) else hr.stream(source, event_time="ts")
    return given.key_by(*key).window(size, advance).aggregate("upper", n=hr.count(), least=hr.min("v"), known=hr.count("v"))


def lower(above, key, size=SECOND.size, advance=SECOND.advance, **more):
    wanted = {"n": hr.sum("n"), "rows": hr.count(), "least": hr.min("least"), "different": hr.count_distinct("least")}
    return above.key_by(*key).window(size, advance).aggregate("lower", **wanted, known=hr.sum("known"), **more)


def both_ways(query, **options):
    found = query.to_arrow(**(GATE | options))
    assert found.equals(query.to_arrow(passing="collector"))
    return found


def expected(tables, key):
    upper = {"n": ("count", None), "least": ("min", "v"), "known": ("count", "v")}
    lower = {
        "n": ("sum", "n"), "rows": ("count", None), "least": ("min", "least"), "different": ("distinct", "least"),
        "known": ("sum", "known"),
    }  # fmt: skip
    parts = reference.columns(*map(reference.column, COLUMNS))
    found = reference.aggregate(payloads(tables), FIRST, parts, upper)
    again = [(row.ts, {**dict(zip(COLUMNS, row.key, strict=True)), **row.values}) for row in found]
    behind = reference.columns(*map(reference.column, key)) if len(key) > 1 else reference.column(*key)
    rows = reference.aggregate([again], SECOND, behind, lower)
    parts = [row.key if len(key) > 1 else (row.key,) for row in rows]
    return [{"ts": r.ts, **dict(zip(key, p, strict=True)), **r.values} for r, p in zip(rows, parts, strict=True)]


@pytest.mark.logic
@pytest.mark.parametrize("key", BEHIND, ids="-".join)
def test_oracle_keys_of_some_of_the_columns(key):
    for seed in range(examples(3)):
        draw = random.Random(seed)
        tables = [table(seed=seed), table(seed=seed + 10)][: draw.randint(1, 2)]
        query = lower(upper(stream(draw, tables)), key)
        check_rows(query.to_arrow(**GATE, **options_of(draw, 90)), expected(tables, key), {"rows": pa.int64()})


@pytest.mark.logic
def test_agree_with_channels_of_their_own_and_three_in_a_row():
    above = upper(table(150, span=400))
    query = lower(above, ("house", "room"))
    assert both_ways(query, channel="reader", threads=3).num_rows > 100
    third = query.key_by("room").window(96).aggregate("third", n=hr.sum("n"), most=hr.max("rows"))
    fourth = third.key_by("room").window(192).aggregate("fourth", n=hr.sum("n"), latest=hr.last("most"))
    assert both_ways(fourth, threads=2).num_rows > 5
    with fourth.start(threads=2) as run:
        assert run.wait(HANG_S)
        check_end(run.metrics(), rows=150)
        assert [run[name].takes.split(":")[0] for name in ("lower", "third", "fourth")] == ["gate"] * 3
        assert set(run["third"].hot_keys(3)["room"]) <= {0, 1, 2}


@pytest.mark.logic
def test_agree_a_key_in_another_order_has_no_ties():
    """All columns of the key make one again, of which no two results have one time: what depends on their order may follow."""
    query = lower(upper(table(200, span=300)), ("plug", "house", "room"), firsts=hr.collect_list("least"), last=hr.last("n"))
    both_ways(query, threads=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.campaign)])
def test_agree_while_both_operators_are_reconfigured(seed):
    draw = random.Random(seed)
    given = [table(15_000, seed, span=30_000, names=40), table(15_000, seed + 100, span=30_000, names=40)]
    expected = lower(upper(given), ("room",)).to_arrow(passing="collector")
    inputs = [Steered(each, [50] * 300) for each in given]
    with lower(upper(inputs), ("room",)).start(threads=2, max_threads=4, **GATE) as run:
        last = changed_and_watched(run, inputs, draw)
    check_end(last, rows=30_000)
    assert run.to_arrow().equals(expected)


# -- keys that come and go ------------------------------------------------------------------------------


def come_and_go():
    """Keys live for a while, come back later, and share their houses with others, which come back at other times."""
    ts = list(range(0, 60_000, 3))
    return pa.table({
        "ts": ts,
        "house": [f"h{t // 900 % 37}" for t in ts],
        "room": [t // 300 % 61 * 20 + t % 20 for t in ts],
        "v": [t % 1_000 for t in ts],
    })  # fmt: skip


@pytest.mark.parametrize("key", [("house",), ("room",), ("room", "house")], ids="-".join)
@pytest.mark.slow
def test_agree_keys_that_come_and_go(monkeypatch, key):
    monkeypatch.setattr(keys, "_LEAST_RECYCLED", 16)
    above = hr.stream(come_and_go(), event_time="ts", batch_rows=64)
    query = lower(upper(above, 60, 30, key=("house", "room")), key, 600, 300)
    assert both_ways(query, threads=2, max_keys=1_500).num_rows > 100


@pytest.mark.slow
def test_too_many_keys_behind_are_an_error():
    many = pa.table({"ts": range(5_000), "house": [str(i) for i in range(5_000)], "room": range(5_000), "v": range(5_000)})
    with pytest.raises(OverflowInputError, match="max_keys"):
        lower(upper(many, 6, 3, key=("house", "room")), ("room",), 24_000, 12_000).to_arrow(**GATE, max_keys=1_000)


# -- by itself ------------------------------------------------------------------------------------------


def pair_of_dictionaries(limit=64):
    before, behind = KeyDictionary(("string", "int"), 1, limit), KeyDictionary(("int",), 1, limit)
    return before, behind, PassedKeys(before, behind, [1], [pa.int64()], 1 << 20)


def come(before, passed, given, ts):
    """Keys of tuples of one time, as an encoder and its section have them."""
    ids = before.encode(pa.array([text for text, _ in given]), pa.array([number for _, number in given]))
    before.touch(ids, np.full(ids.size, ts))
    return ids, passed.note(ids)


def numbers_behind(behind, found):
    return behind.decode(found)[0].to_pylist()


def check_recycled(in_which):
    before, behind, passed = pair_of_dictionaries()
    ids, found = come(before, passed, [("a", 1), ("b", 2), ("c", 1)], 10)
    assert numbers_behind(behind, found) == [1, 2, 1] and found[0] == found[2]
    come(before, passed, [("a", 1)], 50)
    if in_which == "before":  # b and c go, and their ids are other keys'
        assert before.recycle(40) == 2
        given = [(f"x{i}", 100 + i) for i in range(60)]
    else:  # of numbers only 2 goes, as 1 came with another key meanwhile
        assert behind.recycle(40) == 1
        behind.encode(pa.array([2_000 + i for i in range(60)]))
        given = [("b", 2), ("c", 1), ("a", 1)]
    ids, found = come(before, passed, given, 60)
    assert numbers_behind(behind, passed.ids[ids]) == [number for _, number in given], "ids of other keys"


@pytest.mark.parametrize("in_which", ["before", "behind"])
def test_example_ids_that_were_recycled(in_which):
    check_recycled(in_which)


@pytest.mark.parametrize("in_which", ["before", "behind"])
def test_planted_ids_that_are_kept_though_they_are_another_keys(monkeypatch, in_which):
    monkeypatch.setattr(PassedKeys, f"_forget_{in_which}", lambda self, recycled: None)
    with pytest.raises(AssertionError, match="ids of other keys"):
        check_recycled(in_which)


def test_example_room_is_made_behind_and_never_of_what_comes():
    """Of one key that is there and comes again, and one for which there is no room, the former stays."""
    before, behind, passed = pair_of_dictionaries(limit=8)
    come(before, passed, [(f"x{i}", i) for i in range(8)], 10)
    before.recycle(20)
    behind.expire(20)
    _, found = come(before, passed, [("x", 3), ("y", 100)], 30)
    assert numbers_behind(behind, found) == [3, 100] and behind.size == 2


def test_planted_keys_that_expire_too_early_behind(monkeypatch):
    """A key behind is in windows behind for as long as these are, after those before have ended."""
    now, kept = threading.local(), {}
    expire, release = KeyDictionary.expire, ElasticSection.release

    def noted(self, horizon):
        kept.setdefault(len(self.kinds), set()).add(now.watermark + 1 - horizon)
        return expire(self, horizon)

    def at(self, watermark):
        now.watermark = watermark
        return release(self, watermark)

    monkeypatch.setattr(KeyDictionary, "expire", noted)
    monkeypatch.setattr(ElasticSection, "release", at)
    query = lower(upper(come_and_go(), 60, 30, key=("house", "room")), ("room",), 600, 300)

    def kept_for():
        """How long behind a watermark the keys of either operator are kept."""
        kept.clear()
        query.to_arrow(**GATE)
        return kept

    assert kept_for() == {2: {60}, 1: {660}}
    monkeypatch.setattr(ElasticSection, "_keys_last", lambda self: self.compiled.window_size)
    assert kept_for() == {2: {60}, 1: {600}}
