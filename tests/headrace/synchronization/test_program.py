"""What a program is, and what is refused of one.

Property    what can be meant is read as it was said; everything else is an error of one line that names it and the fix
Oracle      by hand; of the parts of keys, the definition of the hash written out again with Python's integers
Cannot see  whether functions compile, and whether a program is consistent
"""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import ArgumentError, NotSupportedError, ParameterError, SchemaError, UnknownNameError
from headrace.synchronization.definition import dependent, independent
from headrace.synchronization.tags import ImplementationTag, TagSet, part_of
from support.event_window import WINDOW, add, close, merge, split

INC, RESET = hr.tag("inc", by="key", parts=8), hr.tag("reset", by="key", parts=8)
COUNTER = {
    "tags": {INC: {"key": "int64"}, RESET: {"key": "int64"}, "stop": {}},
    "depends": [("inc", "reset"), ("reset", "reset"), ("stop", "inc")],
    "emits": {"count": "int64"},
    "update": {"inc": add, "reset": close, "stop": close},
}


def made(base=WINDOW, **changed):
    return hr.program(**{**base, **changed})


def test_example_what_was_said():
    window = made(name="window")
    assert window.name == "window"
    assert list(window.tags) == ["value", "barrier"]
    assert window.tags["value"].columns == {"x": "int64"}
    assert (window.tags["value"].by, window.tags["value"].parts) == (None, 1)
    assert {name: field.kind for name, field in window.state.items()} == {"sum": "int64"}
    assert (window.update, window.fork, window.join) == ({"value": add, "barrier": close}, split, merge)


def test_example_what_functions_read_of_an_event_is_said(capsys):
    def late(state, e, emit):
        state.sum += e.x * e.ts

    tables = {"value": pa.table({"ts": [1], "x": [2]}), "barrier": pa.table({"ts": [3]})}
    made(update={"value": late, "barrier": close}).over(tables).explain()
    said = capsys.readouterr().out
    assert "value: reads ts, x\n" in said and "barrier: reads no column\n" in said


def test_example_dependence_is_completed_and_said():
    window = made()
    assert window.completed == (("value", "barrier"),)
    assert window.depends("value", "barrier") and window.depends("barrier", "value") and window.depends("barrier", "barrier")
    assert not window.depends("value", "value")
    assert "value on barrier too, since dependence is symmetric" in repr(window)
    assert made(depends=[("barrier", "value"), ("value", "barrier")]).completed == ()


def test_example_a_function_is_completed_too():
    one_way = made(depends=lambda a, b: a.name == "barrier")
    assert one_way.completed == (("value", "barrier"),)
    assert one_way.depends("value", "barrier")


def test_example_keys_depend_within_their_part():
    counter = made(COUNTER)
    inc, same, other, reset, stop = (
        ImplementationTag(*one) for one in [("inc", 3, 0), ("inc", 3, 1), ("inc", 4, 0), ("reset", 3, 0), ("stop", 0, 0)]
    )
    assert dependent(counter, inc, reset) and dependent(counter, reset, same)
    assert independent(counter, other, reset) and independent(counter, inc, same)
    # With a tag that has no key, all parts.
    assert dependent(counter, stop, inc) and dependent(counter, other, stop)
    assert independent(counter, stop, reset)


@pytest.mark.parametrize(
    "pairs",
    [
        [("inc", "reset"), ("reset", "reset"), ("stop", "inc")],
        [],
        [("stop", "stop")],
        [("inc", "inc"), ("stop", "reset")],
    ],
)
def test_example_pairs_and_a_function_say_the_same(pairs):
    either = {*pairs, *((b, a) for a, b in pairs)}

    def depends(a, b):
        return (a.name, b.name) in either and ("stop" in (a.name, b.name) or a.part == b.part)

    by_pairs, by_function = made(COUNTER, depends=pairs), made(COUNTER, depends=depends)
    assert by_pairs.dependence == by_function.dependence


def test_example_a_function_can_say_that_all_parts_depend():
    counter = made(COUNTER, depends=lambda a, b: "reset" in (a.name, b.name))
    assert counter.depends("inc", "reset", same_part=False)


