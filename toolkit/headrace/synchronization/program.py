"""Programs: what a user writes of one, read and checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.codegen.kinds import Kind, scalar
from headrace.codegen.state import named_by_python, read_emits, read_state
from headrace.errors import NotSupportedError, ParameterError, UnknownNameError
from headrace.names import explains_arguments, instead
from headrace.synchronization.checking import EXAMPLES, Checked, check
from headrace.synchronization.definition import Definition
from headrace.synchronization.tags import PERIODIC, Every, Tag, tag

if TYPE_CHECKING:
    from headrace.synchronization.plans import Plan

TIME = "ts"
"""What functions call the event time."""
_ROLES = {
    "update": ("state", "e", "emit"),
    "fork": ("state", "left", "right", "tags_left", "tags_right"),
    "join": ("into", "other"),
}
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
        do not depend on each other may change places.

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
        fields = ", ".join(f"{name}: {field.kind}" for name, field in self.state.items())
        emits = ", ".join(f"{name}: {kind}" for name, kind in self.emits.items())
        # Of two tags that depend on each other, the pair in the order of the tags.
        order = list(self.tags)
        pairs = [(a, b) for i, a in enumerate(order) for b in order[i:] if any(self.dependence[a, b])]
        said = ", ".join(f"{a} and {b}" for a, b in pairs) or "nothing"
        completed = "".join(f"; {a} on {b} too, since dependence is symmetric" for a, b in self.completed)
        return (
            f"<Program {self.name!r}: tags {', '.join(map(str, self.tags.values()))}; state {fields or 'none'}; emits {emits};"
            f" depend on each other: {said}{completed}>"
        )


class TagPart(NamedTuple):
    """A tag as a `depends` function sees it."""

    name: str
    part: int


@explains_arguments(init="state", emit="emits", outputs="emits", on="update", updates="update", dependencies="depends")
def program(
    *,
    tags: Mapping[str | Tag, Mapping[str, Any] | Every],
    update: Mapping[str, Callable],
    emits: Mapping[str, Any],
    depends: Iterable[tuple[str, str]] | Callable[[Any, Any], bool] = (),
    state: Mapping[str, Any] | None = None,
    fork: Callable | None = None,
    join: Callable | None = None,
    name: str = "program",
) -> Program:
    """Say what a sequential computation is, which of its events depend on each other, and how its state splits.

    The result is that of one event after another, in the order of events (event time, input, position), whatever the
    plan that runs it.

    Parameters
    ----------
    tags : dict
        What kinds of events there are: name -> columns and their kinds ("int64", "float64", "bool", "string",
        "timestamp[us]"). `hr.tag` in place of a name gives it a key; `hr.every` in place of columns has event time make
        its events.
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
        Fields of the state: name -> kind or first value, as of `hr.operator`.
    fork, join : functions, optional
        ``fork(state, left, right, tags_left, tags_right)`` reads a state and writes two new ones, which then process
        independent events: ``"barrier" in tags_left`` says whether events of this tag will come left,
        ``("inc", key) in tags_left`` of a tag with keys. ``join(into, other)`` adds the second to the first. Without
        them the program runs on one leaf. A list, set or map of ``state`` or of ``other`` that is assigned as a whole, and
        not used besides, as in ``left.counts = state.counts``, is handed over without a copy.
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
    """
    read_tags = _read_tags(tags)
    if not isinstance(name, str) or not name.isidentifier():
        raise ParameterError(f"program(name={name!r}): give a name, as Python has them")
    functions = _read_update(update, read_tags)
    if (fork is None) != (join is None):
        given, missing = ("fork", "join") if join is None else ("join", "fork")
        raise ParameterError(
            f"program({given}=...) without {missing}=: what is forked is joined again; give both, or none of them for one leaf"
        )
    for label, function in (("fork", fork), ("join", join)):
        if function is not None:
            _check_function(label, function, label)
    dependence, completed = _read_depends(depends, read_tags)
    return Program(name, read_tags, read_state(state), _read_emits(emits), functions, fork, join, completed, dependence)


def _read_tags(given: Any) -> dict[str, Tag]:
    if not isinstance(given, Mapping) or not given:
        raise ParameterError(f'program(tags={given!r}): give a dict of tags with their columns: {{"value": {{"x": "int64"}}}}')
    tags: dict[str, Tag] = {}
    for key, columns in given.items():
        one = key if isinstance(key, Tag) else tag(key)
        if one.name in tags:
            raise ParameterError(f"tags: {one.name!r} is there twice; give them names of their own")
        if isinstance(columns, Every):
            if one.by is not None:
                raise ParameterError(f"tags: {one.name!r} is periodic, and its events have no key; leave out by={one.by!r}")
            tags[one.name] = Tag(one.name, columns=PERIODIC, every=columns.duration)
        else:
            tags[one.name] = Tag(one.name, one.by, one.parts, _read_columns(one, columns))
    if all(one.every is not None for one in tags.values()):
        raise ParameterError(f"program(tags={given!r}): nothing would come; name a tag whose events come from an input")
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
        _check_function(f"update: {name}", given[name], "update")
    return {name: given[name] for name in tags}


def _check_function(where: str, function: Any, role: str) -> None:
    roles = _ROLES[role]
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
