"""By which way an operator's input gets to it: from a source, through a collector, or by the gate from the one before.

An operator's instances write results into rings. Either a collector drains all of them, orders the results by content,
makes Arrow columns of them and encodes these for the next operator: one thread that everything passes. Or each instance is
a source of the next operator's gate, which reads the rows where they were written (`passing`, `passing_kernel`), by the same
ids of keys, or by those that a key of some of its columns has (`passed_keys`). This file decides which. By the gate, the
results of the query are the same bytes, since the order of tuples of one time does not show in them: the operator behind has
the same key, which has one result per window and so never two at one time (`_has_no_ties`), or what it computes does not
depend on that order (`headrace.elastic.aggregate.as_they_come`). It reads nothing but numbers and times, of any type: what is
computed in 64 bits is in a column of that type what it was, and event times count microseconds in either operator. `why_not`
says why others do not. Where there are ties, one thing may depend on their order all the same: whether a sum of whole numbers
of either sign leaves int64 on the way, which is an error. A user who asks for the gate accepts that; without being asked for,
the gate takes only sums of what is never negative, which leave int64 in any order or in none.

Where both operators have a key, the gate may be a channel for each instance of the one behind, into which those before
route what it owns (`gates.reader_queues_kernel`, `routed`): `Way.why_shared` says why not.

Steps between the two go along where they compute nothing (`passed_steps`): `select` that chooses and names columns, which are
read where they were written, and `filter` by comparisons of them with constants, whose outcome is certain to be Arrow's. Each
instance compares before it gives the gate a row (`kept_rows_kernel`), so there are gaps between the rows of a source: I1 of
`passing_kernel` then goes by the numbers of the rows that were given; the operator behind must not take a source's rows for
consecutive ones (ROWS_FOLLOW of `build` is False, as behind channels); the books count what is left out as filtered. Time goes
on by heartbeats, whatever is left out. Behind a filter no instance has a channel of its own: what is unread there is known by
the places of a source's latest rows, all of which were sent. The keys of what is left out stay live behind it all the same,
until the windows of both operators are over, as they have ids there; through a collector the operator behind never hears of
them, takes no memory for them, and `max_keys` may be enough. So where that operator has a key, the gate has to be asked for.

A key that operators in one line share stays while a window of any of them has it. Each may have `max_keys` of them, so as many
times `max_keys` may be live as there are such operators (`ElasticOptions.line_of`): what fits through a collector fits here.

Open: what computes, or is not certain (`passed_steps`), has the results go through the collector. To apply it here:

- other conditions need a predicate of a row, compiled for the columns where they lie and called by its address, as
  `take_results` is, in the place of `is_kept`;
- what `select` and `map` compute needs an array, and one of validity, for each column, as long as the ring and written before A1;
- a function of a user that fails does so in an instance's thread, which has no batch whose row the error could name.

`flat_map`, which makes rows, would need a ring of its own. Keys of what is left out would be let go with the windows before, if
the instance that gives the gate a row noted its time by key, as instances do in HELD of `ingress.ordered_texts`, and
`KeyDictionary.recycle` took that for the last use behind.

None of this is enough for the query of the Viper paper's Figure 1 (`headrace.apps.tolls`), where a filter is between the two,
too: its first operator is a custom one, and the next one has another key.

Open, too, and through the collector:

- a mean, whose division the collector does, of whole numbers in 128 bits; strings and lists, of which there are ids and places
  in a ring of words, as columns that are read or as a key;
- a key that is a result (``key_by("n")``): ids are given by one thread that encodes (`ingress.keys`), not by several that write
  results; it would take a table to which these add at once, with recycling that waits for all of them;
- a join behind. Its pairs come in the order of their later tuples, so the order of equal times shows: it needs the next point
  first. It keeps tuples for as long as `within`, while a ring's rows go once they are read: rows would be freed by the
  operator's time (`retention`), and a ring be as long as that, or be copied into a store by their first reader. What it
  carries into its results are Arrow columns by row: keys would be decoded, and results finished, when a pair is;
- content order in the gate, for `hr.first`, lists and sums of floats behind another key or none. Now a record is ready once
  (time, source) is below the least MARK. To wait until every source has passed its time, and to sort by content then, would be
  simple, and would stop for ever: the results of one time may be more than a ring holds, and an instance whose ring is full
  cannot promise more. So each instance has to give its own of one time sorted, and the merge takes the first in (time, content)
  once every other source has a record in its ring or a MARK beyond that time; a full ring has a record, so one goes on. It takes
  a rank of each key, in words that say how any two are ordered, whatever keys come later (ids do not; the prefixes of
  `memory.text_order` do for strings of few bytes, others need their texts); an emission that goes through the keys of a window by
  rank and not by id, so a sort of all that an instance owns; and a column of ranks in the rings of the gate, beside the time.
  Changes of members need nothing more: they are between two times.

What leaves the query always goes through a collector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from headrace.elastic.aggregate.program import AggregateProgram
from headrace.elastic.outlets import READER
from headrace.elastic.passed_keys import PassedKeys
from headrace.elastic.passed_steps import Between, between
from headrace.errors import ParameterError
from headrace.plan.nodes import Branch, OperatorNode

if TYPE_CHECKING:
    from headrace.elastic.options import ElasticOptions

_EXACT = ("count", "count_distinct", "sum", "min", "max", "first", "last", "quantile", "mode")
"""Results that are what a column of them holds, once it is read again as kernels read columns: of a narrow type or of times,
what fitted before fits again."""
_COUNTED = ("count", "count_distinct")
_OF_THE_SIGN_OF_THEIRS = ("sum", "min", "max", "first", "last")
_MANY_READERS = 16
"""To pass over a record of another instance takes a fraction of a nanosecond, to route one and merge it some: with two
instances a channel each took 1.0 to 1.2 times as long (``headrace bench passing``), and has been measured with no more cores."""


class Upstream(NamedTuple):
    """The operator of this engine whose results are all the input of another one."""

    section: Any
    """`ElasticSection`."""
    between: Between
    """What is done to its results on the way."""


class Way(NamedTuple):
    """How an operator's input gets to it from the one before."""

    above: Any = None
    """`ElasticSection` of the one whose instances pass their results on; None: through a collector."""
    why_collected: str = ""
    why_shared: str = ""
    """Why all instances read one gate and none a channel of its own; "" if they read those."""
    between: Between = Between({}, ())
    """What is done to results that are passed on."""