@pytest.mark.parametrize(
    "depends",
    [
        lambda a, b: "reset" in (a, b) or (a == "stop" and b != "stop"),
        lambda a, b: a in {"reset"} or b in {"reset": 1} or (a, b) == ("stop", "inc"),
        lambda a, b: {a, b} & {"reset"} != set() or (a, b) in {("stop", "inc")},
        lambda a, b: RESET in (a, b) or (a.name, b.name) == ("stop", "inc"),
        lambda a, b: a in {RESET} or b in {RESET} or np.bool_(a.name == "stop" and b == INC),
    ],
)
def test_agree_a_tag_is_its_name_to_a_function(depends):
    def by_names(a, b):
        return "reset" in (a.name, b.name) or (a.name, b.name) == ("stop", "inc")

    assert made(COUNTER, depends=depends).dependence == made(COUNTER, depends=by_names).dependence


def test_example_equal_tags_are_of_one_part():
    by_pairs = made(COUNTER, depends=[("inc", "inc"), ("reset", "reset"), ("stop", "stop")])
    for depends in (lambda a, b: a == b, lambda a, b: len({a, b}) == 1, lambda a, b: (a != b) is False):
        assert made(COUNTER, depends=depends).dependence == by_pairs.dependence


@pytest.mark.parametrize(
    ("depends", "words"),
    [
        (lambda a, b: None, ["depends: asked for value and value, it returned None", "return True"]),
        (lambda a, b: int(a == b), ["asked for value and value, it returned 1;"]),
        (lambda a, b: b == "barrier" and {a.name}, ["asked for value and barrier, it returned {'value'};"]),
        (lambda a, b: a.nam == "barrier", ["failed with AttributeError:", "'nam'; what", ".name and .part"]),
        (
            lambda a, b: a == ("barrier", 0),
            ["failed with TypeError: ('barrier', 0) is not a tag", "compare with the name of a tag"],
        ),
    ],
)
def test_example_functions_that_answer_nothing(depends, words):
    with pytest.raises(ParameterError, match="^depends: asked for") as raised:
        made(depends=depends)
    assert "\n" not in str(raised.value)
    for word in words:
        assert word in str(raised.value)


def test_example_the_parts_and_the_cause_of_a_function_that_failed_are_named():
    with pytest.raises(ParameterError, match=r"asked for inc \(part 0\) and inc \(part 0\), it failed with ZeroDiv") as raised:
        made(COUNTER, depends=lambda a, b: 1 / a.part)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("changed", "kind", "words"),
    [
        ({"tags": {}}, ParameterError, ["tags={}", "give a dict"]),
        ({"tags": {"value": ["x"], "barrier": {}}}, ParameterError, ["value=['x']", "kinds"]),
        ({"tags": {"a tag": {}}}, ParameterError, ["'a tag'", "name"]),
        ({"tags": {"value": {"x": "int46"}, "barrier": {}}}, ParameterError, ["value", "x='int46'", "the kinds are int64"]),
        ({"tags": {"value": {"x": hr.list_of("int64")}, "barrier": {}}}, ParameterError, ["no function can read"]),
        ({"tags": {"value": {"class": "int64"}, "barrier": {}}}, ParameterError, ["value: 'class'", "rename the column"]),
        ({"tags": {"value": {"two words": "int64"}, "barrier": {}}}, ParameterError, ["'two words'", "rename"]),
        ({"tags": {"value": {"ts": "int64"}, "barrier": {}}}, ParameterError, ["'ts' is the event time", "e.ts"]),
        ({"tags": {"value": {}, hr.tag("value", by="k"): {"k": "int64"}}}, ParameterError, ["'value' is there twice"]),
        (
            {"tags": {hr.tag("value", by="k"): {"key": "int64"}, "barrier": {}}},
            UnknownNameError,
            ["'k' is not a column of the tag", "'key'"],
        ),
        ({"tags": {hr.tag("value", by="x"): {"x": "float64"}, "barrier": {}}}, ParameterError, ["'x' is float64", "integer"]),
        ({"update": {"value": add}}, ParameterError, ["tag 'barrier' has no function", "f(state, e, emit)"]),
        ({"update": {"value": add, "barrier": close, "barier": close}}, UnknownNameError, ["no tag 'barier'", "mean 'barrier'"]),
        ({"update": [add, close]}, ParameterError, ["give a dict"]),
        ({"update": {"value": add, "barrier": "close"}}, ParameterError, ["update: barrier='close'", "give a function"]),
        ({"update": {"value": add, "barrier": merge}}, ParameterError, ["update: barrier", "merge must take (state, e, emit)"]),
        ({"depends": [("barrier", "values")]}, UnknownNameError, ["no tag 'values'", "mean 'value'"]),
        ({"depends": ["ab"]}, ParameterError, ["'ab' is not a pair"]),
        ({"depends": "barrier"}, ParameterError, ["depends='barrier'", "list of pairs"]),
        ({"depends": [("barrier", "value", "value")]}, ParameterError, ["is not a pair"]),
        ({"depends": lambda a: True}, ParameterError, ["depends: <lambda> must take (a, b)"]),
        ({"join": None}, ParameterError, ["without join=", "give both"]),
        ({"fork": None}, ParameterError, ["without fork=", "give both"]),
        ({"fork": merge}, ParameterError, ["fork: merge must take (state, left, right, tags_left, tags_right)"]),
        ({"join": split}, ParameterError, ["join: split must take (into, other)"]),
        ({"state": {"sum": "int46"}}, ParameterError, ["state: sum='int46'"]),
        ({"emits": {}}, ParameterError, ["what it emits"]),
        ({"emits": {"ts": "int64"}}, ParameterError, ["'ts' is the event time"]),
        ({"emits": {"sums": hr.list_of("int64")}}, NotSupportedError, ["emit them one by one"]),
        ({"name": "a window"}, ParameterError, ["name='a window'"]),
        ({"depend": []}, ArgumentError, ["did you mean depends=?"]),
    ],
)  # fmt: skip
def test_example_bad_programs(changed, kind, words):
    with pytest.raises(kind) as raised:
        made(**changed)
    assert "\n" not in str(raised.value)
    for word in words:
        assert word in str(raised.value)


