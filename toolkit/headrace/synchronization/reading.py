"""Reads and checks the parts of a program: tags, updates, dependence, types of state, forks and joins."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from headrace.codegen.kinds import Kind, MapOf, kinds_are, scalar
from headrace.codegen.state import named_by_python, read_emits, read_state
from headrace.codegen.text import is_attribute
from headrace.errors import NotSupportedError, ParameterError, UnknownNameError
from headrace.names import instead
from headrace.synchronization.tags import PERIODIC, Every, Tag, tag

TIME = "ts"
"""What functions call the event time."""
_ROLES = {
    "update": ("state", "e", "emit"),
    "fork": ("state", "left", "right", "tags_left", "tags_right"),
    "join": ("into", "other"),
    "typed join": ("into", "left", "right"),  # of a program with several types of state
    "depends": ("a", "b"),
}
"""What functions of each role take."""
_COLUMN_KINDS = "int64, float64, bool, string, timestamp[us]"


class TagPart(NamedTuple):
    """A tag as a `depends` function sees it.

    It equals a string that is its name, and an `hr.tag` of that name, whatever its part: people write ``"barrier" in (a, b)``,
    and if that were False, nothing would depend and sums would be silently wrong. It equals another one of its name and
    part. So two parts of a tag equal one string and not each other; all hash as the name does, by which each is found in a set.

    Examples
    --------
    >>> a, b = TagPart("inc", 0), TagPart("inc", 1)
    >>> "inc" in (a, b), a in {"inc", "stop"}, a != "stop", a == b, a == tag("inc", by="key")
    (True, True, True, False, True)
    """

    name: str
    part: int

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TagPart):
            return tuple(self) == tuple(other)
        if isinstance(other, str):
            return self.name == other
        if isinstance(other, Tag):
            return self.name == other.name
        # False would be taken for "they do not depend on each other".
        raise TypeError(f"{other!r:.60} is not a tag, but tag {self.name} is compared with it; compare with the name of a tag")

    def __ne__(self, other: object) -> bool:  # a tuple has its own
        return not self == other

    def __hash__(self) -> int:
        return hash(self.name)


def check_by(fields: Mapping[str, Any], tags: Mapping[str, Tag]) -> None:
    """Refuse a state of which only some fields are by the key of tags."""
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
    """The kind that functions see for a kind of key."""
    known = scalar(kind)
    return kind if known is None else known.in_functions


def read_tags(given: Any) -> dict[str, Tag]:
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
        if not isinstance(name, str) or not is_attribute(name):
            raise ParameterError(f"{where}: {name!r} is not a Python name, and no function can read it; rename the column")
        if name == TIME:
            raise ParameterError(f"{where}: {name!r} is the event time, which every event has; leave it out, and read e.{TIME}")
        kind = "string" if str(value) == "large_string" else str(value)  # Arrow's types go by their names
        if scalar(kind) is None or kind in ("int32", "float32"):
            raise ParameterError(f"{where}: {name}={value!r}: no function can read that; {kinds_are(value, _COLUMN_KINDS)}")
        columns[name] = kind
    if of.by is not None:
        if of.by not in columns:
            there = instead(of.by, columns, "the columns")
            raise UnknownNameError(f"{where}: its key {of.by!r} is not a column of the tag; {there}")
        if columns[of.by] == "float64":
            raise ParameterError(f"{where}: its key {of.by!r} is float64; a key is an integer, a bool or a string")
    return columns


def read_update(given: Any, tags: Mapping[str, Tag]) -> dict[str, Callable]:
    if not isinstance(given, Mapping):
        raise ParameterError(f"program(update={given!r}): give a dict of tags and functions, as in {{'value': add}}")
    for name in given:
        if name not in tags:
            raise UnknownNameError(f"update: there is no tag {name!r}; {instead(name, tags, 'the tags')}")
    for name in tags:
        if name not in given:
            raise ParameterError(f"update: tag {name!r} has no function; give update={{{name!r}: f}} with f(state, e, emit)")
        if not isinstance(given[name], Mapping):
            check_function(f"update: {name}", given[name], "update")
    return {name: given[name] for name in tags}


def read_states(
    states: Any, processes: Any, fork: Any, join: Any, update: Any, tags: Mapping[str, Tag]
) -> dict[str, dict[Any, Any]]:
    """Read what only a program with several types of state has, by the names of `Definition`."""
    if not isinstance(states, Mapping) or len(states) < 2:
        raise ParameterError(
            f'program(states={states!r}): give several types of state and their fields, as in {{"all": {{"sum": "int64"}},'
            f' "part": {{"sum": "int64"}}}}; one type is state='
        )
    for of in states:
        if not isinstance(of, str) or not of.isidentifier():
            raise ParameterError(f"states: {of!r}: give a type of state a name, as Python has them")
    fields = {of: read_state(own, has_keyed_tags=True) for of, own in states.items()}
    for of, own in fields.items():
        for name, field in own.items():
            if isinstance(field.kind, MapOf) and field.kind.by is not None:
                raise ParameterError(
                    f"states: {of}: {name}={field.kind!r}: entries are handed over one by one between states of one type, since"
                    f" its fork and its join split and join them; leave by= out, or give one type of state, as state="
                )
    may = _read_processes(processes, fields, tags)
    functions: dict[str, dict[str, Callable]] = {}
    for name, given in read_update(update, tags).items():
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
            check_function(f"update: {name}", functions[name][of], "update")
    forks, joins = (_read_typed(label, given, fields) for label, given in (("fork", fork), ("join", join)))
    for one, other, missing in ((forks, joins, "join"), (joins, forks, "fork")):
        for signature in one:
            if signature not in other:
                raise ParameterError(
                    f"{missing}: there is none for {signature!r}; what is forked is joined again: give"
                    f" {missing}={{{signature!r}: f}}"
                )
    reachable = {next(iter(fields))}
    while more := {to for of, *sides in forks for to in sides if of in reachable} - reachable:
        reachable |= more
    for of in fields:
        if of not in reachable:
            raise ParameterError(
                f"states: {of!r} cannot be reached: no forks lead from {next(iter(fields))!r} to it; give one, or leave it out"
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
        check_function(f"{label}: {signature}", function, "fork" if label == "fork" else "typed join")
    return dict(given)


def check_function(where: str, function: Any, role: str) -> None:
    roles = _ROLES[role]
    if not callable(function):
        raise ParameterError(f"{where}={function!r}: give a function ({', '.join(roles)})")
    try:
        inspect.signature(function).bind(*roles)
    except TypeError:
        name = getattr(function, "__name__", str(function))
        raise ParameterError(f"{where}: {name} must take ({', '.join(roles)}), whatever it calls them") from None


def read_program_emits(given: Any) -> dict[str, Kind]:
    emits = read_emits(given)
    if not emits:
        raise ParameterError('program(): name what it emits and the kinds, as in emits={"sum": "int64"}')
    for name, kind in emits.items():
        if not isinstance(kind, str):
            raise NotSupportedError(f"emits: {name}={kind!r}: programs emit single values; emit them one by one")
        if name == TIME:
            raise ParameterError(f"emits: {name!r} is the event time, which every output has; leave it out")
    return emits


def read_depends(
    given: Any, tags: Mapping[str, Tag]
) -> tuple[dict[tuple[str, str], tuple[bool, bool]], tuple[tuple[str, str], ...]]:
    """Return the dependence of all pairs, in one part and in two, and the pairs that were added."""
    if callable(given):
        check_function("depends", given, "depends")
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
            raise ParameterError(f"depends: {pair!r} is not a pair of tags; {form}")
        a, b = (one.name if isinstance(one, Tag) else one for one in pair)
        for name in (a, b):
            if name not in tags:
                raise UnknownNameError(f"depends: there is no tag {name!r}; {instead(name, tags, 'the tags')}")
        said[a, b] = True, not (tags[a].by and tags[b].by)
    return said


def _asked(function: Callable, a: Tag, b: Tag) -> tuple[bool, bool]:
    """Ask a `depends` function about two tags, for equal parts and for different ones."""

    def ask(parts: Iterable[tuple[int, int]]) -> bool:
        found = {(x, y): _answer(function, (a, b), (x, y)) for x, y in parts}
        if len(set(found.values())) > 1:
            yes, no = (next(pair for pair, value in found.items() if value is wanted) for wanted in (True, False))
            raise ParameterError(
                f"depends: {a.name} and {b.name} depend on each other in the parts {yes} and not in {no}; a function may only"
                f" compare parts, whether they are equal"
            )
        return next(iter(found.values()))

    if not (a.by and b.by):
        # At most one of the tags has parts: all parts are treated alike.
        alike = ask((x, y) for x in _some_parts(a) for y in _some_parts(b))
        return alike, alike
    pairs = [(x, y) for x in _some_parts(a) for y in _some_parts(b)]
    same = ask((x, y) for x, y in pairs if x == y)
    different = [(x, y) for x, y in pairs if x != y]
    return same, ask(different) if different else same


def _answer(function: Callable, tags: tuple[Tag, Tag], parts: tuple[int, int]) -> bool:
    """Ask a function once; only a bool is accepted, since a function that forgets to return would say that nothing depends."""
    of = " and ".join(f"{one.name} (part {part})" if one.by else one.name for one, part in zip(tags, parts, strict=True))
    try:
        found = function(*(TagPart(one.name, part) for one, part in zip(tags, parts, strict=True)))
    except Exception as error:
        raise ParameterError(
            f"depends: asked for {of}, it failed with {type(error).__name__}: {error}; what it is given are tags, with .name"
            f" and .part"
        ) from error
    if not isinstance(found, bool | np.bool_):
        raise ParameterError(f"depends: asked for {of}, it returned {found!r:.60}; return True where they depend, or else False")
    return bool(found)


def _some_parts(of: Tag) -> list[int]:
    return sorted({0, min(1, of.parts - 1), of.parts - 1})
