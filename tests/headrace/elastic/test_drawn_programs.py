"""Drawn functions over strings, lists, sets and maps, as custom operators of a run.

Property    whatever a function does with its containers, a run gives the rows, bit for bit, that plain Python gives, for
            any threads, mode, gate and planned changes; where plain Python raises, the run fails with the same error
            at the same line of the user's, on one thread, and fails on several
Oracle      `headrace.reference.operator` with the same text
Programs    `support.drawn_programs`; all fields of `support.kept_values`; interpreted: the text that the rewriting
            writes, with the operator's own text around it
Cannot see  what compiled code makes of such a text: tests/headrace/codegen/test_kept.py; which of several errors of
            different keys comes first on several threads
"""

import random
import traceback

import pyarrow as pa
import pytest

import headrace as hr
from headrace import reference
from headrace.elastic.custom import compiled as compiled_custom
from headrace.elastic.shared_nothing import transfer
from headrace.errors import FunctionError
from headrace.windows import Window
from support.drawn import stream
from support.drawn_programs import Programs, made
from support.kept_values import EMITS, KINDS, drawn_tuple
from support.workloads import bits

SCHEMA = pa.schema({
    "ts": pa.int64(), "k": pa.int64(), "i": pa.int64(), "j": pa.int64(), "f": pa.float64(), "w": pa.string(), "v": pa.string(),
})  # fmt: skip
IN_PASSING = "temporary lists: use fewer"
"""A drawn function may ask for more of them at once than there is room for; it is refused before the run."""


def tells(key, state, emit):
    emit(state.n + key, state.last, state.xs, sorted(state.ss), state.ms)


def by_name(function):
    """The same function where `emit` takes names only, as the reference's does."""

    def called(first, second, emit):
        function(first, second, lambda *values: emit(**dict(zip(EMITS, values, strict=True))))

    return called


def plain(value):
    """Lists and maps as tuples, with their lengths, so that all that is in them is compared by its bits."""
    if isinstance(value, dict):
        value = list(value.items())
    return [f"of {len(value)}", *(part for one in value for part in plain(one))] if isinstance(value, list | tuple) else [value]


def error_of(error, name):
    """The type of an error, and the last line of a drawn function that it came through."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == f"<{name}>"]
    return type(error).__name__, lines[-1]


def case(seed):
    """A function, sources, a window, and how the run goes."""
    draw = random.Random(seed)
    name = f"in_a_run_{seed}"
    function = made(Programs(seed).function(name), name)
    drawn = [
        sorted(
            ((draw.randint(-9, 20), {"k": draw.randint(0, 4), **drawn_tuple(draw)}) for _ in range(draw.choice([0, 6, 25]))),
            key=lambda row: row[0],
        )
        for _ in range(draw.randint(1, 2))
    ]
    advance = draw.randint(2, 9)
    window = Window(draw.choice([advance, 2 * advance]), advance)
    changes = [(at, draw.randint(1, 4)) for at in sorted(draw.sample(range(30), 2))]
    options = {
        "threads": draw.randint(1, 4), "max_threads": 4, "reconfigure": changes,
        "mode": draw.choice(["vsn", "sn"]), "gate": draw.choice(["log", "scalegate"]),
    }  # fmt: skip
    return name, function, drawn, window, options


def check(seed):
    """Run one case. Returns the error that plain Python raises, or None."""
    name, function, drawn, window, options = case(seed)
    operator = hr.operator(state=KINDS, emits=EMITS, update=function, output=tells)
    query = stream(drawn, SCHEMA).key_by("k").window(window.size, window.advance).apply(operator)
    try:
        found = reference.operator(
            [drawn], window, reference.column("k"), state=KINDS, update=by_name(function), output=by_name(tells)
        )
        expected = [bits(plain([row.ts, row.key, *row.values.values()])) for row in found]
    except Exception as error:
        kind, line = error_of(error, name)
        one = {**options, "threads": 1, "reconfigure": []}
        with pytest.raises(FunctionError, match=kind) as caught:
            query.to_arrow(**one)
        assert caught.value.line == line
        with pytest.raises(FunctionError):
            query.to_arrow(**options)
        return kind
    rows = [bits(plain(list(row.values()))) for row in query.to_arrow(**options).to_pylist()]
    assert rows == expected, f"rows of program {seed}"
    return None


def check_all(seeds):
    errors = []
    for seed in seeds:
        try:
            errors.append(check(seed))
        except FunctionError as error:
            assert IN_PASSING in str(error)
    return errors


@pytest.mark.slow
@pytest.mark.interpreted
def test_oracle_drawn_programs_in_a_run():
    errors = check_all(range(24))
    assert errors.count(None) > 12 and len(set(errors)) > 2


@pytest.mark.campaign
@pytest.mark.interpreted
def test_campaign_drawn_programs_in_a_run():
    check_all([*range(24, 60), *range(10_000, 11_000)])


def blocks_are_kept_from_the_window_before(monkeypatch):
    """A place is used again with what was in it."""
    generate = compiled_custom.generate

    def forgetful(shape):
        text = generate(shape)
        given_back = "from headrace.memory.arena import release"
        assert given_back in text
        return text.replace(given_back, "@kernel\ndef release(free, arena, lists, heads, at):\n    pass\n\n")

    monkeypatch.setattr(compiled_custom, "generate", forgetful)


def containers_are_left_behind(monkeypatch):
    """Sharing nothing, a key's new owner begins with none."""
    monkeypatch.setattr(transfer, "_CONTAINER", "pass\n# {heads}{kernel}{width}")


@pytest.mark.slow
@pytest.mark.interpreted
@pytest.mark.parametrize("mistake", [blocks_are_kept_from_the_window_before, containers_are_left_behind])
def test_planted_mistakes_are_found(mistake, monkeypatch):
    mistake(monkeypatch)
    with pytest.raises(AssertionError, match="rows of program"):
        check_all(range(60))