def upstream_of(branches: list[Branch], options: ElasticOptions) -> Upstream | None:
    """Find the operator that an operator with these inputs follows; None if there is none of this engine, or not only that."""
    origin = branches[0].origin
    if len(branches) > 1 or not isinstance(origin, OperatorNode):
        return None
    section = options.sections.get(origin.name)
    return None if section is None else Upstream(section, between(branches[0].steps, section.node.schema))


def way_in(program: Any, branches: list[Branch], upstream: Upstream | None, options: ElasticOptions) -> Way:
    """Decide how an operator's input gets to it; `upstream` as of `upstream_of`.

    Raises
    ------
    ParameterError
        A way was asked for by name that it cannot take.
    """
    name, origin = program.node.name, branches[0].origin
    if not isinstance(origin, OperatorNode):
        for option, way in (("passing", "gate"), ("channel", READER)):
            if options.is_asked(option, way, name):
                raise ParameterError(
                    f'{option}="{way}": the input of {name!r} comes from a source, and this is a way between two operators; leave'
                    f" it out, or give a dict of the operators behind others"
                )
        return Way(None, "", "its input comes from a source")
    passing = options.passing(name)
    why = "" if passing == "collector" else why_not(program, branches, upstream, options.takers(origin.name), options)
    if why and passing == "gate":
        raise ParameterError(
            f'passing="gate": the input of {name!r} goes through a collector: {why}; leave it out, or give a dict of the'
            f" operators where it does not"
        )
    if why or passing == "collector":
        way = Way(None, why, why or 'passing="collector"')
    else:
        assert upstream is not None
        way = Way(upstream.section, "", _why_shared(program, *upstream, options), upstream.between)
    if way.why_shared and options.channel(name) == READER:
        raise ParameterError(
            f'channel="reader": the instances of {name!r} have no channels of their own: {way.why_shared}; leave it out, or give'
            f" a dict of the operators where they have"
        )
    return way


