"""What tests of wrong use share: an error is one line with the words that help; the engine works afterwards."""

import contextlib

import pyarrow as pa
import pytest

import headrace as hr

GOOD = pa.table({"ts": [1, 2, 12], "k": ["a", "b", "a"], "v": [1, 2, 3]})


def counts(source, size=10, advance=None, event_time="ts", key="k", **options):
    return hr.stream(source, event_time=event_time, **options).key_by(key).window(size, advance).aggregate(n=hr.count())


@pytest.fixture(autouse=True)
def engine_works_afterwards():
    yield
    assert counts(GOOD).to_arrow(threads=2).to_pydict() == {"ts": [10, 10, 20], "k": ["a", "b", "a"], "n": [1, 1, 1]}


@contextlib.contextmanager
def fails(kind, *words):
    """Expect an error of this documented kind with one line that contains all these words."""
    with pytest.raises(kind) as caught:
        yield
    text = str(caught.value)
    assert "\n" not in text, f"more than one line: {text!r}"
    for word in words:
        assert str(word) in text, f"{word!r} is not in {text!r}"
