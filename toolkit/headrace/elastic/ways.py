"""How an operator gets its input: from a source, through a collector, or directly by its gate from the operator before.

An operator's instances write results into rings. With a collector, one thread drains all rings, orders the results by content,
makes Arrow columns of them and encodes these for the next operator. By the gate, each instance is a source of the next
operator's gate, whose readers read the rows where they were written (`passing`, `passing_kernel`); keys have the same ids in
both operators, or the downstream key is made of some of the upstream key's columns and has ids of its own (`passed_keys`).

This file decides which way is taken, and `why_not` says why it is not the gate. The operator before may be an aggregate or a
custom operator (O+), provided that each instance's results are in order of event time. What `output` emits is, and so is what
`update` emits where windows do not overlap: it carries the end of its window, the first one after the tuple that causes it.
(Where windows overlap, the next tuple emits for earlier ones again.) But what `update` emits is ahead of the watermark: by less
than the advance of windows, for as many results as a window may have. A gate that merges would keep them all in their rings,
since another instance may still give an earlier one; with a full ring, the run would stand still. So the next operator takes
them in the order of arrival (`gates.arrival_kernel`), with room for the windows that begin so much later
(`CompiledAggregate.take_ahead`). Some instance always goes on: those that wait in a window have read a tuple of it, up to which
all others can read, and once these have promised its time, what is waiting is not too far ahead any more.

By the gate, the query has to give the same bytes as by a collector, so its results must not show the order of tuples of equal
event time, or that order has to be the collector's, which is by content (`_order_shown`). It does not show if the downstream
operator follows an aggregate with the same key, which has one result per window and so never two at one time (`_has_no_ties`), or
if what it computes does not depend on that order (`headrace.elastic.aggregate.as_they_come`). A custom operator can only be of
the first kind, and has to emit from `output` only: its results then show the order of the tuples of one key, and not that of
others.

Otherwise the gate merges by content (`Way.by_content`, `gates.content_kernel`). Of the results of one event time, an aggregate
has one for each key, so their order by content is that of their keys. Each instance sorts the keys that it owns in a window, and
gives their results in that order (`aggregate.ranked_kernel`); the gate takes the first of the instances' next results, once each
other instance has given one, or has promised that none up to that time will follow. So it gives one sequence, that of the
collector, for any number of instances, and for any mapping of keys to them. Nobody waits for ever: an instance that cannot go on
has results in the gate that are not taken yet, so it is not what the gate waits for, or that are taken and about to be read. (To
wait until all have passed the time, and then to sort, would stand still: an instance cannot promise a time of which it has more
results than its ring takes.) Changes of the members need nothing more: an instance joins or leaves between two times. This takes
ranks of keys (`ingress.key_ranks`), which tell how any two keys are ordered, whatever keys come later; ids do not. The ranks of a
string are its first bytes, and where all of them lie, in case others begin alike. Windows of local days are left to the
collector, since two of them may end at one time. An aggregate without a key has one result of a time, so there is no order.

A custom operator may read numbers and times of any type, an aggregate bools, too, and nothing else: what is computed in 64 bits
keeps its value in a column of its type, and event times count microseconds in both operators. Where ties do not come by content,
one thing may still depend on their order: whether a partial sum of whole numbers of either sign overflows int64, which is an
error. A user who asks for the gate accepts that, and gets ties as they come. Unasked, sums of values that are never negative
are taken as they come, since they overflow in every order or in none, and others through a collector (`_why_may_overflow`).

Unasked, so is whatever has to come by content. Since collectors sort by digits (`ingress.sorting`), merging by content has taken
1.1 to 1.3 times as long (``headrace bench passing``; not profiled).

What several operators take goes to the gate of each of them (`several_takers_kernel`): each instance is a source of all these
gates, gives each of them all that it has room for, and waits for the slowest, so that a row is free once the readers of all
have passed it. Each taker must be one that may get the results so by itself. Two things are required of them together. First,
all gates merge in one order: if one has to order results of equal event time by content, all do. With two orders, an instance
could wait at one gate for another instance, which waits at the other gate for the first. For the same reason there is no
filter: a gate that is not given a row does not learn that its time has come. Second, no two takers may be connected in any way
but through the operator before (`outlets.meeting`), as they are where their results are joined. Else one of them may wait for
what the other has to give first, while that one gets nothing, as the operator before waits for room in the gate of the one that
waits. By a collector, each taker has a thread and a queue of its own.

Where both operators have a key, the gate may be one channel for each downstream instance, into which the upstream instances
route the tuples it owns (`gates.reader_queues_kernel`, `routed`); `Way.why_shared` says why it is not. Unasked, it is from
`_MANY_READERS` instances on: a rule of thumb, and not a cost that was measured.

The sender applies steps between the two that compute nothing (`passed_steps`): `select`, where it only chooses and renames
columns, which are read where they were written; and `filter`, where it is made of bools and of comparisons whose outcome is
certain to be Arrow's. It may compare columns that the next operator cannot read, such as the bools of a custom operator. Each
instance evaluates the filter before it gives the gate a row (`kept_rows_kernel`), which leaves gaps between the rows of a
source. Therefore I1 of `passing_kernel` uses the numbers of the rows that were given; the downstream operator must not take a
source's rows for consecutive ones (ROWS_FOLLOW of `build` is False, as behind channels); and the books count the rows left out
as filtered. Heartbeats advance time, whatever is left out. Behind a filter, no instance has a channel of its own: channels tell
what is unread by the places of a source's latest rows, which requires that all of them were sent. Keys of rows that are left out
have ids downstream all the same, and stay live until the windows of both operators are over. Through a collector, the downstream
operator never gets these keys: they take no memory there and do not count for its `max_keys`. So where that operator has a key,
the gate is taken behind a filter only if asked for.

A key that operators in one line share, or in several that begin together, stays live while a window of any of them has it
(`ElasticSection._expire`). Each operator may have `max_keys` keys, so `max_keys` times the number of these operators may be live
(`ElasticOptions.line_of`): what fits through a collector fits here.

Open: steps that compute, or whose outcome is not certain (`passed_steps`), send the results through the collector. To apply them
here:

- other conditions need a predicate on a row, compiled for the columns where they lie and called by its address, as
  `take_results` is, in place of `is_kept`;
- what `select` and `map` compute needs an array of values and one of validity for each column, as long as the ring and written
  before A1;
- a user function that fails does so in an instance's thread, which has no batch whose row the error could name.

`flat_map`, which makes rows, would need a ring of its own. Keys of rows left out could be released with the upstream windows, if
the instance that gives the gate a row recorded the row's time by key, as instances do in HELD of `ingress.ordered_texts`, and
`KeyDictionary.recycle` took that for the last downstream use.

None of this is enough for the query of the Viper paper's Figure 1 (`headrace.apps.tolls`): the instances of its first operator
could apply the filter behind it, but the next operator has a key that is a result.

Also open, and done through the collector:

- what an operator and the end of the query take: a collector would drain the ring beside the gates, with its own count of the
  rows that it has taken. But the kernel in its place is told watermarks, and a collector goes by promises of `primary`, and by
  places (`egress.rings`): `publish` would have to give both, and a key would stay live until the collector has decoded it, too;
- what several operators take of which one needs a collector, for the same reason; a filter before one of them, as said above; and
  takers that are connected otherwise, too: that needs room between the operator before and each of them, such as a relay has, or
  an argument that what waits where they meet is never ahead of what all have been given;
- several inputs, as of a union, or of a custom operator or a join with two: the sources of the gate would be the instances of
  several operators, whose rows lie in different columns;
- `gate="scalegate"`, which tells no source how many of its rows are unread, and `mode="sn"`, where a router fills a queue for
  each instance;
- what `update` emits where windows overlap: each instance would have to hold it back, in order of event time, until no tuple can
  give an earlier result, in memory that grows with what a window emits, and that the next operator reads in place of the ring;
- a mean of whole numbers in 128 bits, which the collector divides; strings and lists, as columns that are read or as a key: rows
  hold them as ids and as places in a ring of words;
- a key that is a result (``key_by("n")``): ids are given by the one thread that encodes (`ingress.keys`), not by the several that
  write results. It would take a table to which these add concurrently, with recycling that waits for all of them;
- a join upstream: its result is a pair of rows, which becomes columns when it is collected. Its instances would have to write
  what the next operator reads of both;
- a join downstream. Its pairs come in the order of their later tuples, so the order of equal times shows, and its gate has to
  merge by content. It keeps tuples for as long as `within`, while a ring's rows are freed once they are read: either the
  operator's event time would free rows (`retention`), in a ring that long, or their first reader would copy them into a store.
  What it carries into its results are Arrow columns by row: keys would be decoded, and results finished, when a pair is finished;
- content order in the gate for results of a custom operator, of which a key may have several at one time. Their order is that of
  their positions, which the instance knows, but its `output` visits keys by id.

Results that leave the query always go through a collector.

And open, and done by one gate that all instances read (`_why_shared`):

- a channel for each instance of a custom operator; and of an aggregate that takes results ahead of the watermark, since channels
  take them in order of event time;
- channels of several takers: an instance could then wait for one reader's queue alone, which the argument of
  `several_takers_kernel` does not cover, and a change of one taker's owners would have all senders meet;
- channels behind channels: owners change where the senders meet, and senders that read channels have no one such place;
- channels behind a filter, as said above; and planned changes, at a count of all tuples, which no reader of some of them knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from headrace.elastic.aggregate.as_they_come import room_ahead
from headrace.elastic.aggregate.compiled import CompiledAggregate
from headrace.elastic.aggregate.shape import COUNTED
from headrace.elastic.compiled import Compiled
from headrace.elastic.outlets import READER
from headrace.elastic.passed_keys import PassedKeys
from headrace.elastic.passed_steps import Between, between
from headrace.errors import ParameterError
from headrace.ingress.key_ranks import rank_layout
from headrace.plan.nodes import Branch, OperatorNode
from headrace.windows import MOST_OPEN

if TYPE_CHECKING:
    from headrace.elastic.options import ElasticOptions

_OF_THE_SIGN_OF_THEIRS = ("sum", "min", "max", "first", "last")
_MANY_READERS = 16
"""A rule of thumb. Skipping a record of another instance takes a fraction of a nanosecond; routing and merging one takes a few.
With two instances, a channel for each took 1.0 to 1.4 times as long (``headrace bench passing``, on two cores); more were not
measured on as many cores."""


class Upstream(NamedTuple):
    """The operator of this engine whose results are all the input of another one."""

    section: Any
    """Its `ElasticSection`."""
    between: Between
    """What is done to its results on the way."""


class Way(NamedTuple):
    """How an operator gets the results of the one before."""

    above: Any = None
    """`ElasticSection` of the operator whose instances pass their results on; None: through a collector."""
    why_collected: str = ""
    by_content: tuple[int, ...] = ()
    """By which ranks of their keys the gate orders results of one event time (`ingress.key_ranks.rank_layout`); (): their order
    does not show."""
    why_shared: str = ""
    """Why all instances read one gate; "" if each reads a channel of its own."""
    between: Between = Between({}, ())
    """What is done to results that are passed on."""
    takers: int = 1
    """How many operators take these results, all by their gates."""


def upstream_of(branches: list[Branch], options: ElasticOptions) -> Upstream | None:
    """Return the operator of this engine whose results are the only input of one with these branches; None if there is none."""
    origin = branches[0].origin
    if len(branches) > 1 or not isinstance(origin, OperatorNode):
        return None
    section = options.sections.get(origin.name)
    return None if section is None else Upstream(section, between(branches[0].steps, section.node.schema))


def way_in(compiled: Any, branches: list[Branch], upstream: Upstream | None, options: ElasticOptions) -> Way:
    """Decide how an operator gets its input; `upstream` as from `upstream_of`.

    Raises
    ------
    ParameterError
        The options ask for a way that is not possible.
    """
    name, origin = compiled.node.name, branches[0].origin
    if not isinstance(origin, OperatorNode):
        for option, way in (("passing", "gate"), ("channel", READER)):
            if options.is_asked(option, way, name):
                raise ParameterError(
                    f'{option}="{way}": the input of {name!r} comes from a source, and this is a way between two operators; leave'
                    f" it out, or give a dict of the operators that follow others"
                )
        return Way(None, "", (), "its input comes from a source")
    passing = options.passing(name)
    why = ""
    if passing != "collector":
        why = why_not(compiled, branches, upstream, options) or _why_not_with_others(compiled, upstream, options)
    if why and passing == "gate":
        raise ParameterError(
            f'passing="gate": the input of {name!r} goes through a collector: {why}; leave it out, or give a dict of the'
            f" operators where it does not"
        )
    if why or passing == "collector":
        way = Way(None, why, (), why or 'passing="collector"')
    else:
        assert upstream is not None
        others = _others(compiled, upstream, options)
        shown = any(_order_shown(one, *given) for one, given in [(compiled, upstream), *others])
        by_content = rank_layout(upstream.section.compiled.dictionary.kinds) if shown else ()
        why_shared = _why_shared(compiled, *upstream, options)
        way = Way(upstream.section, "", by_content, why_shared, upstream.between, 1 + len(others))
    if way.why_shared and options.channel(name) == READER:
        raise ParameterError(
            f'channel="reader": the instances of {name!r} have no channels of their own: {way.why_shared}; leave it out, or give'
            f" a dict of the operators where they have"
        )
    return way


def _why_shared(compiled: Any, above: Any, middle: Between, options: ElasticOptions) -> str:
    """Say why all instances read one gate, behind an operator that passes its results on; "" if each has a channel."""
    channel = options.channel(compiled.node.name)
    if channel == "shared":
        return 'channel="shared"'
    if not isinstance(compiled, CompiledAggregate):
        return "it is a custom operator"
    if _order_shown(compiled, above, middle):
        return "it takes results in order of their keys, and such channels take those of one event time by instance"
    if len(options.takers(above.name)) > 1:
        return f"several operators take the results of {above.name!r}"
    if compiled.dictionary is None:
        return "it has no key, so no instance owns a result before another"
    if above.compiled.ahead:
        return f"{above.name!r} gives results ahead of the watermark, and a channel takes them in order of event time"
    if above.is_routed:
        return f"{above.name!r} reads such channels, so it has no one place where the senders can meet for a change"
    if middle.conditions:
        return f"a filter after {above.name!r} drops results, and such channels count unread results by their places"
    if options.planned(compiled.node.name):
        return "a change is planned at a count of all its tuples, which no reader of some of them knows"
    if channel == "auto" and options.max_threads < _MANY_READERS:
        return f"it is the default for fewer than {_MANY_READERS} instances"
    return ""


def _others(compiled: Any, upstream: Upstream, options: ElasticOptions) -> list[tuple[Any, Upstream]]:
    """The other operators that take the same results, as compiled, and what each gets."""
    siblings = options.siblings(compiled.node.name, upstream.section.name)
    found = [(options.compiled(node, branches), upstream_of(branches, options)) for node, branches in siblings]
    return [(one, given) for one, given in found if given is not None]


def _why_not_with_others(compiled: Any, upstream: Upstream | None, options: ElasticOptions) -> str:
    """Say why an operator that can take results directly cannot do so because of what else takes them; "" if it can."""
    assert upstream is not None
    above = upstream.section
    if len(options.takers(above.name)) < 2:
        return ""
    if upstream.between.conditions:
        return f"the results of {above.name!r} go to several places, and a filter is between the two"
    for node, branches in options.siblings(compiled.node.name, above.name):
        why = f"the results of {above.name!r} go to several places, and those for {node.name!r} go through a collector: "
        if not getattr(node.spec, "may_take", False):
            return f"{why}it is neither an aggregate nor a custom operator"
        if options.passing(node.name) == "collector":
            return f'{why}passing="collector"'
        other = upstream_of(branches, options)
        reason = why_not(options.compiled(node, branches), branches, other, options)
        if not reason and other is not None and other.between.conditions:
            reason = "a filter is between the two"
        if reason:
            return why + reason
    return ""


def _why_not_to_all(name: str, options: ElasticOptions) -> str:
    """Say why nothing can take the results of the operator of this name directly, for where they go; "" if that is well."""
    takers = options.takers(name)
    if len(takers) < 2:
        return ""
    if "" in takers:
        return f"the results of {name!r} go to several places, one of which is the end of the query"
    if (two := options.meeting(name)) is not None:
        return (
            f"the results of {name!r} go to several places, and of those {two[0]!r} and {two[1]!r} are also connected by other"
            f" operators or sources, so that one might have to wait for the other"
        )
    return ""


def why_not(compiled: Any, branches: list[Branch], upstream: Upstream | None, options: ElasticOptions) -> str:
    """Say why an operator's input goes through a collector; "" if the operator before it can pass its results on directly.

    What else takes these results is left to `_why_not_with_others`.

    Parameters
    ----------
    compiled : Compiled
        The operator.
    branches : list of Branch
        Its inputs.
    upstream : Upstream or None
        As from `upstream_of`.
    """
    if len(branches) > 1:
        return "it has several inputs"
    if options.mode != "vsn" or options.gate != "log":
        return 'only a merged log (gate="log") that all instances read (mode="vsn") takes rows where they are'
    if upstream is None:
        return "another engine is before it"
    above, middle = upstream
    before = above.compiled
    if why := _why_not_to_all(above.name, options):
        return why
    if middle.why_not:
        return f"there are steps between the two, which take record batches: {middle.why_not}"
    if before.why_collected:
        return f"{above.name!r} cannot pass its results on: {before.why_collected}"
    if compiled.why_encoded:
        return compiled.why_encoded
    shown = _order_shown(compiled, above, middle)
    if shown and before.why_not_ranked:
        so = f"{above.name!r} cannot give these in order of content: {before.why_not_ranked}"
        return f"its results depend on the order of tuples of equal event time: {shown}; {so}"
    if before.ahead and (why := _why_not_ahead(compiled, above)):
        return why
    if compiled.dictionary is not None and key_places(compiled, before, middle) is None:
        return f"its key is not that of {above.name!r}, nor some of its columns"
    exact = before.exact_results()
    read = [middle.names[name] for name in compiled.values_of(0)]
    compared = [name for condition in middle.conditions for name in condition.columns]
    for name in (*read, *compared):
        if name not in exact or (name in read and not exact[name].is_wide):
            return f"column {name!r} is not a number or time that {above.name!r} has before its results become columns"
    times = before.node.schema.field(before.node.event_time).type
    if middle.conditions and not _has_all_times(times):
        return f"a filter is between the two, and a time outside the range of {times} is an error even in what it leaves out"
    if options.passing(compiled.node.name) != "auto":
        return ""
    if middle.conditions and compiled.dictionary is not None:
        return (
            f"keys of rows that a filter drops would still take memory after it, and count for max_keys; if there is room for all"
            f" keys of the windows of both operators, give passing={{{compiled.node.name!r}: 'gate'}}, which is faster"
        )
    asked = f"passing={{{compiled.node.name!r}: 'gate'}}"
    if shown:
        return (
            f"its results depend on the order of tuples of equal event time: {shown}; a collector puts these in order sooner than"
            f" instances and a gate that merges what they have put in order, which {asked} asks for"
        )
    if why := _why_may_overflow(compiled, above, middle):
        return f"{why}; if it never does, give {asked}, which is faster"
    return ""


def _why_may_overflow(compiled: Any, above: Any, middle: Between) -> str:
    """Say which sum of an operator may overflow in one order of tuples of equal event time and not in another; "" if none."""
    if _has_no_ties(compiled, above.compiled, middle):
        return ""
    for name, wanted in compiled.spec.aggregates:
        if wanted.kind == "sum" and middle.names[wanted.column] not in above.never_negative:
            return (
                f"{name}={wanted!r} adds numbers that may be negative, so a partial sum could leave int64 in one order of tuples"
                f" of equal event time and not in another"
            )
    return ""


def _order_shown(compiled: Any, above: Any, middle: Between) -> str:
    """Say why an operator's results show the order of tuples of equal event time; "" if they do not, or there are none."""
    if above.compiled.dictionary is None and _gives_keys_once(above.compiled):
        return ""
    return compiled.order_shows if _has_no_ties(compiled, above.compiled, middle) else compiled.order_matters