def _why_shared(program: Any, above: Any, middle: Between, options: ElasticOptions) -> str:
    """Say why instances read one gate together, behind an operator that passes its results on."""
    channel = options.channel(program.node.name)
    if channel == "shared":
        return 'channel="shared"'
    if program.dictionary is None:
        return "it has no key, so no instance owns a result before another"
    if above.is_routed:
        return f"{above.name!r} reads such channels, so it has no one place where the senders can meet for a change"
    if middle.conditions:
        return f"a filter behind {above.name!r} leaves results out, and such channels know by their places how many are unread"
    if options.planned(program.node.name):
        return "a change is planned at a count of all its tuples, which no reader of some of them knows"
    if channel == "auto" and options.max_threads < _MANY_READERS:
        return f"that costs less for fewer than {_MANY_READERS} instances"
    return ""


def why_not(
    program: Any, branches: list[Branch], upstream: Upstream | None, takers: list[str], options: ElasticOptions
) -> str:
    """Say why an operator's input goes through a collector; "" if the operator before it can pass its results on directly.

    Parameters
    ----------
    program : Program
        Of the operator.
    branches : list of Branch
        Its inputs.
    upstream : Upstream or None
        As of `upstream_of`.
    takers : list of str
        What takes that one's results, as of `outlets`.
    """
    if len(branches) > 1:
        return "it has several inputs"
    if options.mode != "vsn" or options.gate != "log":
        return 'only a merged log (gate="log") that all instances read (mode="vsn") takes rows where they are'
    if upstream is None:
        return "another engine is before it"
    above, middle = upstream
    before = above.program
    if len(takers) > 1:
        return f"the results of {above.name!r} go to several places"
    if middle.why_not:
        return f"there are steps between the two, which take record batches: {middle.why_not}"
    if not isinstance(before, AggregateProgram) or before.list_fields:
        return f"{above.name!r} is no aggregate, or gives lists"
    if not isinstance(program, AggregateProgram):
        return "it is no aggregate"
    has_no_ties = _has_no_ties(program, before, middle)
    if program.order_matters and not has_no_ties:
        return f"its results depend on the order of tuples of one time: {program.order_matters}"
    if program.dictionary is not None and key_places(program, before, middle) is None:
        return f"its key is not that of {above.name!r}, nor some of its columns"
    exact = exact_results(before)
    for name in (*(middle.names[name] for name in program.names), *(condition.column for condition in middle.conditions)):
        if name not in exact:
            return f"column {name!r} is none of numbers or times that {above.name!r} has before its results are made columns"
    times = before.node.schema.field(before.node.event_time).type
    if middle.conditions and not _has_all_times(times):
        return f"a filter is between the two, and a time that {times} has not is an error also of what it leaves out"
    if options.passing(program.node.name) != "auto":
        return ""
    if middle.conditions and program.dictionary is not None:
        return (
            f"keys of what a filter leaves out would take memory behind it, too, and count for max_keys; if there is room for all"
            f" keys of the windows of both operators, give passing={{{program.node.name!r}: 'gate'}}, which is faster"
        )
    if not has_no_ties:
        for name, wanted in program.spec.aggregates:
            if wanted.kind == "sum" and middle.names[wanted.column] not in above.never_negative:
                return (
                    f"{name}={wanted!r} adds numbers that may be negative, so it could leave int64 on the way in one order"
                    f" of tuples of one time and not in another; if it never does, give"
                    f" passing={{{program.node.name!r}: 'gate'}}, which is faster"
                )
    return ""


def _has_all_times(kind: pa.DataType) -> bool:
    """Whether a column of event times has all that kernels count with."""
    return kind == pa.int64() or (pa.types.is_timestamp(kind) and kind.unit != "ns")


