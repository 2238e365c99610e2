"""Whole queries as a user runs them: a table in, `hr.discard()` out, and nothing prepared.

Sum and count of `value` by `key` in windows of 10 s, for 10,000 integer keys and for 10,000 text keys, from an Arrow
table, a pandas frame, a Parquet file and a Spark DataFrame, at 1, 2 and 4 threads. The clock runs from before
`hr.stream` to the end of the run, so it includes starting the run and reading, checking and encoding the input.
DuckDB answers the same query on the same object with the same number of threads, in turns with ours; a DataFrame is also
compared with Spark's own `groupBy`, on the cores of its session. Processor time per row is that of the whole process (and of
Spark's virtual machine).

Then the gain from a second thread is measured: for the aggregate, whose update is trivial, and for a custom operator whose
update is a chain of `STEPS` dependent steps and takes some 100 ns.

Before anything is timed, our results and DuckDB's are compared with those of Arrow's own `group_by`.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import headrace as hr
from headrace.summary import counted
from headrace_bench.peers.workloads import AGGREGATE_SQL, KEYS, SPAN, aggregate_query, keyed_rows
from headrace_bench.rows import Row, median, repeated
from headrace_bench.taken import Taken, Watch, java_of

THREADS = (1, 2, 4)
STEPS = 100
SPARK_PART = 4
"""A Spark DataFrame, and a pandas frame with text keys, get one in this many rows: each row takes ten times as long."""

GOAL_ROWS, GOAL_NS, GOAL_DUCKDB = 120.0, 12.0, 1.4
"""M rows/s on 2 threads, processor time a row in ns, and the ratio to DuckDB: integer keys, an Arrow table."""


def update(state, t, emit):
    """Make a chain of dependent steps for each tuple: each step needs the result of the one before."""
    mixed = state.mixed ^ t.value
    for _ in range(STEPS):
        mixed = (mixed ^ (mixed >> 7)) + 3
    state.mixed = mixed


def output(key, state, emit):
    """Emit the chain's last value."""
    emit(mixed=state.mixed)


def costly_query(stream: Any) -> Any:
    """A custom operator, with an update that takes some 100 ns."""
    chain = hr.operator(state={"mixed": "int64"}, emits={"mixed": "int64"}, update=update, output=output)
    return stream.key_by("key").window(SPAN).apply(chain)


