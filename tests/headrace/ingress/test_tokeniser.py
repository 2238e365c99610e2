"""The tokeniser against ``str.split()``.

Property    words, hashtags and pairs of any text are those of plain Python.
Oracle      str.split(), list comprehensions.
Cannot see  Text that is not valid UTF-8: readers refuse it before.
"""

import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import SchemaError
from headrace.ingress import tokeniser

SPACES = [chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000 and chr(c).isspace()]
# Characters whose UTF-8 shares bytes with white space.
NEAR = list(
    "\x00\x08\x0e\x1b!#a\x7f\x84\x86\x9f\xa1\u1681\u167f\u2001\u200b\u2027\u202a\u2030\u205e\u2060\u2fff\u3001\u0f80\U00012000"
)

texts = st.text() | st.lists(st.sampled_from(SPACES + NEAR), max_size=30).map("".join)


def hashtags_of(text):
    return [word[1:] for word in text.split() if word[0] == "#" and len(word) > 1]


@settings(max_examples=120, deadline=None)
@given(st.lists(texts, max_size=8), st.sampled_from([pa.string(), pa.large_string(), pa.string_view()]))
def test_oracle_split(batch, kind):
    array = pa.array(batch, kind)
    assert tokeniser.words(array).to_pylist() == [text.split() for text in batch]
    assert tokeniser.hashtags(array).to_pylist() == [hashtags_of(text) for text in batch]


def test_example_every_code_point_between_two_letters():
    points = [chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000]
    batch = [f"a{''.join(points[i : i + 1])}b" for i in range(len(points))]
    found = tokeniser.words(pa.array(batch))
    counts = np.diff(found.offsets.to_numpy())
    assert [points[i] for i in np.flatnonzero(counts == 2)] == [
        c for c in points if len(f"a{c}b".split()) == 2
    ]
    assert set(counts.tolist()) == {1, 2}
    assert len(SPACES) == 29


def test_example_white_space_cut_off_at_the_end_of_a_buffer():
    #     a E2 80 | A8    the text ends inside of what would be U+2028
    data = pa.py_buffer("a\u2028".encode())
    cut = pa.Array.from_buffers(pa.large_binary(), 1, [None, pa.py_buffer(np.array([0, 3])), data])
    text = pa.Array.from_buffers(pa.large_string(), 1, cut.buffers())
    starts_ends = tokeniser.find_spans(text)
    assert (starts_ends[1].tolist(), starts_ends[2].tolist()) == ([0], [3])


def test_example_sliced_null_and_dictionary_columns():
    array = pa.array(["x y", "a #b", None, "", "c d e"])
    assert tokeniser.words(array[1:4]).to_pylist() == [["a", "#b"], [], []]
    assert tokeniser.words(array.dictionary_encode()).to_pylist() == [
        ["x", "y"],
        ["a", "#b"],
        [],
        [],
        ["c", "d", "e"],
    ]
    assert tokeniser.words(pa.chunked_array([array[:2], array[3:]])).to_pylist()[-1] == ["c", "d", "e"]
    assert tokeniser.words(pa.array([], pa.string())).to_pylist() == []
    with pytest.raises(SchemaError, match="int64, not string"):
        tokeniser.words(pa.array([1]))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 5), max_size=12), max_size=5), st.none() | st.integers(1, 15))
def test_oracle_pairs(rows, distance):
    ids = np.array([word for row in rows for word in row], np.int32)
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int32)
    pairs, bounds = tokeniser.pairs(ids, offsets, distance)
    expected = [
        [
            [row[i], row[j]]
            for i in range(len(row))
            for j in range(i + 1, len(row))
            if distance is None or j - i <= distance
        ]
        for row in rows
    ]
    assert [pairs[bounds[i] : bounds[i + 1]].tolist() for i in range(len(rows))] == expected
