"""Programs: what a user writes of one, read and checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.codegen.kinds import Kind, MapOf, scalar
from headrace.codegen.state import named_by_python, read_emits, read_state
from headrace.errors import NotSupportedError, ParameterError, UnknownNameError
from headrace.names import explains_arguments, instead
from headrace.synchronization.checking import EXAMPLES, Checked, check
from headrace.synchronization.definition import Definition
from headrace.synchronization.tags import Tag, tag

if TYPE_CHECKING:
    from headrace.synchronization.plans import Plan

TIME = "ts"
"""What functions call the event time."""
_ROLES = {
    "update": ("state", "e", "emit"),
    "fork": ("state", "left", "right", "tags_left", "tags_right"),
    "join": ("into", "other"),
}
_TYPED_JOIN = ("into", "left", "right")
"""Of a program with several types of state."""
_COLUMN_KINDS = "int64, float64, bool, string, timestamp[us]"


@dataclass(frozen=True, eq=False, repr=False)
class Program(Definition):
    """What `program` returns."""

    @explains_arguments(streams="inputs", workers="leaves", how="by", optimizer="by", cost="costs")
    def plan(
        self,
        inputs: Mapping[str, Any],
        leaves: int = 2,
        rates: Mapping[Any, Any] | None = None,
        by: str = "rates",
        costs: Any = None,
        threads: int | None = None,
    ) -> Plan:
        """Make a plan: who processes which tags of which streams, and who joins whom. It draws itself.

        Parameters
        ----------
        inputs : dict
            Name of each tag -> its inputs as for a run (one, or a list of them), or how many streams it has.
        leaves : int
            How many at most, from 1 to 64. A program without fork and join has one.
        rates : dict, optional
            Events per second: name of a tag -> a number, shared evenly by its parts and streams, or a list of one number
            a stream; or (tag, part, stream) -> a number. Without them all come equally often, and of tags that are
            equally rare the one goes up on which the most others depend.
        by : {"rates", "appendix", "chain", "flat", "best"}
            "appendix": the rarest tags go up until the others fall apart (the paper's Appendix B). Its leaves on a chain
            of inner nodes, one at each: "chain". On a balanced tree of which only the root owns tags: "flat". These two
            have exactly as many leaves as asked for, some of them empty where there is less to share out. "rates" weighs
            rates and costs, and has fewer leaves where more would not pay; without rates it is "appendix". "best" tries
            all plans there are, for at most 10 implementation tags.
        costs : dict, optional
            Nanoseconds that the functions take: "update" (a number, or tag -> number), "fork", "join".
        threads : int, optional
            That will run the leaves; as many as leaves if not given.

        Returns
        -------
        Plan
            A valid one; another can be written by hand, or read from JSON. With rates, ``plan.predicted`` is how many
            events per second it can take, by the model of `headrace.synchronization.prediction`.

        Examples
        --------
        >>> import headrace as hr
        >>> def count(state, e, emit):
        ...     state.n += 1
        >>> def tell(state, e, emit):
        ...     emit(n=state.n)
        >>> counter = hr.program(
        ...     tags={"inc": {}, "read": {}}, depends=[("read", "inc")], state={"n": "int64"}, emits={"n": "int64"},
        ...     update={"inc": count, "read": tell},
        ...     fork=lambda state, left, right, tags_left, tags_right: None, join=lambda into, other: None)
        >>> counter.plan({"inc": 2, "read": 1}, rates={"inc": 1000, "read": 1})
        node 0  read  1/s
        ├─ leaf 0  inc (stream 0)  500/s
        └─ leaf 1  inc (stream 1)  500/s
        predicted: 195 M/s
        """
        from headrace.synchronization.optimizing import make_plan

        return make_plan(self, inputs, leaves, rates, by, costs, threads)

    @explains_arguments(n="examples", cases="examples")
    def check(
        self, seed: int = 0, examples: int = EXAMPLES, values: Mapping[str, Iterable[Any]] | None = None
    ) -> Checked:
        """Try to show that results would depend on the plan: the consistency laws on random states, in plain Python.

        States are those that plans can reach, through updates, forks and joins from the first one. C1: updating and then
        joining is joining and then updating, on either side. C2: joining what was forked gives it back. C3: events that
        do not depend on each other may change places. C4, of a state by key: an event's own entry is all that it needs.

        Parameters
        ----------
        seed : int
            Of what is drawn; the same seed draws the same.
        examples : int
            Cases of each law.
        values : dict, optional
            Column -> values that it may hold, where the functions do not take just any.

        Returns
        -------
        Checked
            How many cases there were. That no law failed is no proof.

        Raises
        ------
        InconsistentProgramError
            With the smallest counterexample that was found: print ``error.counterexample``, run it again by
            ``error.counterexample.run()``.

        Examples
        --------
        >>> import headrace as hr
        >>> def count(state, e, emit):
        ...     state.n += 1
        >>> def tell(state, e, emit):
        ...     emit(n=state.n)
        >>> def both(state, left, right, tags_left, tags_right):
        ...     left.n = state.n
        ...     right.n = state.n
        >>> def add(into, other):
        ...     into.n += other.n
        >>> counter = hr.program(
        ...     tags={"inc": {}, "read": {}}, depends=[("read", "inc")], state={"n": "int64"}, emits={"n": "int64"},
        ...     update={"inc": count, "read": tell}, fork=both, join=add)
        >>> try:
        ...     counter.check()
        ... except hr.HeadraceError as error:
        ...     print(error.counterexample)
        state     n=1
        reached   inc()
        left      nothing
        right     nothing
        <BLANKLINE>
        forked and joined
          ─┬──┬─> n=2
           └──┘
        as it was
          ──> n=1
        """
        return check(self, seed, examples, values)

    def __repr__(self) -> str:
        fields = "; ".join(
            (f"{of} of " if of else "") + (", ".join(f"{name}: {field.kind}" for name, field in own.items()) or "none")
            for of, own in self.types.items()
        )
        emits = ", ".join(f"{name}: {kind}" for name, kind in self.emits.items())
        # Of two tags that depend on each other, the pair in the order of the tags.
        order = list(self.tags)
        pairs = [(a, b) for i, a in enumerate(order) for b in order[i:] if any(self.dependence[a, b])]
        said = ", ".join(f"{a} and {b}" for a, b in pairs) or "nothing"
        completed = "".join(f"; {a} on {b} too, since dependence is symmetric" for a, b in self.completed)
        return (
            f"<Program {self.name!r}: tags {', '.join(map(str, self.tags.values()))}; state {fields}; emits {emits};"
            f" depend on each other: {said}{completed}>"
        )


class TagPart(NamedTuple):
    """A tag as a `depends` function sees it."""

    name: str
    part: int


@explains_arguments(init="state", emit="emits", outputs="emits", on="update", updates="update", dependencies="depends")
def program(
    *,
    tags: Mapping[str | Tag, Mapping[str, Any]],
    update: Mapping[str, Callable | Mapping[str, Callable]],
    emits: Mapping[str, Any],
    depends: Iterable[tuple[str, str]] | Callable[[Any, Any], bool] = (),
    state: Mapping[str, Any] | None = None,
    states: Mapping[str, Mapping[str, Any]] | None = None,
    processes: Mapping[str, Iterable[str]] | None = None,
    fork: Callable | Mapping[tuple[str, str, str], Callable] | None = None,
    join: Callable | Mapping[tuple[str, str, str], Callable] | None = None,
    name: str = "program",
) -> Program:
    """Say what a sequential computation is, which of its events depend on each other, and how its state splits.

    The result is that of one event after another, in the order of events (event time, input, position), whatever the
    plan that runs it.

    Parameters
    ----------
    tags : dict
        What kinds of events there are: name -> columns and their kinds ("int64", "float64", "bool", "string",
        "timestamp[us]"). `hr.tag` in place of a name gives it a key.
    update : dict
        Name of each tag -> ``f(state, e, emit)``: e has the columns and ``e.ts``; ``emit(name=value, ...)`` makes an
        output at the event's time, as often as it is called; what it leaves out is null.
    emits : dict
        Columns of the outputs beside the event time: name -> kind.
    depends : list of pairs of names, or function of two tags
        Events that depend on each other are processed in their order; those that do not, at the same time. Dependence
        is symmetric: what is said of (a, b) holds of (b, a), and `Program.completed` tells what was added. A pair of
        two tags with keys means: of one part. A function is given tags with ``name`` and ``part``, and may compare parts.
    state : dict, optional
        Fields of the state: name -> kind or first value, as of `hr.operator`. Where all of them are
        ``hr.map_of(..., by="key")``, and "key" is the key of tags, an event of such a tag joins, at a node above others, the
        entries of its own key alone, by `join` where both sides have one, and gives them back, by `fork` where both sides
        may process that key; all other entries stay where they are. Updates of these tags then touch no other entry,
        which `check` tries (C4).
    states : dict, optional
        In place of `state`, several types of it: name -> fields. The first is what everything is joined to: the sequential
        program is that of its functions, and it may process every tag.
    processes : dict, optional
        Type of state -> names of the tags that it may process; all, where it is left out. A tag's update may then be a
        dict, type -> function.
    fork, join : functions, optional
        ``fork(state, left, right, tags_left, tags_right)`` reads a state and writes two new ones, which then process
        independent events: ``"barrier" in tags_left`` says whether events of this tag will come left,
        ``("inc", key) in tags_left`` of a tag with keys. ``join(into, other)`` adds the second to the first. Without
        them the program runs on one leaf. With several types of state they are dicts, from the types of a state and of
        the left and the right one it is forked into to ``fork(state, left, right, tags_left, tags_right)`` and
        ``join(into, left, right)``, whose `into` is new. Which type each node of a plan has is found out (the second phase
        of Appendix B), the forks that are given first are preferred, or said by ``hr.PlanNode(tags, children, state=)``.
    name : str, optional

    Returns
    -------
    Program

    Raises
    ------
    ParameterError
        Naming what cannot be meant.

    Notes
    -----
    Any plan gives the sequential result if the program is consistent (Theorem 2.4): joining after an update is updating
    what was joined (C1), joining what was forked changes nothing (C2), independent updates may change places (C3).

    Examples
    --------
    The sum of values between two barriers:

    >>> import headrace as hr
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
    ...     tags={"value": {"x": "int64"}, "barrier": {}},
    ...     depends=[("barrier", "barrier"), ("barrier", "value")],
    ...     state={"sum": "int64"}, emits={"sum": "int64"},
    ...     update={"value": add, "barrier": close}, fork=split, join=merge)
    >>> window.depends("value", "value"), window.depends("value", "barrier"), window.completed
    (False, True, (('value', 'barrier'),))

    With a type of state for what only sums up, which knows nothing of barriers:

    >>> def halve(state, left, right, tags_left, tags_right):
    ...     left.sum = state.sum
    >>> def together(into, left, right):
    ...     into.sum = left.sum + right.sum
    >>> ways = [("all", "part", "part"), ("part", "part", "part")]
    >>> typed = hr.program(
    ...     tags={"value": {"x": "int64"}, "barrier": {}}, depends=[("barrier", "barrier"), ("barrier", "value")],
    ...     states={"all": {"sum": "int64"}, "part": {"sum": "int64"}}, processes={"part": ["value"]}, emits={"sum": "int64"},
    ...     update={"value": add, "barrier": close}, fork=dict.fromkeys(ways, halve), join=dict.fromkeys(ways, together))
    >>> typed.plan({"value": 2, "barrier": 1})
    node 0 (all)  barrier
    ├─ leaf 0 (part)  value (stream 0)
    └─ leaf 1 (part)  value (stream 1)
    """
    read_tags = _read_tags(tags)
    if not isinstance(name, str) or not name.isidentifier():
        raise ParameterError(f"program(name={name!r}): give a name, as Python has them")
    if states is not None:
        if state is not None:
            raise ParameterError("program(state=..., states=...): give one of them; one type of state is state=")
        given = _read_states(states, processes, fork, join, update, read_tags)
        dependence, completed = _read_depends(depends, read_tags)
        first = next(iter(given["states"].values()))
        return Program(
            name, read_tags, first, _read_emits(emits), fork=None, join=None, completed=completed, dependence=dependence, **given
        )
    if processes is not None:
        raise ParameterError("program(processes=...) says what types of state may process; give them too, as states=")
    functions = _read_update(update, read_tags)
    for one, function in functions.items():
        if isinstance(function, Mapping):
            raise ParameterError(f"update: {one}={{...}}: a dict is for several types of state; give them too, as states=")
    if (fork is None) != (join is None):
        given, missing = ("fork", "join") if join is None else ("join", "fork")
        raise ParameterError(
            f"program({given}=...) without {missing}=: what is forked is joined again; give both, or none of them for one leaf"
        )
    for label, function in (("fork", fork), ("join", join)):
        if isinstance(function, Mapping):
            raise ParameterError(f"program({label}={{...}}): a dict is for several types of state; give them too, as states=")
        if function is not None:
            _check_function(label, function, label)
    dependence, completed = _read_depends(depends, read_tags)
    fields = read_state(state, has_keyed_tags=True)
    _check_by(fields, read_tags)
    return Program(name, read_tags, fields, _read_emits(emits), functions, fork, join, completed, dependence)


def _check_by(fields: Mapping[str, Any], tags: Mapping[str, Tag]) -> None:
    """Refuse a state of which only a part is by the key of tags."""
    by = {name: field.kind.by for name, field in fields.items() if isinstance(field.kind, MapOf) and field.kind.by is not None}
    if not by:
        return
    name, column = next(iter(by.items()))
    for other, field in fields.items():
        if by.get(other) != column:
            raise ParameterError(
                f"state: {name} is by {column!r} and {other} is not: entries are handed over one by one only where all of the"
                f" state is by one key; give every field by={column!r}, or none"
            )
        keyed = [tag for tag in tags.values() if tag.by == column]
        if not keyed:
            raise ParameterError(
                f"state: {other}={field.kind!r}: no tag has the key {column!r}; give one, hr.tag('name', by={column!r}), or leave"
                f" by= out"
            )
        kind = seen_kind(keyed[0].columns[column])
        if seen_kind(field.kind.key) != kind:
            raise ParameterError(f"state: {other}={field.kind!r}: the key of {keyed[0].name} is {kind}; give the map that kind")


def seen_kind(kind: str) -> str:
    """What functions see of a kind of key."""
    known = scalar(kind)
    return kind if known is None else known.in_functions


def _read_tags(given: Any) -> dict[str, Tag]:
    if not isinstance(given, Mapping) or not given:
        raise ParameterError(f'program(tags={given!r}): give a dict of tags with their columns: {{"value": {{"x": "int64"}}}}')
    tags: dict[str, Tag] = {}
    for key, columns in given.items():
        one = key if isinstance(key, Tag) else tag(key)
        if one.name in tags:
            raise ParameterError(f"tags: {one.name!r} is there twice; give them names of their own")
        tags[one.name] = Tag(one.name, one.by, one.parts, _read_columns(one, columns))
    return tags


def _read_columns(of: Tag, given: Any) -> dict[str, str]:
    where = f"tags: {of.name}"
    if not isinstance(given, Mapping):
        raise ParameterError(f'{where}={given!r}: give its columns and their kinds, as in {{"x": "int64"}}; {{}} if it has none')
    columns: dict[str, str] = {}
    for name, value in named_by_python(where, given).items():
        if not isinstance(name, str) or not name.isidentifier():
            raise ParameterError(f"{where}: {name!r} is not a Python name, and no function can read it; rename the column")
        if name == TIME:
            raise ParameterError(f"{where}: {name!r} is the event time, which every event has; leave it out, and read e.{TIME}")
        kind = "string" if str(value) == "large_string" else str(value)  # Arrow's types go by their names
        if scalar(kind) is None or kind in ("int32", "float32"):
            raise ParameterError(f"{where}: {name}={value!r}: no function can read that; the kinds are {_COLUMN_KINDS}")
        columns[name] = kind
    if of.by is not None:
        if of.by not in columns:
            raise UnknownNameError(f"{where}: its key {of.by!r} is no column of it; {instead(of.by, columns, 'the columns')}")
        if columns[of.by] == "float64":
            raise ParameterError(f"{where}: its key {of.by!r} is float64; a key is an integer, a bool or a string")
    return columns


def _read_update(given: Any, tags: Mapping[str, Tag]) -> dict[str, Callable]:
    if not isinstance(given, Mapping):
        raise ParameterError(f"program(update={given!r}): give a dict of tags and functions, as in {{'value': add}}")
    for name in given:
        if name not in tags:
            raise UnknownNameError(f"update: there is no tag {name!r}; {instead(name, tags, 'the tags')}")
    for name in tags:
        if name not in given:
            raise ParameterError(f"update: tag {name!r} has no function; give update={{{name!r}: f}} with f(state, e, emit)")
        if not isinstance(given[name], Mapping):
            _check_function(f"update: {name}", given[name], "update")
    return {name: given[name] for name in tags}


def _read_states(
    states: Any, processes: Any, fork: Any, join: Any, update: Any, tags: Mapping[str, Tag]
) -> dict[str, dict[Any, Any]]:
    """Read what a program with several types of state has of its own, by the names of `Definition`."""
    if not isinstance(states, Mapping) or len(states) < 2:
        raise ParameterError(
            f'program(states={states!r}): give several types of state and their fields, as in {{"all": {{"sum": "int64"}}, "part":'
            f' {{"sum": "int64"}}}}; one type is state='
        )
    for of in states:
        if not isinstance(of, str) or not of.isidentifier():
            raise ParameterError(f"states: {of!r}: give a type of state a name, as Python has them")
    fields = {of: read_state(own) for of, own in states.items()}
    may = _read_processes(processes, fields, tags)
    functions: dict[str, dict[str, Callable]] = {}
    for name, given in _read_update(update, tags).items():
        allowed = [of for of in fields if name in may[of]]
        if isinstance(given, Mapping):
            for of in given:
                _check_type(f"update: {name}", of, fields)
                if of not in allowed:
                    raise ParameterError(f"update: {name} has a function for {of!r}, which may not process it; see processes=")
        functions[name] = {}
        for of in allowed:
            if isinstance(given, Mapping) and of not in given:
                raise ParameterError(
                    f"update: {name} has no function for {of!r}, which may process it; give one, or leave {name!r} out of"
                    f" processes={{{of!r}: [...]}}"
                )
            functions[name][of] = given[of] if isinstance(given, Mapping) else given
            _check_function(f"update: {name}", functions[name][of], "update")
    forks, joins = (_read_typed(label, given, fields) for label, given in (("fork", fork), ("join", join)))
    for one, other, missing in ((forks, joins, "join"), (joins, forks, "fork")):
        for signature in one:
            if signature not in other:
                raise ParameterError(
                    f"{missing}: there is none for {signature!r}; what is forked is joined again: give {missing}={{{signature!r}: f}}"
                )
    reachable = {next(iter(fields))}
    while more := {to for of, *sides in forks for to in sides if of in reachable} - reachable:
        reachable |= more
    for of in fields:
        if of not in reachable:
            raise ParameterError(
                f"states: nobody can reach {of!r}: no forks lead from {next(iter(fields))!r} to it; give one, or leave it out"
            )
    return {"update": functions, "states": fields, "processes": may, "forks": forks, "joins": joins}


def _read_processes(given: Any, fields: Mapping[str, Any], tags: Mapping[str, Tag]) -> dict[str, frozenset[str]]:
    if given is not None and not isinstance(given, Mapping):
        raise ParameterError(f'program(processes={given!r}): give types of state and tags, as in {{"part": ["value"]}}')
    may = dict.fromkeys(fields, frozenset(tags))
    for of, names in (given or {}).items():
        _check_type("processes", of, fields)
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise ParameterError(f'processes: {of}={names!r}: give a list of tags, as in ["value"]')
        may[of] = frozenset(names)
        for name in may[of]:
            if name not in tags:
                raise UnknownNameError(f"processes: {of}: there is no tag {name!r}; {instead(name, tags, 'the tags')}")
    first = next(iter(fields))
    for name in tags:
        if name not in may[first]:
            raise ParameterError(
                f"processes: {first!r}, the first of states=, may not process {name!r}: everything is joined to it, so it"
                f" processes every tag; add {name!r}, or give another type first"
            )
    return may


def _check_type(where: str, of: Any, fields: Mapping[str, Any]) -> None:
    if of not in fields:
        raise UnknownNameError(f"{where}: there is no type of state {of!r}; {instead(of, fields, 'the types')}")


def _read_typed(label: str, given: Any, fields: Mapping[str, Any]) -> dict[tuple[str, str, str], Callable]:
    """Read forks or joins by types."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ParameterError(
            f"program({label}={given!r}): of several types of state, give a dict of the types above, left and right:"
            f' {{("all", "part", "part"): f}}'
        )
    for signature, function in given.items():
        if not isinstance(signature, tuple) or len(signature) != 3:
            raise ParameterError(f'{label}: {signature!r}: give the types above, left and right, as in ("all", "part", "part")')
        for of in signature:
            _check_type(label, of, fields)
        _check_function(f"{label}: {signature}", function, "fork" if label == "fork" else "typed join")
    return dict(given)