def test_example_parts_that_have_nothing_in_common():
    tags = {INC: {"key": "int64"}, hr.tag("reset", by="key", parts=4): {"key": "int64"}, "stop": {}}
    with pytest.raises(ParameterError, match="inc has 8 parts and reset has 4"):
        made(COUNTER, tags=tags)
    assert made(COUNTER, tags=tags, depends=[("stop", "inc")]).depends("stop", "inc")
    tags = {INC: {"key": "int64"}, RESET: {"key": "string"}, "stop": {}}
    with pytest.raises(ParameterError, match="the key of inc is int64 and that of reset is string"):
        made(COUNTER, tags=tags)


def test_example_a_function_may_only_compare_parts():
    with pytest.raises(ParameterError, match="a function may only compare parts"):
        made(COUNTER, depends=lambda a, b: a.part < b.part)
    with pytest.raises(ParameterError, match="a function may only compare parts"):
        made(COUNTER, depends=lambda a, b: a.name == "stop" and b.part == 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "in c", "by": "key"}, "give a name"),
        ({"name": "inc", "parts": 4}, "give by= too"),
        ({"name": "inc", "by": ["key"]}, "one column"),
        ({"name": "inc", "by": "key", "parts": 0}, "from 1 to 65,536"),
        ({"name": "inc", "by": "key", "parts": True}, "from 1 to 65,536"),
    ],
)
def test_example_bad_tags(arguments, words):
    with pytest.raises(ParameterError, match=words):
        hr.tag(**arguments)


# -- parts ----------------------------------------------------------------------------------------------------


def by_hand(key, parts):
    """The definition in `headrace.ingress.hashing`, in Python's integers."""
    p1, p2, p3, full = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 2**64 - 1

    def mix(word, n):
        h = (word + n * p1) * p2 & full
        h ^= h >> 32
        h = h * p3 & full
        return h ^ h >> 29

    def turn(h, word):
        h = (h ^ word * p2) & full
        return (h << 29 | h >> 35) * p3 & full

    if isinstance(key, int):
        return mix(key & full, 8) % parts
    data = key.encode()
    n = len(data)
    if n <= 8:
        return mix(int.from_bytes(data, "little"), n) % parts
    h = n * p1 & full
    for at in [*range(0, n - 8, 8), n - 8]:
        h = turn(h, int.from_bytes(data[at : at + 8], "little"))
    return mix(h, n) % parts


KEYS = [0, 1, -1, 7, 2**63 - 1, -(2**63), True, "", "a", "12345678", "123456789", "ä" * 5, "longer than two words"]


@pytest.mark.parametrize("key", KEYS)
def test_oracle_the_part_of_a_key(key):
    assert [part_of(key, parts) for parts in (1, 2, 64, 999)] == [by_hand(key, parts) for parts in (1, 2, 64, 999)]


