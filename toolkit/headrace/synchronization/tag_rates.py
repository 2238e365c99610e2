"""How often events of each implementation tag come: what optimizers weigh."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.errors import ParameterError, UnknownNameError
from headrace.names import instead
from headrace.synchronization.definition import Definition
from headrace.synchronization.tag_ranges import tags_text
from headrace.synchronization.tags import ImplementationTag


def read_rates(
    program: Definition, tags: Sequence[ImplementationTag], given: Mapping[Any, Any]
) -> dict[ImplementationTag, float]:
    """Read the rate of each implementation tag.

    Parameters
    ----------
    program : Program
    tags : sequence of ImplementationTag
        All there are.
    given : mapping
        Name of a tag -> events per second, shared evenly by its parts and streams, or a list of one number a stream,
        shared by its parts; or (tag, part, stream) -> events per second. Only the ratios count, but for a plan by latency.

    Returns
    -------
    dict of ImplementationTag to float
    """
    if not isinstance(given, Mapping):
        raise ParameterError(f'rates={given!r}: give a dict of tags and events per second, as in {{"value": 1000, "barrier": 1}}')
    of_name: dict[str, list[ImplementationTag]] = {name: [] for name in program.tags}
    for tag in tags:
        of_name[tag.tag].append(tag)
    rates: dict[ImplementationTag, float] = {}
    for key, value in given.items():
        if isinstance(key, tuple):
            if key not in of_name.get(key[0], ()):
                raise ParameterError(f"rates: there is no {key!r}; the tags are {tags_text(tags)}")
            rates[ImplementationTag(*key)] = _rate(key, value)
        elif key not in of_name:
            raise UnknownNameError(f"rates: there is no tag {key!r}; {instead(key, program.tags, 'the tags')}")
        else:
            for tag in of_name[key]:
                rates.setdefault(tag, 0.0)
            rates.update(_shared(key, value, of_name[key]))
    for name, ones in of_name.items():
        if ones and not any(one in rates for one in ones):
            raise ParameterError(f"rates: {name!r} is missing; give its events per second, 0 if it has none")
    return {tag: rates.get(tag, 0.0) for tag in tags}


def _shared(name: str, given: Any, tags: Sequence[ImplementationTag]) -> dict[ImplementationTag, float]:
    if not isinstance(given, Sequence) or isinstance(given, str):
        return dict.fromkeys(tags, _rate(name, given) / max(1, len(tags)))
    streams = 1 + max((tag.stream for tag in tags), default=-1)
    if len(given) != streams:
        raise ParameterError(f"rates: {name}={given!r}: give {streams} numbers, one a stream, or one number for all of them")
    parts = len(tags) // max(1, streams)
    return {tag: _rate(name, given[tag.stream]) / parts for tag in tags}


def _rate(name: Any, given: Any) -> float:
    try:
        rate = float(given)
    except (TypeError, ValueError):
        rate = math.nan
    if not 0 <= rate < math.inf:
        raise ParameterError(f"rates: {name}={given!r}: give events per second, a number from 0 on")
    return rate
