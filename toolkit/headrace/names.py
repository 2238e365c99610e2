"""Errors for unknown names, with the closest known one as a suggestion.

Every message that refuses a name (an argument, a method, a column, an operator) gets its suggestion here.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from headrace.errors import ArgumentError, MissingAttributeError

_MOST_LISTED = 30
_FEW = 8
"""Up to this many names are all listed, even where one of them is close."""
_MOST_COMPARED = 2_000
_LEAST_PREFIX = 3
_CLOSE = 0.8
"""Names that do not begin alike have to be so close: `gate` does not mean `rate`."""
P = ParamSpec("P")
R = TypeVar("R")


def closest(name: object, names: Iterable[str]) -> str | None:
    """Find the name that was probably meant: case, underscores and a few letters may differ.

    Examples
    --------
    >>> closest("thread", ["threads", "rate"]), closest("toPandas", ["to_arrow", "to_pandas"])
    ('threads', 'to_pandas')
    >>> closest("agg", ["window", "aggregate"]), closest("colour", ["threads", "rate"]), closest("gate", ["rate"])
    ('aggregate', None, None)
    """
    if not isinstance(name, str):
        return None
    by_plain: dict[str, str] = {}
    for one in itertools.islice(names, _MOST_COMPARED):
        by_plain.setdefault(_plain(one), one)
    wanted = _plain(name)
    near = [
        one
        for one in difflib.get_close_matches(wanted, by_plain)
        if one[0] == wanted[0] or difflib.SequenceMatcher(None, wanted, one).ratio() >= _CLOSE
    ]
    if not near and len(wanted) >= _LEAST_PREFIX:
        longer = [plain for plain in by_plain if plain.startswith(wanted)]
        near = longer if len(longer) == 1 else []
    return by_plain[near[0]] if near else None


def _plain(name: str) -> str:
    return name.casefold().replace("_", "").replace("-", "")


def listed(names: Sequence[str], most: int = _MOST_LISTED) -> str:
    """Write a list of names; if there are many, the first ones and the number of the rest.

    Examples
    --------
    >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], most=2)
    ('a, b, c', 'a, b and 1 more')
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def instead(name: object, names: Iterable[str], what: str, write: str = "{!r}") -> str:
    """Say which name to write instead of an unknown one.

    Parameters
    ----------
    name : str
        The name given.
    names : iterable of str
        The known names.
    what : str
        What the names are, in the plural and with "the".
    write : str
        Format in which a name is written.

    Examples
    --------
    >>> instead("chrs", ["ts", "chars"], "the columns")
    "did you mean 'chars'? the columns are 'ts', 'chars'"
    >>> instead("colour", ["ts"], "the columns")
    "the columns are 'ts'"
    """
    names = list(names)
    near = closest(name, names)
    meant = "" if near is None else f"did you mean {write.format(near)}?"
    if meant and len(names) > _FEW:
        return meant
    return f"{meant} {what} are {listed([write.format(one) for one in names]) or 'none'}".lstrip()


def missing_attribute(of: object, name: str, hints: Mapping[str, str] | None = None) -> MissingAttributeError:
    """Make the error for an attribute that an object does not have; for `__getattr__`.

    Parameters
    ----------
    of : object
    name : str
        Name of the attribute. Python or a notebook asks for names that begin with an underscore: these get no suggestion.
    hints : mapping of str to str, optional
        Attribute -> what to write instead, where that is known.
    """
    kind = type(of).__name__
    there = [one for one in dir(type(of)) if not one.startswith("_")]
    return _missing(f"{'an' if kind[0] in 'AEIOU' else 'a'} {kind} has no {name!r}", name, there, hints or {}, ".")


def missing_from_module(
    module: str, name: str, names: Sequence[str], hints: Mapping[str, str] | None = None
) -> MissingAttributeError:
    """Make the error for a name that a module does not have; for its `__getattr__`. `hints` as in `missing_attribute`."""
    return _missing(f"{module} has no {name!r}", name, names, hints or {}, "")


def _missing(
    said: str, name: str, names: Sequence[str], hints: Mapping[str, str], before: str
) -> MissingAttributeError:
    if name.startswith("_"):
        return MissingAttributeError(said, name=name)
    near = name if name in hints else closest(name, [*names, *hints])
    if near in hints:
        return MissingAttributeError(f"{said}; write {hints[near]}", name=name)
    meant = f"did you mean {before}{near}?" if near else f"it has {', '.join(names)}"
    return MissingAttributeError(f"{said}; {meant}", name=name)


def explains_arguments(**meant: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator: unknown arguments raise an `ArgumentError` that names the closest one, and a missing one says what to do.

    Parameters
    ----------
    **meant : str
        For the name that other libraries have for an argument: its name here, or a sentence that says what to do instead. For
        an argument of the function itself: what to do if it is missing; for its ``**options``: if one is given without a name.

    Examples
    --------
    >>> @explains_arguments(workers="threads")
    ... def start(rows, threads=1): ...
    >>> start([], thread=2)
    Traceback (most recent call last):
    headrace.errors.ArgumentError: start(thread=2): there is no such argument; did you mean threads=? \
the arguments are rows=, threads=
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        called = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]  # a class is called by its own name

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise _explained(called, signature, args, kwargs, meant, error) from None
            return function(*args, **kwargs)

        return call

    return decorate


def _explained(
    called: str, signature: inspect.Signature, args: Sequence[Any], given: Mapping[str, Any], meant: Mapping[str, str],
    error: TypeError,
) -> ArgumentError:
    names = [name for name, one in signature.parameters.items() if one.kind != one.VAR_POSITIONAL and name != "self"]
    takes_any_name = any(one.kind == one.VAR_KEYWORD for one in signature.parameters.values())
    for name, value in given.items():
        if name not in signature.parameters and not takes_any_name:
            return no_argument(f"{called}({name}={value!r})", name, names, meant)
    missing = next((name for name in names if name in meant and str(error).endswith(f"'{name}'")), None)
    if missing is not None:
        return ArgumentError(f"{called}({', '.join(f'{name}={value!r}' for name, value in given.items())}): {meant[missing]}")
    options = next((name for name in names if signature.parameters[name].kind == inspect.Parameter.VAR_KEYWORD), "")
    if options in meant and str(error).startswith("too many positional"):
        unnamed = args[1:] if "self" in signature.parameters else args
        return ArgumentError(f"{called}({', '.join(map(repr, unnamed))}): {meant[options]}")
    return ArgumentError(f"{called}(): {error}; the arguments are {', '.join(f'{name}=' for name in names)}")


def no_argument(call: str, name: str, names: Sequence[str], meant: Mapping[str, str] | None = None) -> ArgumentError:
    """Make the error for an unknown argument; `meant` maps names of other libraries to those here, or to a sentence."""
    known = (meant or {}).get(name, "")
    if known in names:
        return ArgumentError(f"{call}: there is no such argument; write {known}=")
    if " " in known:
        return ArgumentError(f"{call}: there is no such argument; {known}")
    return ArgumentError(f"{call}: there is no such argument; {instead(name, names, 'the arguments', '{}=')}")