def _gives_keys_once(before: Compiled) -> bool:
    """Whether an operator gives no key two results of equal event time; without a key, no two at all.

    In an aggregate, a key has one result per window, from the instance that owns it when the window expires, and windows end at
    different times. Windows of local days may not: two end at one instant where the zone skipped the day between their ends.
    A custom operator may emit any number of results.
    """
    return isinstance(before, CompiledAggregate) and before.spec.window.zone is None


def _why_not_ahead(compiled: CompiledAggregate, above: Any) -> str:
    """Say why an operator cannot take results in the order of arrival, ahead of the watermark; "" if it can."""
    window, by = compiled.spec.window, above.compiled.ahead
    if window.zone is not None:
        return f"its windows are days of a time zone, and {above.name!r} gives results ahead of the watermark, from update="
    open_at_once = room_ahead(window, by)[1]
    if open_at_once > MOST_OPEN:
        return f"{open_at_once:,} of its windows would be open for each key: {above.name!r} gives results {by:,} ahead of time"
    return ""


def _has_all_times(kind: pa.DataType) -> bool:
    """Whether a column of this type can hold every event time that kernels compute."""
    return kind == pa.int64() or (pa.types.is_timestamp(kind) and kind.unit != "ns")


def never_negative(compiled: Any, upstream: Upstream | None) -> frozenset[str]:
    """Return the names of results that are whole numbers and never negative, whatever the input.

    Parameters
    ----------
    compiled : Compiled
    upstream : Upstream or None
        As from `upstream_of`.
    """
    if not isinstance(compiled, CompiledAggregate):
        return frozenset()
    given = _unsigned(compiled.given)
    if upstream is not None:
        names, theirs = upstream.between.names, upstream.section.never_negative
        given |= {name for name, before in names.items() if before in theirs}
    return frozenset(
        name
        for name, wanted in compiled.spec.aggregates
        if wanted.kind in COUNTED or (wanted.kind in _OF_THE_SIGN_OF_THEIRS and wanted.column in given)
    )