def _check_function(where: str, function: Any, role: str) -> None:
    roles = _TYPED_JOIN if role == "typed join" else _ROLES[role]
    if not callable(function):
        raise ParameterError(f"{where}={function!r}: give a function ({', '.join(roles)})")
    try:
        inspect.signature(function).bind(*roles)
    except TypeError:
        name = getattr(function, "__name__", str(function))
        raise ParameterError(f"{where}: {name} must take ({', '.join(roles)}), whatever it calls them") from None


def _read_emits(given: Any) -> dict[str, Kind]:
    emits = read_emits(given)
    if not emits:
        raise ParameterError('program(): name what it emits and the kinds, as in emits={"sum": "int64"}')
    for name, kind in emits.items():
        if not isinstance(kind, str):
            raise NotSupportedError(f"emits: {name}={kind!r}: programs emit single values; emit them one by one")
        if name == TIME:
            raise ParameterError(f"emits: {name!r} is the event time, which every output has; leave it out")
    return emits


def _read_depends(
    given: Any, tags: Mapping[str, Tag]
) -> tuple[dict[tuple[str, str], tuple[bool, bool]], tuple[tuple[str, str], ...]]:
    """Return the dependence of all pairs, in one part and in two, and the pairs that were added."""
    said = {(a, b): _asked(given, tags[a], tags[b]) for a in tags for b in tags} if callable(given) else _paired(given, tags)
    dependence, completed = {}, []
    for a in tags:
        for b in tags:
            same, other = (x or y for x, y in zip(said[a, b], said[b, a], strict=True))
            dependence[a, b] = same, other
            if (same, other) != said[a, b]:
                completed.append((a, b))
            if same != other and tags[a].parts != tags[b].parts:
                raise ParameterError(
                    f"depends: {a} has {tags[a].parts} parts and {b} has {tags[b].parts}, so they have none in common;"
                    f" give both the same parts= in hr.tag"
                )
            if same != other and (kinds := [one.columns[one.by] for one in (tags[a], tags[b])])[0] != kinds[1]:
                raise ParameterError(
                    f"depends: the key of {a} is {kinds[0]} and that of {b} is {kinds[1]}, so equal keys have different parts;"
                    f" give both the same kind"
                )
    return dependence, tuple(completed)