@settings(max_examples=40)
@given(st.lists(st.integers(-(2**63), 2**63 - 1)) | st.lists(st.text(max_size=20)), st.integers(1, 1 << 16))
def test_oracle_an_array_has_the_parts_of_its_keys(keys, parts):
    array = np.array(keys, object if keys and isinstance(keys[0], str) else np.int64)
    assert part_of(array, parts).tolist() == [by_hand(key, parts) for key in keys]


@pytest.mark.slow
def test_example_parts_are_those_of_any_other_process():
    code = f"from headrace.synchronization.tags import part_of; print([part_of(key, 64) for key in {KEYS!r}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == str([part_of(key, 64) for key in KEYS])


@pytest.mark.parametrize("key", [1.5, 2**63, None])
def test_example_what_is_no_key(key):
    with pytest.raises(ParameterError, match="a key is an integer.*; cast it"):
        part_of(key, 4)


def test_example_what_a_fork_sees():
    tags = made(COUNTER).tags
    part = part_of(5, 8)
    left = TagSet(tags, [ImplementationTag("inc", part, 0), ImplementationTag("inc", part, 2), ImplementationTag("stop", 0, 0)])
    elsewhere = next(key for key in range(100) if part_of(key, 8) != part)
    assert "inc" in left and "stop" in left and "reset" not in left
    assert ("inc", 5) in left and ("inc", elsewhere) not in left and ("reset", 5) not in left
    with pytest.raises(UnknownNameError, match="did you mean 'inc'"):
        "incs" in left  # noqa: B015
    with pytest.raises(ParameterError, match="'stop' has no key"):
        ("stop", 5) in left  # noqa: B015
    assert repr(left) == f"{{inc[{part}], stop}}"


def tell(x, say):
    say(kind="small" if x < 5 else "large", x=None)
    if x == 7:
        say(x=x, kind="seven")
    if x == 9:
        say(kind=None, x=9)


def add_and_tell(state, e, emit):
    state.sum += e.x
    tell(e.x, emit)


@pytest.mark.interpreted
def test_example_what_a_helper_leaves_out_or_gives_as_none_is_null():
    program = hr.program(
        tags={"value": {"x": "int64"}}, depends=[("value", "value")], state={"sum": "int64"},
        emits={"kind": "string", "x": "int64"}, update={"value": add_and_tell},
    )  # fmt: skip
    found = program.over({"value": pa.table({"ts": [1, 2, 3], "x": [1, 7, 9]})}).to_arrow(threads=1)
    assert found["kind"].to_pylist() == ["small", "large", "seven", "large", None]
    assert found["x"].to_pylist() == [None, None, 7, None, 9]


def tell_far(state, e, emit, least=5):
    state.sum += e.x
    if state.sum > least:
        emit(x=state.sum)


def keep(state, e, emit):
    state.sum += 1


@pytest.mark.interpreted
def test_example_what_emits_is_found_beside_a_constant():
    """The last parameter is one with a default: emit is the third one, and what it leaves out is null."""
    program = hr.program(
        tags={"value": {"x": "int64"}, "one": {}}, depends=[("value", "value"), ("value", "one")], state={"sum": "int64"},
        emits={"kind": "string", "x": "int64"}, update={"value": tell_far, "one": keep},
    )  # fmt: skip
    inputs = {"value": pa.table({"ts": [1, 2, 3], "x": [1, 7, 9]}), "one": pa.table({"ts": [2]})}
    found = program.over(inputs).to_arrow(threads=1)
    assert found["x"].to_pylist() == [8, 18] and found["kind"].to_pylist() == [None, None]


@pytest.mark.parametrize("count", [0, -1, 2.0, True, 4097, 10**6])
def test_example_numbers_of_streams_that_cannot_be(count):
    """Refused where they are named: nothing is made of each of a million streams first."""
    with pytest.raises(ParameterError, match=r"streams\(.*: give the number of streams, from 1 to 4,096"):
        hr.streams(pa.table({"ts": [1], "x": [1]}), count)


@pytest.mark.parametrize("option", ["by", "tag"])
def test_bad_input_a_column_of_streams_that_is_not_there(option):
    with pytest.raises(SchemaError, match=rf"streams\({option}=\): there is no column 'y'; the columns are"):
        hr.streams(pa.table({"ts": [1], "x": [1]}), **{option: "y"})
