"""DuckDB: one query over the Arrow tables, an upper bound for streaming systems."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from headrace_bench.peers.contest import Answer, Contestant, NotRun
from headrace_bench.peers.ledger import BATCH, NAMES, in_batches
from headrace_bench.peers.sessions import SQL as SESSIONS_SQL
from headrace_bench.peers.workloads import AGGREGATE_SQL, Work
from headrace_bench.taken import Watch

# Panes first: each key is counted once, and each count goes into two windows.
COUNT = """
        with panes as (
            select ts // 60000 as pane, {key}, count(*) as n
            from (select ts, unnest({keys}) as {key} from input0) group by all)
        select (pane + later + 1) * 60000 as ts, {key}, sum(n)::bigint as count
        from panes, (values (0), (1)) as windows(later) group by all"""
QUERIES = {
    "aggregate": AGGREGATE_SQL,
    "sessions": SESSIONS_SQL,
    "word count": COUNT.format(key="word", keys="string_split(text, ' ')"),
    "pair count": COUNT.format(key="pair", keys="pairs"),
    # Rows of equal time and source keep the table's order, by row number.
    "forward": """
        select ts, key, value from (
            select *, 0 as source, row_number() over () as position from input0
            union all select *, 1 as source, row_number() over () as position from input1)
        order by ts, source, position""",
    # Joined by cells of x and of time, ten and WS wide: DuckDB's range join, by x or by time, took 2.5 to 4 times as long.
    "band join": """
        with cells as (select *, x // 10 as cell, ts // {size} as tile from input0),
        near as (
            select *, a // 10 + beside as cell, ts // {size} + around as tile
            from input1, (values (-1), (0), (1)) as v(beside), (values (-1), (0), (1)) as w(around))
        select greatest(l.ts, r.ts) + 1 as ts, l."left", r."right"
        from cells l join near r using (cell, tile)
        where abs(l.x - r.a) <= 10 and abs(l.ts - r.ts) < {size} and abs(l.y::double - r.b::double) <= 10""",
}


class DuckDB(Contestant):
    """DuckDB as a batch system: the whole input is present before it begins."""

    workloads: Collection[str] = QUERIES
    """Names of those that a query is written for."""

    def __init__(self, threads: int):
        self._connection: Any = None
        try:
            import duckdb
        except ImportError:
            super().__init__("DuckDB", threads, "batch", "")
            self._duckdb = None
            return
        super().__init__(f"DuckDB {duckdb.__version__} (batch)", threads, "batch", "the Arrow table")
        self._duckdb = duckdb

    def install(self, work: Work) -> None:
        if self._duckdb is None:
            raise NotRun("needs DuckDB: pip install duckdb")
        if work.name not in self.workloads:
            raise NotRun("no query is written for it")

    def load(self, work: Work) -> None:
        self._work = work
        self._connection = self._duckdb.connect(config={"threads": self.threads})
        if not work.is_ordered:
            self._connection.execute("set preserve_insertion_order = false")
        for number, table in enumerate(work.tables):
            self._connection.register(f"input{number}", table)

    def run(self) -> Answer:
        watch = Watch()
        found = self._connection.sql(
            QUERIES[self._work.name].replace("{size}", str(self._work.size))
        ).to_arrow_table()
        taken = watch.taken()
        return Answer(taken.seconds, self._work.digest_of(found), found.num_rows, taken.cpu_s)

    def end(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Batches(DuckDB):
    """Transactions in SQL, `BATCH` events at a time; see `headrace_bench.peers.ledger.in_batches`."""

    is_slow = True
    workloads = NAMES

    def __init__(self, threads: int):
        super().__init__(threads)
        self.name = self.name.replace("(batch)", f"(batches of {BATCH:,})")

    def run(self) -> Answer:
        watch = Watch()
        found = in_batches(self._connection, self._work.tables[0], BATCH)
        taken = watch.taken()
        return Answer(taken.seconds, self._work.digest_of(found), found.num_rows, taken.cpu_s)
