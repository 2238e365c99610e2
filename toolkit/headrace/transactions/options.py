"""Options of `start` for the transactions engine, checked."""

from __future__ import annotations

from collections.abc import Mapping as Dict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from headrace.arguments import whole
from headrace.control.mapping import Mapping
from headrace.errors import ParameterError
from headrace.names import instead
from headrace.plan.nodes import Query
from headrace.runtime.options import (
    DEFAULT_MAX_STATE,
    RunOptions,
    check_named,
    checked_max_state,
    largest_count,
    pool_size,
    read_changes,
)
from headrace.transactions.adaptive import TRIED, AdaptiveScheme
from headrace.transactions.arrays import MOST_PUNCTUATION
from headrace.transactions.configuration import SCHEMES, SHARINGS, Configuration
from headrace.transactions.reconfiguration import in_turn, not_safe, warn_unsafe
from headrace.transactions.snapshots import parse_every
from headrace.transactions.tables import Table
from headrace.windows import parse_seconds

DEFAULT_SCHEME = "chains"
ADAPTIVE = "adaptive"
"""What `start` takes as a scheme, beside `SCHEMES`: a controller chooses."""
DEFAULT_PUNCTUATION = 500
DEFAULT_MAX_DELAY = "10ms"
CHAIN_KINDS = ("radix", "skiplist")
_PLANNED = ("threads", "scheme", "sharing", "punctuation")


