"""Rows that are watermarks are few to remember, however long a stream is, and rows of tuples are named right.

Property    the name of a row is its number among all rows, or says that it is not
Oracle      the numbers themselves, as a list
Cannot see  what is done with watermarks: tests/headrace/runtime/test_watermarks.py
"""

import random

import pyarrow as pa
import pytest

from headrace.ingress import watermarks
from headrace.ingress.readers import open_input
from headrace.progress import Watermark

FEW = 4


def drawn(seed, count=200):
    """A table of which some rows are watermarks, and the numbers of those that are not."""
    draw = random.Random(seed)
    done = [draw.random() < 0.4 for _ in range(count)]
    return pa.table({"ts": list(range(count)), "done": done}), [row for row, mark in enumerate(done) if not mark]


def read(seed):
    """A reader that has been read to its end, and the numbers of the tuples' rows."""
    table, rows = drawn(seed)
    reader = watermarks.with_watermarks(open_input(table), "ts", "done")
    tuples = [ts for item in reader if not isinstance(item, Watermark) for ts in item["ts"].to_pylist()]
    assert tuples == rows
    return reader, rows


def assert_named(seed):
    reader, rows = read(seed)
    names = [reader.row_name(number) for number in range(len(rows))]
    unknown = [name for name in names if not name.isdecimal()]
    assert unknown == [f"{number}, watermarks not counted" for number in range(len(unknown))]
    assert names[len(unknown) :] == [str(row) for row in rows[len(unknown) :]]
    behind = sum(mark > rows[len(unknown)] for mark in set(range(200)) - set(rows))
    assert unknown and behind < 2 * FEW


@pytest.mark.parametrize("seed", range(5))
def test_oracle_the_newest_rows_are_named_by_their_numbers(seed, monkeypatch):
    monkeypatch.setattr(watermarks, "_PLACES", FEW)
    assert_named(seed)


def test_oracle_all_rows_are_while_there_are_few():
    reader, rows = read(9)
    assert [reader.row_name(number) for number in range(len(rows))] == [str(row) for row in rows]


def test_planted_those_forgotten_are_not_counted(monkeypatch):
    monkeypatch.setattr(watermarks, "_PLACES", FEW)

    def add(self, tuples):
        forgotten, _, newest = self._known
        newest.append(tuples)
        if len(newest) == 2 * FEW:
            self._known = forgotten, newest[FEW - 1], newest[FEW:]

    monkeypatch.setattr(watermarks._Places, "add", add)
    with pytest.raises(AssertionError, match=r"assert \['"):
        assert_named(0)


def test_example_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(watermarks, "_PLACES", FEW)
    places = watermarks._Places()
    for tuples in range(1_000):
        places.add(tuples)
        assert len(places._known[2]) < 2 * FEW
    assert places.count == 1_000
