"""Specifications that give a tuple several keys (multi key-by, f_MK). Descriptions only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from headrace.arguments import is_whole_number
from headrace.errors import ParameterError
from headrace.expressions.columns import column_name
from headrace.names import explains_arguments


@dataclass(frozen=True)
class Each:
    """Each element of a list column is a key."""

    column: str


@dataclass(frozen=True)
class Words:
    """Each word of a text, as found by Python's ``str.split()``, is a key."""

    column: str


@dataclass(frozen=True)
class Hashtags:
    """Each word that starts with # and is longer, without that #, is a key."""

    column: str


@dataclass(frozen=True)
class Pairs:
    """Each ordered pair of words at most `distance` apart (None: any distance) is a key."""

    column: str
    distance: int | None


@dataclass(frozen=True, eq=False)
class Keys:
    """Each value that a function of a tuple emits is a key."""

    function: Callable
    kind: str


@explains_arguments(kind='give the kind of the keys, too, as in hr.keys(f, "string")')
def keys(function: Callable, kind: str) -> Keys:
    """Give a tuple the keys that a function of it emits, for ``key_by(place=hr.keys(places, "int64"))``.

    Parameters
    ----------
    function : callable
        ``f(t, emit)``: calls ``emit(key)`` for each key, or not at all; compiled, and run once a batch. It can read what
        functions of `headrace.Stream.map` can. A key that it emits twice for a tuple counts once.
    kind : str
        Kind of the keys: "int64", "string", "bool", "timestamp[us]", ...

    Raises
    ------
    ParameterError
        It is no function. Errors inside the function are raised by `key_by`.

    Notes
    -----
    STRETCH (Gulisano et al.), Definition 4: f_MK, which gives a tuple's set of keys.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> def places(t, emit):
    ...     emit(t.origin)
    ...     if t.distance > 1000:
    ...         emit(t.dest)
    >>> flights = pa.table({"ts": [1, 2], "origin": ["JFK", "LGA"], "dest": ["LAX", "JFK"], "distance": [3983, 300]})
    >>> by_place = hr.stream(flights, event_time="ts").key_by(place=hr.keys(places, "string"))
    >>> by_place.window(10).aggregate(n=hr.count()).to_arrow().to_pydict()
    {'ts': [10, 10, 10], 'place': ['JFK', 'LAX', 'LGA'], 'n': [1, 1, 1]}
    """
    if not callable(function):
        raise ParameterError(f"keys({function!r}, {kind!r}): give a function f(t, emit) that emits each key")
    return Keys(function, kind)


def each(column: str) -> Each:
    """Give a tuple one key for each distinct element of a list column, for ``key_by(tag=hr.each("tags"))``.

    Parameters
    ----------
    column : str
        A column of lists.

    Notes
    -----
    STRETCH (Gulisano et al.), Definition 4: f_MK gives a set of keys, in which a key counts once.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> posts = pa.table({"ts": [1, 2], "tags": [["a", "b"], ["a", "a"]]})
    >>> by_key = hr.stream(posts, event_time="ts").key_by(key=hr.each("tags"))
    >>> by_key.window(10).aggregate(n=hr.count()).to_arrow().to_pydict()
    {'ts': [10, 10], 'key': ['a', 'b'], 'n': [2, 1]}
    """
    return Each(column_name("each", column))


def words(column: str) -> Words:
    """Give a tuple one key for each distinct word of a text column, for ``key_by(word=hr.words("text"))``.

    Parameters
    ----------
    column : str
        A column of texts, which ``str.split()`` divides into words.

    Notes
    -----
    STRETCH (Gulisano et al.), Definition 4: f_MK gives a set of keys, in which a key counts once.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> posts = pa.table({"ts": [1, 2], "text": ["so much tea", "tea tea"]})
    >>> by_key = hr.stream(posts, event_time="ts").key_by(key=hr.words("text"))
    >>> by_key.window(10).aggregate(n=hr.count()).to_arrow().to_pydict()
    {'ts': [10, 10, 10], 'key': ['much', 'so', 'tea'], 'n': [1, 1, 2]}
    """
    return Words(column_name("words", column))


def hashtags(column: str) -> Hashtags:
    """Give a tuple one key for each distinct hashtag of a text column, for ``key_by(tag=hr.hashtags("text"))``.

    A hashtag is a word that begins with # and has more; the key is the word without that #.

    Parameters
    ----------
    column : str
        A column of texts, which ``str.split()`` divides into words.

    Notes
    -----
    STRETCH (Gulisano et al.), Definition 4: f_MK gives a set of keys, in which a key counts once.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> posts = pa.table({"ts": [1, 2], "text": ["#rain at #work", "#work # again"]})
    >>> by_key = hr.stream(posts, event_time="ts").key_by(key=hr.hashtags("text"))
    >>> by_key.window(10).aggregate(n=hr.count()).to_arrow().to_pydict()
    {'ts': [10, 10], 'key': ['rain', 'work'], 'n': [1, 2]}
    """
    return Hashtags(column_name("hashtags", column))


def pairs(column: str, distance: float | str = 3) -> Pairs:
    """Key by every ordered pair of words whose positions differ by at most `distance`.

    Parameters
    ----------
    column : str
        A column of texts, which ``str.split()`` divides into words.
    distance : int or "inf"
        From 1, in words; "inf" for any distance.

    Raises
    ------
    ParameterError
        `distance` is neither.

    Examples
    --------
    >>> pairs("text", distance="inf")
    Pairs(column='text', distance=None)
    """
    name = column_name("pairs", column)
    if distance == "inf" or (isinstance(distance, float) and distance == math.inf):
        return Pairs(name, None)
    if not is_whole_number(distance) or distance < 1:
        raise ParameterError(f"pairs({name!r}, distance={distance!r}): give an integer from 1 on, or 'inf'")
    return Pairs(name, int(distance))