def _paired(given: Any, tags: Mapping[str, Tag]) -> dict[tuple[str, str], tuple[bool, bool]]:
    said: dict[tuple[str, str], tuple[bool, bool]] = dict.fromkeys(((a, b) for a in tags for b in tags), (False, False))
    form = 'give a list of pairs of tags, as in [("barrier", "value")], or a function of two tags'
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise ParameterError(f"program(depends={given!r}): {form}")
    for pair in given:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ParameterError(f"depends: {pair!r} is no pair of tags; {form}")
        a, b = (one.name if isinstance(one, Tag) else one for one in pair)
        for name in (a, b):
            if name not in tags:
                raise UnknownNameError(f"depends: there is no tag {name!r}; {instead(name, tags, 'the tags')}")
        said[a, b] = True, not (tags[a].by and tags[b].by)
    return said


def _asked(function: Callable, a: Tag, b: Tag) -> tuple[bool, bool]:
    """Ask a function of two tags, for parts that are equal and for parts that are not."""

    def ask(parts: Iterable[tuple[int, int]]) -> bool:
        found = {(x, y): bool(function(TagPart(a.name, x), TagPart(b.name, y))) for x, y in parts}
        if len(set(found.values())) > 1:
            yes, no = (next(pair for pair, value in found.items() if value is wanted) for wanted in (True, False))
            raise ParameterError(
                f"depends: {a.name} and {b.name} depend on each other in the parts {yes} and not in {no}; a function may only"
                f" compare parts, whether they are equal"
            )
        return next(iter(found.values()))

    if not (a.by and b.by):
        # Only one has parts, or none: all of them are treated alike.
        alike = ask((x, y) for x in _some_parts(a) for y in _some_parts(b))
        return alike, alike
    pairs = [(x, y) for x in _some_parts(a) for y in _some_parts(b)]
    same = ask((x, y) for x, y in pairs if x == y)
    different = [(x, y) for x, y in pairs if x != y]
    return same, ask(different) if different else same


def _some_parts(of: Tag) -> list[int]:
    return sorted({0, min(1, of.parts - 1), of.parts - 1})
