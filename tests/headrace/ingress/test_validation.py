"""Validation of batches: what Arrow finds in the whole is found in a slice, and nothing else.

Property    of the slices of an array, some are refused if and only if Arrow
            refuses the whole: bad offsets, bytes that are not UTF-8, dictionary
            indices out of bounds, in lists and lists of lists too, under nulls,
            whatever was validated before
Oracle      ``pyarrow``'s ``validate(full=True)``
Cannot see  what it costs: it must go with the rows of a slice, a benchmark
"""

import itertools
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from headrace.ingress import validation
from headrace.ingress.validation import Validator
from planted_mistakes import planted


def strings(draw, count, large=False):
    texts = [draw.choice(["", "a", "é", "日本", "longer text"]).encode() for _ in range(count)]
    offsets = np.concatenate(([0], np.cumsum([len(text) for text in texts]))).astype(np.int64 if large else np.int32)
    data = bytearray(b"".join(texts))
    if data and draw.random() < 0.4:
        data[draw.randrange(len(data))] = draw.choice([0xFF, 0xC3, 0x41])
    if count > 1 and draw.random() < 0.3:
        offsets[draw.randrange(1, count)] += draw.choice([-1, 1, 100])  # the ends are checked when an array is made
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(bytes(data))]
    return pa.Array.from_buffers(pa.large_string() if large else pa.string(), count, buffers)


def coded(draw, count):
    dictionary = strings(draw, draw.randrange(1, 5))
    indices = np.array([draw.randrange(len(dictionary)) for _ in range(count)], np.int32)
    if count and draw.random() < 0.4:
        indices[draw.randrange(count)] = draw.choice([-1, len(dictionary), 10**6])
    indices = pa.array(indices, mask=np.array([draw.random() < 0.2 for _ in indices], bool))
    return pa.DictionaryArray.from_arrays(indices, dictionary, safe=False)


def lists(draw, count, inner):
    lengths = [draw.choice([0, 1, 3]) for _ in range(count)]
    is_large = draw.random() < 0.3
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64 if is_large else np.int32)
    values = inner(draw, int(offsets[-1]))
    if count > 1 and draw.random() < 0.3:
        offsets[draw.randrange(1, count)] += draw.choice([-2, 1, 50])
    valid = None
    if draw.random() < 0.3:
        valid = np.array([draw.random() < 0.8 for _ in range(count)], bool)
        valid = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    kind = pa.large_list(values.type) if is_large else pa.list_(values.type)
    return pa.Array.from_buffers(kind, count, [valid, pa.py_buffer(offsets)], children=[values])


KINDS = {
    "texts": strings,
    "long texts": lambda draw, count: strings(draw, count, large=True),
    "coded": coded,
    "lists of texts": lambda draw, count: lists(draw, count, strings),
    "lists of coded": lambda draw, count: lists(draw, count, coded),
    "lists of lists": lambda draw, count: lists(draw, count, lambda d, n: lists(d, n, strings)),
}


def refuses(check):
    try:
        check()
    except pa.ArrowInvalid:
        return True
    return False


def slices_agree(kind, seed):
    draw = random.Random(seed)
    array = KINDS[kind](draw, draw.randrange(0, 9))
    whole = pa.record_batch([array], ["x"])
    wanted = refuses(lambda: whole.validate(full=True))
    assert refuses(lambda: Validator().check(whole)) == wanted, f"the whole is not valid: {wanted}"
    cuts = sorted({0, len(array), *(draw.randrange(len(array) + 1) for _ in range(3))})
    parts = [whole.slice(a, b - a) for a, b in itertools.pairwise(cuts)]
    if parts:
        validator = Validator()  # one for all: what it knows of a slice must not hide a fault of the next
        found = [refuses(lambda p=part: validator.check(p)) for part in parts]
        assert any(found) == wanted, f"slices refused: {any(found)}, the whole: {wanted}"


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=120, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_oracle_slices(kind, seed):
    slices_agree(kind, seed)


def test_example_another_dictionary_is_looked_through():
    """Same indices, another dictionary, at each batch."""
    validator = Validator()
    bad = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff")]
    )
    for entries, is_bad in ((pa.array(["a"]), False), (pa.array(["b"]), False), (bad, True)):
        array = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int8()), entries)
        refused = refuses(lambda a=array: validator.check(pa.record_batch([a], ["x"])))
        assert refused == is_bad, f"{entries}: refused is {refused}"


UNNOTICED = "the whole is not valid: True"


@pytest.mark.parametrize(
    "text, mistake, expected",
    [
        ("    layout.validate(full=True)\n", "", UNNOTICED),
        ("0 <= least <= most < len(dictionary)", "least <= most < len(dictionary)", UNNOTICED),
        ("0 <= least <= most < len(dictionary)", "0 <= least <= most <= len(dictionary)", UNNOTICED),
        ("values.slice(first, last - first)", "values.slice(first, last - first - 1)", f"{UNNOTICED}|Length must be"),
        ("        dictionary.validate(full=True)\n", "", UNNOTICED),
        ("        array.validate(full=True)\n", "        array.validate()\n", UNNOTICED),
    ],
)
def test_planted_mistakes_are_found(text, mistake, expected):
    @settings(max_examples=600, phases=[Phase.generate], database=None, derandomize=True, deadline=None)
    @given(kind=st.sampled_from(sorted(KINDS)), seed=st.integers(0, 2**32))
    def check(kind, seed):
        slices_agree(kind, seed)

    with planted(validation, text, mistake), pytest.raises((AssertionError, ValueError), match=expected):
        check()


def test_planted_mistake_of_remembering_is_found():
    mistake = planted(validation, "known is None or not is_same_memory(known, dictionary)", "known is None")
    with mistake, pytest.raises(AssertionError, match="refused is False"):
        test_example_another_dictionary_is_looked_through()