def never_negative(program: Any, upstream: Upstream | None) -> frozenset[str]:
    """Give the results that are whole numbers and never negative, whatever comes in.

    Parameters
    ----------
    program : Program
    upstream : Upstream or None
        As of `upstream_of`.
    """
    if not isinstance(program, AggregateProgram):
        return frozenset()
    given = _unsigned(program.given)
    if upstream is not None:
        names, theirs = upstream.between.names, upstream.section.never_negative
        given |= {name for name, before in names.items() if before in theirs}
    return frozenset(
        name
        for name, wanted in program.spec.aggregates
        if wanted.kind in _COUNTED or (wanted.kind in _OF_THE_SIGN_OF_THEIRS and wanted.column in given)
    )


def _unsigned(schema: pa.Schema) -> frozenset[str]:
    """Columns of types without a sign, all of whose values int64 has."""
    return frozenset(f.name for f in schema if pa.types.is_unsigned_integer(f.type) and f.type.bit_width < 64)


def key_places(program: AggregateProgram, before: AggregateProgram, middle: Between) -> list[int] | None:
    """Which key columns of the operator before the key of one is made of, a value of each; None if it is not."""
    if before.dictionary is None or program.multi_key:
        return None
    found = []
    for key in program.spec.keys:
        (column,) = key.columns
        name = middle.names[column]
        if name not in before.key_names:
            return None
        found.append(list(before.key_names).index(name))
    return found


def _is_same_key(program: AggregateProgram, before: AggregateProgram, middle: Between) -> bool:
    """Whether the ids of one's keys may stand for the other's: equal columns, each with one value and never null."""
    if before.dictionary is None or program.dictionary is None or program.dictionary.kinds != before.dictionary.kinds:
        return False
    return key_places(program, before, middle) == list(range(len(before.key_names)))


def passed_keys(program: AggregateProgram, before: AggregateProgram, middle: Between) -> PassedKeys | None:
    """Set up ids for keys of an operator to which results are passed on; None where those of the one before may stand."""
    places = key_places(program, before, middle)
    if places is None or _is_same_key(program, before, middle) or program.dictionary is None or before.dictionary is None:
        return None
    types = [before.node.schema.field(middle.names[key.columns[0]]).type for key in program.spec.keys]
    return PassedKeys(before.dictionary, program.dictionary, places, types, before.id_capacity)


def _has_no_ties(program: AggregateProgram, before: AggregateProgram, middle: Between) -> bool:
    """Whether no two results of one key have the same time, for a program that has that key, in any order of its columns.

    A key has one result per window, of the instance that owns it when the window expires, and windows end at different
    times. Those of local days may not: two end at one instant where a zone has left out the day between their ends.
    """
    if program.dictionary is None or before.spec.window.zone is not None:
        return False
    return set(key_places(program, before, middle) or ()) == set(range(len(before.key_names)))


class Exact(NamedTuple):
    """A result that the next operator can read where it is."""

    value: str
    """Field of the state."""
    known: str
    """That of how many of its values there are, 0 where it is null; "" where it never is."""
    skips_nan: bool
    """It is null, too, where it is NaN: there was nothing else."""


def exact_results(program: AggregateProgram) -> dict[str, Exact]:
    """Of the results those that the next operator can read where they are, by name."""
    found = {}
    layout = program.layout
    for number, ((name, _), column) in enumerate(zip(program.spec.aggregates, program.shape.aggregates, strict=True)):
        value, is_counted = layout.out_value[number], column.kind in _COUNTED
        if column.kind not in _EXACT or number in layout.high or (column.is_text and not is_counted):
            continue
        known = "" if is_counted or column.column is None else layout.out_known[column.column]
        found[name] = Exact(value, known, column.ignore_nan and layout.results[value] == "float64")
    return found


__all__ = ["Upstream", "Way", "exact_results", "key_places", "never_negative", "passed_keys", "upstream_of", "way_in", "why_not"]
