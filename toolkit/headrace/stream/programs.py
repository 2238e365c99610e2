"""Programs with dependency-guided synchronization, and their inputs: from any tables to a running query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import wraps
from typing import Any

from headrace.arguments import is_whole_number, shown
from headrace.errors import ParameterError, SchemaError, UnknownNameError
from headrace.ingress.columns import is_text, plain_type
from headrace.names import instead, missing_attribute
from headrace.plan.checks import check_columns
from headrace.plan.nodes import check_result, operator_node
from headrace.stream.hints import RUNNING
from headrace.stream.source import stream
from headrace.stream.streams import Stream
from headrace.synchronization import program as programs
from headrace.synchronization.inputs import Input
from headrace.synchronization.plans import MOST_STREAMS
from headrace.synchronization.specification import ProgramSpec


class Streams:
    """An input whose rows belong to several streams, or have several tags: what `streams` returns."""

    def __init__(self, source: Stream, streams: int, by: str | None, tag: str | None):
        self.source, self.streams, self.by, self.tag = source, streams, by, tag

    def __repr__(self) -> str:
        said = [f"by {self.by!r}" if self.by else "", f"tag {self.tag!r}" if self.tag else ""]
        return f"<Streams: {self.streams} {' '.join(filter(None, said))}>"


def streams(source: Any, count: int = 1, *, by: str | None = None, tag: str | None = None, event_time: str = "ts") -> Streams:
    """Divide the rows of one table into several streams, or several tags, for `Program.start`.

    Events keep the order of the rows: the stream determines which worker may process an event, never when.

    Parameters
    ----------
    source : Stream or table
        As for `stream`.
    count : int
        Number of streams, up to 4,096.
    by : str, optional
        An integer column, whose value modulo `count` is the row's stream; or a string column that names it: each of the first
        `count` names has its own stream, and later names share these. Without it rows are dealt out in turn.
    tag : str, optional
        A string column with the tag of each row.
    event_time : str
        The event-time column of a table: "ts" by default.

    Raises
    ------
    ParameterError
        `count` is no number of streams, or a name is no column name.
    SchemaError
        There is no such column.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> values = pa.table({"ts": [1, 2, 3], "x": [1, 2, 3], "sensor": [0, 1, 0]})
    >>> hr.streams(values, 2, by="sensor")
    <Streams: 2 by 'sensor'>
    """
    if not is_whole_number(count) or not 1 <= count <= MOST_STREAMS:
        raise ParameterError(f"streams({count!r}): give the number of streams, from 1 to {MOST_STREAMS:,}")
    for name, value in (("by", by), ("tag", tag)):
        if value is not None and not isinstance(value, str):
            raise ParameterError(f"streams({name}={value!r}): give the name of a column")
    given = source if isinstance(source, Stream) else stream(source, event_time=event_time)
    for name, value in (("by", by), ("tag", tag)):
        if value is not None:
            check_columns(given.schema, [value], f"streams({name}=)")
    return Streams(given, int(count), by, tag)


class Program(programs.Program):
    """What `program` returns."""

    def __getattr__(self, name: str) -> Any:
        of_a_stream = {each: f".over(inputs).{each}(...)" for each in (*RUNNING, "key_by", "window") if each != "start"}
        others = dict.fromkeys(("run", "execute"), ".start(inputs)")
        raise missing_attribute(self, name, of_a_stream | others)

    def over(self, inputs: Mapping[Any, Any]) -> Stream:
        """Apply the program to inputs; nothing runs yet.

        Parameters
        ----------
        inputs : dict
            Name of a tag -> its input: a `Stream`, a table with the event time in ``ts``, or a list of them, one stream
            each. `streams` divides one table into several. For a table whose rows have several tags the name is a tuple of
            tags, with ``streams(..., tag="column")``. Events are ordered by (event time, input in the order given,
            position in it).

        Returns
        -------
        Stream
            The emitted tuples, in the order and at the times of their events.
        """
        given = _read_inputs(self, inputs)
        node = operator_node(ProgramSpec(self, tuple(one for one, _ in given)), [source._node for _, source in given])
        check_result(node, f"{self.name}.over()")
        return Stream(node)

    def start(self, inputs: Mapping[Any, Any], **options: Any) -> Any:
        """Start the program on inputs, and return its run at once.

        Parameters
        ----------
        inputs : dict
            As for `over`.
        **options
            ``threads``, ``max_threads``, ``plan`` (a `Plan` or its JSON, "auto", "chain", "flat"), ``leaves``, ``heartbeat``
            (events of an input between two reports of its progress to others; with "off" it is known by its events alone, so
            that others wait for a silent input until it goes on or ends, whatever watermarks it gives), ``order`` ("events";
            with "none" each output comes at once, in any order, so that a silent input holds back only what depends on it),
            ``reconfigure`` (changes before rows of the merged input: ``[(1000, 4), (5000, {"plan": plan})]``), ``max_state``,
            ``checkpoint`` (a folder), ``checkpoint_every``, ``checkpoint_when``, and the options of every run: see
            `Stream.start`.

        Returns
        -------
        QueryRun

        Examples
        --------
        >>> import headrace as hr, pyarrow as pa
        >>> def add(state, e, emit):
        ...     state.sum += e.x
        >>> def close(state, e, emit):
        ...     emit(sum=state.sum)
        ...     state.sum = 0
        >>> def split(state, left, right, tags_left, tags_right):
        ...     if "barrier" in tags_right:
        ...         right.sum = state.sum
        ...     else:
        ...         left.sum = state.sum
        >>> def merge(into, other):
        ...     into.sum += other.sum
        >>> window = hr.program(
        ...     tags={"value": {"x": "int64"}, "barrier": {}}, depends=[("barrier", "barrier"), ("barrier", "value")],
        ...     state={"sum": "int64"}, emits={"sum": "int64"}, update={"value": add, "barrier": close}, fork=split, join=merge)
        >>> values = [pa.table({"ts": [1, 4], "x": [10, 20]}), pa.table({"ts": [2, 6], "x": [1, 2]})]
        >>> barriers = pa.table({"ts": [3, 9]})
        >>> with window.start({"value": values, "barrier": barriers}, threads=2) as run:
        ...     done = run.wait()
        ...     rows = run.to_arrow().to_pylist()
        >>> rows
        [{'ts': 3, 'sum': 11}, {'ts': 9, 'sum': 22}]
        """
        return self.over(inputs).start(**options)

    def resume(self, checkpoint: Any, inputs: Mapping[Any, Any], /, **options: Any) -> Any:
        """Go on from a checkpoint, even in another process or under another plan, with nothing lost or repeated.

        Parameters
        ----------
        checkpoint : path or Checkpoint
            The folder given to a run as ``checkpoint=``, of which the newest checkpoint is taken, or one checkpoint.
        inputs : dict
            The inputs of that run, from their beginning: events already processed are read again and skipped. The run
            then knows whether the inputs are the same; if not, it fails with `CheckpointError`.
        **options
            As for `start`; they need not be those of the first run. ``checkpoint=`` with the same folder takes further
            checkpoints there; without it none are taken. With ``replay=False`` results from before the checkpoint are not
            given again.

        Returns
        -------
        QueryRun
            Its results are those of an uninterrupted run. If the first run had come to its end, the events after its last
            checkpoint are processed once more.

        Raises
        ------
        CheckpointError
            The checkpoint is damaged, of another program, or does not exist.
        ParameterError
            `checkpoint` is None.

        Examples
        --------
        >>> import headrace as hr, pyarrow as pa, tempfile
        >>> def add(state, e, emit):
        ...     state.sum += e.x
        ...     emit(sum=state.sum)
        >>> sums = hr.program(
        ...     tags={"value": {"x": "int64"}}, depends=[("value", "value")], state={"sum": "int64"}, emits={"sum": "int64"},
        ...     update={"value": add})
        >>> values = {"value": pa.table({"ts": [1, 2, 3, 4], "x": [10, 20, 30, 40]})}
        >>> folder = tempfile.mkdtemp()
        >>> with sums.start(values, checkpoint=folder, checkpoint_every=3) as run:
        ...     done = run.wait()
        >>> with sums.resume(folder, values) as run:
        ...     done = run.wait()
        ...     rows = run.to_arrow().to_pylist()
        >>> [row["sum"] for row in rows]
        [10, 30, 60, 100]
        """
        if checkpoint is None:  # `start` would take that for no checkpoint, and begin from the start
            raise ParameterError("resume(None): give the folder that a run had as checkpoint=, or one of its checkpoints")
        return self.over(inputs).start(resume=checkpoint, **options)


@wraps(programs.program)
def program(**given: Any) -> Program:
    read = programs.program(**given)
    return Program(**{field.name: getattr(read, field.name) for field in fields(read)})


def _read_inputs(program: Program, inputs: Any) -> list[tuple[Input, Stream]]:
    if not isinstance(inputs, Mapping) or not inputs:
        raise ParameterError(f'inputs={shown(inputs)}: give a dict of tags and their inputs, as in {{"value": [left, right]}}')
    seen = dict.fromkeys(program.tags, 0)
    """Streams of each tag so far."""
    read: list[tuple[Input, Stream]] = []
    for tags, value in inputs.items():
        names = tags if isinstance(tags, tuple) else (tags,)
        for name in names:
            if name not in program.tags:
                raise UnknownNameError(f"inputs: there is no tag {name!r}; {instead(name, program.tags, 'the tags')}")
            if name in program.periodic:
                raise ParameterError(f"inputs: {name!r} is periodic: event time makes its events, and no input; leave it out")
        given = value if isinstance(value, list | tuple) else [value]
        read.extend(_read_input(names, one, seen) for one in given)
    missing = [name for name, count in seen.items() if not count and name not in program.periodic]
    if missing:
        raise ParameterError(f"inputs: tag {missing[0]!r} has no input; give it one, an empty table if it has no events")
    return read


def _read_input(names: Sequence[str], one: Any, seen: dict[str, int]) -> tuple[Input, Stream]:
    try:
        given = one if isinstance(one, Streams) else streams(one)
    except SchemaError as error:
        which = ", ".join(map(repr, names))
        raise SchemaError(f"inputs: {which}: {error}; give hr.stream(table, event_time=...) if it has another") from None
    if len(names) > 1 and given.tag is None:
        raise ParameterError(f"inputs: {tuple(names)!r}: which rows are which? Give hr.streams(table, tag='column')")
    first = tuple(seen[name] for name in names)
    for name in names:
        seen[name] += given.streams
    schema = given.source.schema
    names_streams = given.by in schema.names and is_text(plain_type(schema.field(given.by).type))
    return Input(tuple(names), given.tag, given.streams, given.by, first, names_streams), given.source


__all__ = ["Program", "Streams", "program", "streams"]