class TransactionOptions:
    """Checked options of `start` for the transactions engine; `run` has those of every engine.

    Parameters
    ----------
    threads : int
        Active executors.
    max_threads : int
        All executors.
    scheme : str
        One of `SCHEMES`, or "adaptive", which tries them while the run goes on: see
        `headrace.controllers.AdaptiveScheme`.
    sharing : {"nothing", "everything", "socket"}, optional
        Whose work an executor may take. By default nothing where operations are run in chains, and everything
        where transactions run whole: an executor that counts others down has more to do than one that does not. With operations
        in chains the fuller of two executors has, in batches of 500, 1.04 times its share of Toll Processing's 100 segments at
        Zipf 0.2, 1.13 times at 0.6 and 1.27 at 1.0, and 1.03 to 1.07 times of 10,000 records: sharing has to be worth more
        than it costs, which is not known before a run. ``scheme="adaptive"`` tries it.
    punctuation : int
        Events in a batch.
    max_delay : duration
        How long an event may wait for its batch to fill.
    mapping : Mapping, optional
        Which executor owns which buckets of records.
    unsafe : bool
        Allow ``scheme="none"``, whose results are wrong; an `UnsafeResultsWarning` says so.
    reconfigure : sequence of (row, threads or dict)
        Changes before rows: ``(1000, 4)``, ``(2000, {"scheme": "lock"})``.
    max_operations : int
        Most keys that a batch, and so a transaction, may name; by default 16 for each event.
    max_state : int
        Most bytes for lists, sets and maps of the tables.
    chains : {"radix", "skiplist"}
        How operation chains are made: by sorting slices of a batch by parts of the records, or, for comparison, by
        inserting into concurrent skip lists.
    snapshot_every : int or duration, optional
        Copy all tables every so many events, or at such intervals.
    """

    lacks: ClassVar[Dict[str, str]] = {
        "mode": "transactions share their tables, there is no other way to run them",
        "gate": "transactions have one reader of the merged input, and so one gate",
        **dict.fromkeys(("schedule", "queues", "reorder", "time_slice"), "transactions have no stages: a scheme orders them"),
        **dict.fromkeys(("plan", "leaves", "heartbeat"), "transactions share their tables, there is no plan of leaves"),
    }

    def __init__(
        self,
        run: RunOptions | None = None,
        threads: Any = 1,
        max_threads: int | None = None,
        scheme: str = DEFAULT_SCHEME,
        sharing: str | None = None,
        punctuation: int = DEFAULT_PUNCTUATION,
        max_delay: Any = DEFAULT_MAX_DELAY,
        mapping: Mapping | None = None,
        unsafe: bool = False,
        reconfigure: Sequence[tuple[int, Any]] = (),
        max_operations: int | None = None,
        max_state: int = DEFAULT_MAX_STATE,
        snapshot_every: Any = None,
        chains: str = "radix",
    ):
        self._run = run if scheme == ADAPTIVE else None
        scheme = DEFAULT_SCHEME if scheme == ADAPTIVE else scheme
        self._is_sharing_asked = sharing is not None
        sharing = "nothing" if sharing is None else sharing
        self._threads = threads if isinstance(threads, dict) else {None: threads}
        self.unsafe = unsafe
        self.debug = run is not None and run.debug
        self.max_delay_ns = round(1e9 * parse_seconds(max_delay, "max_delay"))
        self._planned = read_changes(reconfigure, (*_PLANNED, "mapping"), '{"scheme": "lock"}')
        named = [*self._threads.values(), *(requested.get("threads", 1) for _, requested in self._planned)]
        self.max_threads = pool_size(max_threads, named)
        self.max_operations = 0 if max_operations is None else whole("max_operations", max_operations, 1, 1 << 30)
        self.max_state = checked_max_state(max_state)
        self.snapshot_every = parse_every(snapshot_every)
        if chains not in CHAIN_KINDS:
            raise ParameterError(f"chains={chains!r}: {instead(chains, CHAIN_KINDS, 'the ways to make chains')}")
        self.has_skip_lists = chains == "skiplist"
        self._first = self.checked({
            "threads": largest_count(self._threads.values()), "scheme": scheme, "sharing": sharing,
            "punctuation": punctuation, "mapping": None,
        })  # fmt: skip
        self._mapping = mapping
        for count in self._threads.values():
            whole("threads", count, 1, self.max_threads)
            self.checked({name: getattr(self._first, name) for name in _PLANNED} | {"threads": count, "mapping": mapping})
        for _, requested in self._planned:
            # A mapping given alone has to fit the threads in force by then: `planned` checks that.
            anything = {"threads": self.max_threads, "scheme": scheme, "sharing": sharing, "punctuation": 1, "mapping": None}
            self.checked(anything | requested)
        if run is not None and "none" in (scheme, *(requested.get("scheme") for _, requested in self._planned)):
            warn_unsafe()

    def checked(self, requested: Dict[str, Any]) -> Configuration:
        """Return a full configuration; `ParameterError` naming what cannot be had."""
        threads = whole("threads", requested["threads"], 1, self.max_threads)
        scheme, sharing, mapping = requested["scheme"], requested["sharing"], requested["mapping"]
        if scheme not in SCHEMES:
            raise ParameterError(f"scheme={scheme!r}: {instead(scheme, (*SCHEMES, ADAPTIVE), 'the schemes')}")
        if scheme == "none" and self.unsafe is not True:
            raise not_safe("pass")
        if sharing not in SHARINGS:
            raise ParameterError(f"sharing={sharing!r}: {instead(sharing, SHARINGS, 'the ways to share')}")
        if mapping is None:
            mapping = in_turn(threads)
        elif not isinstance(mapping, Mapping):
            raise ParameterError(f"mapping={mapping!r}: give a headrace.Mapping")
        elif max(mapping.owners) >= threads:
            raise ParameterError(
                f"mapping: executor {max(mapping.owners)} owns buckets, and there are {threads} threads; raise threads=, or map"
                f" all buckets to executors 0 to {threads - 1}"
            )
        punctuation = whole("punctuation", requested["punctuation"], 1, MOST_PUNCTUATION)
        return Configuration(threads, scheme, sharing, punctuation, mapping)

    def check_operators(self, operators: Sequence[str]) -> None:
        """Raise `ParameterError` if an option names an operator that is not there."""
        check_named("threads", self._threads, operators)

    def look_at(self, query: Query) -> None:
        """Refuse a table that several operators use and one of them writes: each has rows of its own.

        Raises
        ------
        ParameterError
        """
        users: dict[Table, list[str]] = {}
        writers: dict[Table, str] = {}
        for node in query.operators:
            if node.spec.options is not TransactionOptions:
                continue
            spec: Any = node.spec
            branch = query.branches[node.name][0]
            bound = spec.bind(branch.schema, branch.event_time)
            for table in bound.tables:
                users.setdefault(table, []).append(node.name)
            for lowered in bound.lowered:
                writers |= {row.table: node.name for row in lowered.rows.values() if row.is_written}
        for table, writer in writers.items():
            if len(users[table]) > 1:
                together = ", ".join(map(repr, users[table]))
                raise ParameterError(
                    f"the operators {together} use one table, {table.name!r}, and {writer!r} writes to it, but each operator has"
                    f" rows of its own; give the functions to one operator, .transact(f, g), or make a table for each"
                )

    def attach(self, operator: str, fitting: Sequence[str]) -> None:
        """Have a controller choose among schemes that fit, if this was asked for; the user's own controllers go before it."""
        if self._run is not None:
            asked = self._run.controllers
            users = asked.pop(None, None) or asked.pop(operator, None)
            before = users if isinstance(users, Sequence) else [] if users is None else [users]
            asked[operator] = [*before, AdaptiveScheme([scheme for scheme in TRIED if scheme in fitting])]

    @property
    def adapts(self) -> bool:
        """Whether a controller chooses the scheme."""
        return self._run is not None

    def initial(self, operator: str, can_split: bool) -> Configuration:
        """Configuration 0 of an operator, whose transactions are run as operations or whole."""
        threads = int(self._threads.get(operator, self._threads.get(None, 1)))
        first = self._first
        if not (self._is_sharing_asked or can_split):
            first = replace(first, sharing="everything")
        if self._mapping is not None and max(self._mapping.owners) < threads:
            return replace(first, threads=threads, mapping=self._mapping)
        return replace(first, threads=threads, mapping=in_turn(threads))

    def planned(self, operator: str, can_split: bool) -> list[tuple[int, Configuration]]:
        """The planned changes, (row, configuration), by rising row."""
        found, present = [], self.initial(operator, can_split)
        for at, requested in self._planned:
            mapping = None if "threads" in requested else present.mapping
            present = self.checked({name: getattr(present, name) for name in _PLANNED} | {"mapping": mapping} | requested)
            found.append((at, present))
        return found
