"""An operator's configuration (members, and an owner for each bucket), and how a request becomes one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.arguments import is_whole_number
from headrace.control.mapping import Mapping
from headrace.elastic.arrays import InstanceArrays
from headrace.errors import ReconfigurationError
from headrace.runtime.steerable import checked_threads


@dataclass(frozen=True)
class Configuration:
    """The members, and the owner of each bucket. A member may own no bucket."""

    members: tuple[int, ...]
    mapping: Mapping

    @classmethod
    def even(cls, threads: int) -> Configuration:
        return cls(tuple(range(threads)), Mapping.even(threads))


def check_threads(threads: object, max_threads: int) -> tuple[int, ...]:
    """Turn `threads` (a count, or the instances themselves) into members, or raise an error that says what is wrong."""
    if isinstance(threads, (str, bytes)) or not isinstance(threads, Iterable):
        return tuple(range(checked_threads(threads, max_threads)))
    members = tuple(sorted(set(threads)))
    if not members or not all(is_whole_number(m) and 0 <= m < max_threads for m in members):
        raise ReconfigurationError(
            f"threads={threads!r}: give at least one of the instances, which are numbered 0 to {max_threads - 1}"
        )
    return tuple(int(m) for m in members)


def resolve(
    threads: object, mapping: Mapping | None, current: Configuration, max_threads: int
) -> Configuration:
    """Complete a request from the newest known configuration."""
    if threads is None and mapping is None:
        raise ReconfigurationError("reconfigure(): give threads=, mapping=, or both")
    members = current.members if threads is None else check_threads(threads, max_threads)
    if mapping is None:
        return current if members == current.members else Configuration(members, Mapping.even(members))
    if not isinstance(mapping, Mapping):
        mapping = Mapping(mapping)
    absent = sorted(set(mapping.instances) - set(members))
    if absent:
        raise ReconfigurationError(
            f"mapping: instance {absent[0]} owns buckets but is not active (active: {list(members)});"
            f" pass threads= as well, or map its buckets elsewhere"
        )
    return Configuration(members, mapping)


def write_configuration(c: InstanceArrays, row: int, configuration: Configuration) -> None:
    """Fill one row of the tables that the workers read."""
    ranges = configuration.mapping.ranges()
    c.member[row] = 0
    c.low[row] = 0
    c.width[row] = 0
    c.contiguous[row] = ranges is not None
    c.owner[row] = configuration.mapping.owners
    for member in configuration.members:
        c.member[row, member] = 1
        if ranges is not None:
            c.low[row, member], c.width[row, member] = ranges.get(member, (0, 0))


def plan_configuration(c: InstanceArrays, index: int, at: int, configuration: Configuration) -> None:
    """Have configuration row ``index + 1`` come into force before tuple `at` of the merged input; `at` must not fall."""
    write_configuration(c, index + 1, configuration)
    c.plan_at[index] = at
