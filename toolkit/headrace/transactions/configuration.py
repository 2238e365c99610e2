"""The configuration of a transactional operator, and the tables in which its executors read it.

A configuration is a row of tables: how many executors, which scheme, how chains
are shared, how many events a batch has, the owner of each bucket of records. Row 0
is in force at the start; the planned ones follow, then spare rows for
requests. Executors 0 to threads - 1 are active; the others are parked.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.control.mapping import Mapping
from headrace.memory.cells import read_cell
from headrace.transactions.arrays import ExecutorArrays
from headrace.transactions.words import (
    CHAINS,
    CONFIG,
    FAMILIES,
    FAMILY,
    LOCK,
    MVLK,
    NONE,
    OPERATIONS,
    PARTITION,
    PUNCTUATION,
    SCHEME,
    SERIAL,
    SHARED_EVERYTHING,
    SHARED_NOTHING,
    SHARED_SOCKET,
    SHARING,
    SPECULATION,
    SPECULATIVE,
    THREADS,
    WHOLE,
)

SCHEMES = ("chains", "lock", "mvlk", "partition", "none", "serial", "speculative")
SHARINGS = ("nothing", "everything", "socket")

_SCHEME_NUMBERS = dict(zip(SCHEMES, (CHAINS, LOCK, MVLK, PARTITION, NONE, SERIAL, SPECULATIVE), strict=True))
_SHARING_NUMBERS = dict(zip(SHARINGS, (SHARED_NOTHING, SHARED_EVERYTHING, SHARED_SOCKET), strict=True))
_FAMILY_NUMBERS = dict(zip(FAMILIES, (WHOLE, OPERATIONS, SPECULATION), strict=True))


@dataclass(frozen=True)
class Configuration:
    """One configuration of an operator.

    Parameters
    ----------
    threads : int
        Executors 0 to threads - 1 are active.
    scheme : str
        One of `SCHEMES`.
    sharing : str
        One of `SHARINGS`: among which executors work is taken from each other, where the scheme allows it.
    punctuation : int
        Events of a batch.
    mapping : Mapping
        Which executor owns which buckets of records.
    """

    threads: int
    scheme: str
    sharing: str
    punctuation: int
    mapping: Mapping


def family_of(scheme: str, can_split: bool) -> str:
    """Which executors' loop runs a scheme: "whole", "operations" or "speculative".

    Parameters
    ----------
    scheme : str
    can_split : bool
        No operation of a transaction depends on what another one reads.

    Examples
    --------
    >>> family_of("chains", can_split=True), family_of("chains", can_split=False), family_of("lock", True)
    ('operations', 'whole', 'whole')
    """
    if scheme == "speculative":
        return scheme
    return "operations" if scheme == "chains" and can_split else "whole"


def order_of(scheme: str, has_versions: bool) -> str:
    """Which scheme keeps transactions in order where this one is requested.

    Parameters
    ----------
    scheme : str
    has_versions : bool
        There may be several versions of a row: no table has lists, sets, maps or arrays.

    Examples
    --------
    >>> order_of("mvlk", has_versions=True), order_of("mvlk", has_versions=False)
    ('mvlk', 'lock')

    Notes
    -----
    This holds for "none" too: two threads that make room in one set at the same time would not only give wrong results, but
    corrupt the memory of the whole process.
    """
    return "lock" if scheme in ("mvlk", "none") and not has_versions else scheme


def write_configuration(c: ExecutorArrays, row: int, configuration: Configuration, can_split: bool = False) -> None:
    """Fill one row of the tables the executors read."""
    c.rows[row, THREADS] = configuration.threads
    c.rows[row, SCHEME] = _SCHEME_NUMBERS[order_of(configuration.scheme, len(c.table_places) > 0)]
    c.rows[row, SHARING] = _SHARING_NUMBERS[configuration.sharing]
    c.rows[row, PUNCTUATION] = configuration.punctuation
    c.rows[row, FAMILY] = _FAMILY_NUMBERS[family_of(configuration.scheme, can_split)]
    c.owner[row] = configuration.mapping.owners


def plan_configuration(c: ExecutorArrays, index: int, at: int, configuration: Configuration, can_split: bool = False) -> None:
    """Have configuration row ``index + 1`` come into force before event `at`; `at` must not fall."""
    write_configuration(c, index + 1, configuration, can_split)
    c.plan_at[index] = at


def family_in_force(c: ExecutorArrays) -> str:
    """The family of the configuration in force: which loop an executor enters."""
    return FAMILIES[int(c.rows[int(read_cell(c.words, CONFIG)), FAMILY])]


__all__ = [
    "SCHEMES",
    "SHARINGS",
    "Configuration",
    "family_in_force",
    "family_of",
    "plan_configuration",
    "write_configuration",
]