def _unsigned(schema: pa.Schema) -> frozenset[str]:
    """Columns of unsigned types whose values all fit int64."""
    return frozenset(f.name for f in schema if pa.types.is_unsigned_integer(f.type) and f.type.bit_width < 64)


def key_places(compiled: Compiled, before: Compiled, middle: Between) -> list[int] | None:
    """For each column of the operator's key, its place in the key of the one before; None if some column is not in that."""
    if before.dictionary is None or compiled.multi_key_of(0):
        return None
    found = []
    for key in compiled.keys_of(0):
        (column,) = key.columns
        name = middle.names[column]
        if name not in before.key_names:
            return None
        found.append(list(before.key_names).index(name))
    return found


def _is_same_key(compiled: Compiled, before: Compiled, middle: Between) -> bool:
    """Whether both operators can use the same key ids: equal columns, each with one value and never null."""
    if before.dictionary is None or compiled.dictionary is None or compiled.dictionary.kinds != before.dictionary.kinds:
        return False
    return key_places(compiled, before, middle) == list(range(len(before.key_names)))


def passed_keys(compiled: Compiled, before: Compiled, middle: Between) -> PassedKeys | None:
    """Set up the map of upstream key ids to those of an operator that gets results directly; None if it can use the same ids."""
    places = key_places(compiled, before, middle)
    if places is None or _is_same_key(compiled, before, middle) or compiled.dictionary is None or before.dictionary is None:
        return None
    types = [before.node.schema.field(middle.names[key.columns[0]]).type for key in compiled.keys_of(0)]
    return PassedKeys(before.dictionary, compiled.dictionary, places, types, before.id_capacity)


def _has_no_ties(compiled: Compiled, before: Compiled, middle: Between) -> bool:
    """Whether no key of the operator has two tuples of equal event time: it has the key of `before`, its columns in any order."""
    if not _gives_keys_once(before):
        return False
    if before.dictionary is None:
        return True
    if compiled.dictionary is None:
        return False
    return set(key_places(compiled, before, middle) or ()) == set(range(len(before.key_names)))


__all__ = ["Upstream", "Way", "key_places", "never_negative", "passed_keys", "upstream_of", "way_in", "why_not"]