def costly_rows(table: pa.Table) -> list[tuple[int, int, int]]:
    """The rows that `costly_query` gives, computed in plain Python."""
    state: dict[tuple[int, int], Any] = {}

    class State:
        mixed = 0

    for row in table.to_pylist():
        place = ((row["ts"] // SPAN + 1) * SPAN, row["key"])
        kept = state.setdefault(place, State())
        mixed = kept.mixed ^ row["value"]
        for _ in range(STEPS):
            mixed = (mixed ^ (mixed >> 7)) + 3
        kept.mixed = mixed
    return [(*place, state[place].mixed) for place in sorted(state)]


def with_texts(table: pa.Table) -> pa.Table:
    """The same rows with a text for each key."""
    texts = pa.array([f"key {number:05d}" for number in range(KEYS)])
    return table.set_column(1, "key", texts.take(table["key"].combine_chunks()))


def call(query: Callable[[Any], Any], source: Any, *others: int, **options: Any) -> tuple[Taken, int]:
    """Run the query as a user does. Returns the time taken, and the number of result rows."""
    watch = Watch(*others)
    with query(hr.stream(source, event_time="ts")).start(sink=hr.discard(), **options) as run:
        run.wait()
    return watch.taken(), run.metrics().tuples_out


def wanted(table: pa.Table) -> pa.Table:
    """The expected result by Arrow's own `group_by`, in the order of our results."""
    ends = pc.multiply(pc.add(pc.divide(table["ts"], SPAN), 1), SPAN)
    grouped = table.set_column(0, "ts", ends).group_by(["ts", "key"]).aggregate([("value", "sum"), ("value", "count")])
    return grouped.rename_columns(["ts", "key", "sum", "count"]).sort_by([("ts", "ascending"), ("key", "ascending")])


class _DuckDB:
    """DuckDB on the forms of input that it reads directly; results are `None` where it is not installed."""

    def __init__(self):
        try:
            import duckdb
        except ImportError:
            self._duckdb = None
        else:
            self._duckdb = duckdb

    def call(self, source: Any, threads: int) -> tuple[Taken, pa.Table] | None:
        if self._duckdb is None:
            return None
        with self._duckdb.connect(config={"threads": threads}) as connection:
            connection.execute("set preserve_insertion_order = false")
            watch = Watch()
            if isinstance(source, Path):
                connection.read_parquet(str(source)).create_view("input0")
            else:
                connection.register("input0", source)
            found = connection.sql(AGGREGATE_SQL).to_arrow_table()
            return watch.taken(), found


def _by_spark(frame: Any) -> Taken:
    """Spark's own result, which is not written anywhere."""
    from pyspark.sql import functions as f

    end = ((f.floor(f.col("ts") / SPAN) + 1) * SPAN).alias("end")
    grouped = frame.groupBy(end, "key").agg(f.sum("value").alias("sum"), f.count(f.lit(1)).alias("count"))
    watch = Watch(java_of(frame.sparkSession))
    grouped.write.format("noop").mode("overwrite").save()
    return watch.taken()


def forms_of(table: pa.Table, folder: Path, name: str, spark: Any) -> dict[str, tuple[Any, int]]:
    """The rows in each form of input, and how many of them each form has."""
    path = folder / f"{name}.parquet"
    pq.write_table(table, path)
    part = table.slice(0, table.num_rows // SPARK_PART)
    few = folder / f"{name}-part.parquet"
    pq.write_table(part, few)
    framed = table if pa.types.is_integer(table.schema.field("key").type) else part
    found: dict[str, tuple[Any, int]] = {
        "Arrow table": (table, table.num_rows),
        "pandas frame": (framed.to_pandas(), framed.num_rows),
        "Parquet file": (path, table.num_rows),
    }
    if spark is not None:
        found["Spark DataFrame"] = (spark.read.parquet(str(few)).coalesce(1), part.num_rows)
    return found


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """M rows/s and processor time per row of each form, kind of key and number of threads; the gain from a second thread."""
    from headrace_bench.ingress import has_session

    n, costly, repetitions = (32_000_000, 16_000_000, 5) if full else (6_000_000, 2_000_000, 3)
    if tiny:
        n, costly, repetitions = 4_000, 1_000, 1
    spark = hr.spark.session() if not tiny or has_session() else None
    table = keyed_rows(n, per_span=n // 20 if tiny else 400_000)
    rows: list[Row] = []
    single: dict[tuple[str, str, int], float] = {}
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        for keys, keyed in (("integer keys", table), ("text keys", with_texts(table))):
            for form, (source, count) in forms_of(keyed, Path(folder), keys.split()[0], spark).items():
                truth = wanted(keyed.slice(0, count))
                _check(source, truth)
                rows += _compare(form, keys, source, count, truth, repetitions, single)
    base = single.get(("integer keys, DuckDB", "Arrow table", 2))
    if base is not None:
        ratio = single["integer keys", "Arrow table", 2] / base
        rows.append(Row("api", "Arrow table, integer keys, 2 threads over DuckDB's 2", ratio, "x", goal=GOAL_DUCKDB))
    rows += _second_thread(table.slice(0, costly), repetitions, single)
    return rows


def _check(source: Any, truth: pa.Table) -> None:
    found = aggregate_query(hr.stream(source, event_time="ts")).to_arrow(threads=2)
    assert found.cast(truth.schema).equals(truth), "ours: other rows than by Arrow's group_by"


def _compare(
    form: str, keys: str, source: Any, count: int, truth: pa.Table, repetitions: int, single: dict[tuple[str, str, int], float]
) -> list[Row]:
    results = truth.num_rows
    duckdb, is_spark = _DuckDB(), form.startswith("Spark")
    others = [java_of(source.sparkSession)] if is_spark else []
    taken: dict[tuple[str, int], list[Taken]] = {}
    beside = "Spark's own" if is_spark else "DuckDB"
    for counts in repeated(repetitions):
        for threads in THREADS:
            ours, found = call(aggregate_query, source, *others, threads=threads)
            assert found == results, f"{form}, {keys}, {threads} threads: {found} rows instead of {results}"
            theirs = _by_spark(source) if is_spark else None
            answer = None if is_spark else duckdb.call(source, threads)
            if answer is not None:
                theirs, rows_found = answer
                if not counts:
                    ordered = rows_found.sort_by([("ts", "ascending"), ("key", "ascending")])
                    assert ordered.cast(truth.schema).equals(truth), f"DuckDB, {form}, {keys}: other rows than by Arrow"
            if counts:
                taken.setdefault(("ours", threads), []).append(ours)
                if theirs is not None:
                    taken.setdefault((beside, threads), []).append(theirs)
    rows = []
    for threads in THREADS:
        case = f"{form}, {keys}, {counted(threads, 'thread')}"
        figures = {}
        for who in ("ours", beside):
            of_who = taken.get((who, threads), [])
            if of_who:
                seconds, cpu_s = (median([getattr(each, name) for each in of_who]) for name in ("seconds", "cpu_s"))
                figures[who] = count / seconds / 1e6, cpu_s / count * 1e9
        rate, cost = figures["ours"]
        base, base_cost = figures.get(beside, (None, None))
        name = beside if base is not None else None
        single[keys, form, threads] = rate
        if base is not None and not is_spark:
            single[f"{keys}, DuckDB", form, threads] = base
        asked = form == "Arrow table" and keys == "integer keys" and threads == 2
        note = f"{count:,} rows"
        rows.append(Row("api", case, rate, "M rows/s", "higher", GOAL_ROWS if asked else None, base, name, note=note))
        if not math.isnan(cost):
            rows.append(
                Row("api", f"{case}, processor time", cost, "ns/row", "lower", GOAL_NS if asked else None, base_cost, name)
            )
    return rows


def _second_thread(table: pa.Table, repetitions: int, single: dict[tuple[str, str, int], float]) -> list[Row]:
    """The gain from a second thread where an update is trivial, and where it is not."""
    few = table.slice(0, 1_000)
    found = costly_query(hr.stream(few, event_time="ts")).to_arrow(threads=2)
    assert [tuple(row.values()) for row in found.to_pylist()] == costly_rows(few), "the operator of a user's own: other rows"
    taken: dict[int, list[Taken]] = {}
    results = 0
    for counts in repeated(repetitions):
        for threads in THREADS[:2]:
            each, count = call(costly_query, table, threads=threads)
            results = results or count
            assert count == results, f"costly update, {threads} threads: {count} rows instead of {results}"
            if counts:
                taken.setdefault(threads, []).append(each)
    rows, rates = [], {}
    for threads, of_threads in taken.items():
        case = f"an update of {STEPS} dependent steps, {counted(threads, 'thread')}"
        rates[threads] = table.num_rows / median([each.seconds for each in of_threads]) / 1e6
        cost = median([each.cpu_s for each in of_threads]) / table.num_rows * 1e9
        rows.append(Row("api", case, rates[threads], "M rows/s", note=f"{table.num_rows:,} rows"))
        rows.append(Row("api", f"{case}, processor time", cost, "ns/row", "lower"))
    rows.append(Row("api", "an update of 50 ns or more, 2 threads over 1", rates[2] / rates[1], "x", goal=1.6))
    plain = [single["integer keys", "Arrow table", threads] for threads in (2, 1)]
    rows.append(Row("api", "a trivial update, 2 threads over 1", plain[0] / plain[1], "x", goal=0.95))
    return rows
