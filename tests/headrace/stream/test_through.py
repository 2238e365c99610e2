"""`Stream.through`: what a specification says is what the stream becomes, and what it says wrongly is an error there.

No section is needed: nothing runs here. `tests/headrace/runtime/test_second_engine.py` runs an engine that comes in this way.
"""

import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import EventTimeError, ParameterError, SchemaError
from headrace.plan import Spec, StreamType
from headrace.stream import Stream

POSTS = pa.table({"ts": [1, 2], "text": ["a", "b"]})


def posts(table=POSTS, **options):
    return hr.stream(table, event_time="ts", **options)


class Counted:
    """Adds a column of numbers; `type_` takes the place of the type it would say."""

    name = "counted"

    def __init__(self, has_sides=False, type_=None):
        self.has_sides, self.type_ = has_sides, type_
        self.seen = []

    def __repr__(self):
        return "Counted()"

    def result_type(self, inputs):
        self.seen.append([given.schema.names for given in inputs])
        if self.type_ is not None:
            return self.type_
        first = inputs[0]
        return StreamType(first.schema.append(pa.field("number", pa.int64())), first.event_time, first.unit)

    def options(self, run):
        raise NotImplementedError

    def section(self, node, branches, options):
        raise NotImplementedError


def test_example_the_result_is_of_the_type_that_the_specification_says():
    spec: Spec = Counted()
    stream = posts(time_unit="s").through(spec)
    assert isinstance(stream, Stream)
    assert stream.schema.names == ["ts", "text", "number"]
    assert stream.plan().output.type == StreamType(stream.schema, "ts", "s")


def test_example_it_stands_between_other_operators():
    counts = posts().filter(hr.col("text") > "a").through(Counted()).key_by("number").window(10).aggregate(n=hr.count())
    assert counts.operators == ("counted", "aggregate")
    query = counts.plan()
    (branch,) = query.branches["counted"]
    assert len(branch.steps) == 1
    assert query.branches["aggregate"][0].origin is query.operators[0]


def test_example_names_are_the_users_or_the_specifications_and_differ():
    stream = posts().through(Counted()).select("ts", "text").through(Counted()).select("ts").through(Counted(), name="last")
    assert stream.operators == ("counted", "counted2", "last")


def test_example_inputs_are_told_apart_where_the_specification_has_sides():
    likes = posts(pa.table({"ts": [1], "user": [3]}))
    spec = Counted(has_sides=True)
    query = posts().through(spec, likes).plan()
    assert spec.seen == [[["ts", "text"], ["ts", "user"]]]
    assert [branch.side for branch in query.branches["counted"]] == [0, 1]
    assert [branch.schema.names for branch in query.branches["counted"]] == spec.seen[0]


def test_example_inputs_are_merged_into_one_where_it_has_none():
    spec = Counted()
    query = posts().through(spec, posts(), posts()).plan()
    assert spec.seen == [[["ts", "text"]]]
    assert [branch.side for branch in query.branches["counted"]] == [0, 0, 0]
    with pytest.raises(SchemaError, match="differ"):
        posts().through(Counted(), posts(pa.table({"ts": [1], "user": [3]})))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (Counted, r"through\(\): Counted is a class; give one of its objects, as in Counted\(\)"),
        (3, r"through\(\): 3 specifies no operator: it has no name, has_sides, result_type, options, section"),
        (hr.operator(emits={"n": "int64"}, output=lambda key, state, emit: emit(n=1)), "specifies no operator"),
    ],
)
def test_example_what_is_no_specification_is_told(spec, message):
    with pytest.raises(ParameterError, match=message):
        posts().through(spec)


def test_example_what_is_no_stream_is_told():
    with pytest.raises(ParameterError, match="is not a stream"):
        posts().through(Counted(), posts().key_by("text"))


@pytest.mark.parametrize(
    ("type_", "error", "message"),
    [
        (POSTS.schema, ParameterError, r"Counted\(\): result_type\(\) gave a Schema; it has to give a headrace.plan.StreamType"),
        (StreamType(POSTS.schema, "when", "ms"), SchemaError, "the result of 'counted', event time: there is no column 'when'"),
        (StreamType(POSTS.schema, "text", "ms"), EventTimeError, "event_time column 'text' has type string"),
        (StreamType(POSTS.schema, "ts", "weeks"), ParameterError, "the result of 'counted': unit = 'weeks': give one of"),
        (
            StreamType(pa.schema({"ts": pa.timestamp("us")}), "ts", "ms"),
            ParameterError,
            "unit = 'ms': times of type .* are in 'us'; give that",
        ),
        (
            StreamType(pa.schema([("ts", pa.int64()), ("n", pa.int64()), ("n", pa.int64())]), "ts", "ms"),
            ParameterError,
            "two result columns would be called 'n'",
        ),
    ],
)
def test_example_a_result_that_cannot_be_a_stream_is_told(type_, error, message):
    with pytest.raises(error, match=message):
        posts().through(Counted(type_=type_))


def test_example_keyed_and_windowed_streams_say_where_it_goes():
    with pytest.raises(AttributeError, match=r"a KeyedStream has no 'through'; write .window"):
        posts().key_by("text").through(Counted())
