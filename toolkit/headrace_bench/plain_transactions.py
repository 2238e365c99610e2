"""The hand-written loops of `transactions_kernel` over the events of the benchmarks: the baseline of `serial`."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.apps.ob import PRICE, QUANTITY
from headrace.apps.tp import FREE_FROM, FREE_UP_TO
from headrace_bench import transactions_kernel as loops
from headrace_bench.costly import RECORDS, SEGMENTS
from headrace_bench.executed import hash_of

Loop = Callable[[], tuple[float, str]]
"""It returns seconds, and the hash of its results (`executed.hash_of`)."""


def plain_loop(name: str, table: pa.Table, rounds: int) -> Loop:
    """The hand-written loop over the events of an application, whose operations take `rounds` steps."""
    return {"gs": _plain_gs, "sl": _plain_sl, "ob": _plain_ob, "tp": _plain_tp}[name](table, rounds)


def _plain_gs(table: pa.Table, rounds: int) -> Loop:
    keys, values = table["keys"].combine_chunks(), table["values"].combine_chunks()
    offsets, flat = keys.offsets.to_numpy().astype(np.int64), keys.flatten().to_numpy()
    is_read, written = values.is_null().to_numpy(zero_copy_only=False), values.flatten().to_numpy()
    ts, n = table["ts"].to_numpy(), table.num_rows

    def run() -> tuple[float, str]:
        records, mask, sums = np.arange(RECORDS), np.zeros(n, np.int64), np.zeros(n, np.int64)
        begin = time.perf_counter()
        loops.grep_and_sum(offsets, flat, is_read, written, records, rounds, mask, sums)
        seconds = time.perf_counter() - begin
        return seconds, hash_of([ts, mask, sums], [pa.table({"key": np.arange(RECORDS), "value": records})])

    return run


def _plain_sl(table: pa.Table, rounds: int) -> Loop:
    names = ("source", "target", "source_asset", "target_asset", "amount", "quantity")
    columns = [table[name].combine_chunks().fill_null(0).to_numpy() for name in names]
    is_transfer = table["kind"].to_numpy(zero_copy_only=False) == "transfer"
    ts, n = table["ts"].to_numpy(), table.num_rows

    def run() -> tuple[float, str]:
        accounts, assets = (np.full(RECORDS, 10_000, np.int64) for _ in range(2))
        mask, balances, quantities = (np.zeros(n, np.int64) for _ in range(3))
        begin = time.perf_counter()
        loops.ledger((is_transfer, *columns), accounts, assets, rounds, mask, balances, quantities)
        seconds = time.perf_counter() - begin
        ids = np.arange(RECORDS)
        tables = [pa.table({"id": ids, "balance": accounts}), pa.table({"id": ids, "quantity": assets})]
        return seconds, hash_of([ts, mask, balances, quantities], tables)

    return run


def _plain_ob(table: pa.Table, rounds: int) -> Loop:
    kinds = pc.index_in(table["kind"].combine_chunks(), pa.array(["bid", "alter", "top"])).to_numpy()
    lists = tuple(_list_column(table[name].combine_chunks()) for name in ("items", "prices", "quantities"))
    ts, n = table["ts"].to_numpy(), table.num_rows

    def run() -> tuple[float, str]:
        stock = np.full(RECORDS, PRICE), np.full(RECORDS, QUANTITY)
        mask, left = np.zeros(n, np.int64), np.zeros(n, np.int64)
        begin = time.perf_counter()
        loops.bidding(kinds, lists, stock, rounds, mask, left)
        seconds = time.perf_counter() - begin
        return seconds, hash_of([ts, mask, left], [pa.table({"id": np.arange(RECORDS), "price": stock[0], "quantity": stock[1]})])

    return run


def _list_column(lists: pa.ListArray) -> tuple[np.ndarray, np.ndarray]:
    """Offsets of a column of lists, and their elements."""
    return lists.offsets.to_numpy().astype(np.int64), lists.values.to_numpy()


def _plain_tp(table: pa.Table, rounds: int) -> Loop:
    columns = tuple(table[name].to_numpy() for name in ("vehicle", "segment", "speed"))
    ts, n = table["ts"].to_numpy(), table.num_rows

    def run() -> tuple[float, str]:
        sums, numbers, counts = (np.zeros(SEGMENTS, np.int64) for _ in range(3))
        has_seen = np.zeros((SEGMENTS, columns[0].max() + 1), np.bool_)
        mask, averages, seen, charged = np.zeros(n, np.int64), np.zeros(n), np.zeros(n, np.int64), np.zeros(n, np.int64)
        begin = time.perf_counter()
        state, given = (sums, numbers, counts, has_seen), (averages, seen, charged)
        loops.tolls(*columns, state, (FREE_FROM, FREE_UP_TO), rounds, mask, given)
        seconds = time.perf_counter() - begin
        vehicles = pa.array([np.flatnonzero(each) for each in has_seen], pa.list_(pa.int64()))
        found = pa.table({"segment": np.arange(SEGMENTS), "sum": sums, "number": numbers, "vehicles": vehicles})
        return seconds, hash_of([ts, mask, averages, seen, charged], [found])

    return run


__all__ = ["Loop", "plain_loop"]
