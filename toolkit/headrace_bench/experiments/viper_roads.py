"""Prepares Linear Road for the Viper experiment, and defines the correct output of its two operators.

The reports of a second are spread over it, so that no two have the same time: there is then one right order,
whatever the number of injectors and instances. An injector has the reports of its own cars, an instance
owns cars by another hash, a sink owns segments. All of this is computed beforehand, for all sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace_bench.experiments.viper_kernel import NEW_SEG, POS_REP, SEGMENTS, Work, fold

OPERATORS = {"pos_rep": POS_REP, "new_seg": NEW_SEG}
COLUMNS = ("vid", "spd", "xway", "lane", "dir", "seg", "pos")

Results = tuple[np.ndarray, np.ndarray, np.ndarray]
"""ts, first, second: int64, in time order."""


def make_roads(n: int, seed: int = 7) -> pa.Table:
    """Make `n` tuples of two expressways; ``ts`` becomes strictly rising int64 microseconds."""
    from headrace_datasets import linear_road

    table = linear_road(n=n, seed=seed, expressways=2).to_arrow()
    second = table["time"].to_numpy().astype(np.int64)
    per_second = np.bincount(second)
    nth = np.arange(n) - (np.cumsum(per_second) - per_second)[second]
    ts = second * 1_000_000 + nth * 1_000_000 // per_second[second]
    assert (np.diff(ts) > 0).all(), "more tuples in a second than microseconds"
    return table.set_column(table.schema.get_field_index("ts"), "ts", pa.array(ts))


def plain_pos_rep(rows: Iterable[tuple]) -> Iterator[tuple[int, int, int]]:
    """Definition of pos_rep: a position report passes, with its fields packed into two numbers."""
    for ts, kind, vid, spd, xway, lane, direction, seg, pos in rows:
        if kind == 0:
            segment = (2 * xway + direction) * SEGMENTS + seg
            yield ts, vid * 2**32 + segment, (spd * 2**8 + lane) * 2**32 + pos


def plain_new_seg(rows: Iterable[tuple]) -> Iterator[tuple[int, int, int]]:
    """Definition of new_seg: a result for each report from a new segment, with the car's previous segment (-1: none)."""
    last: dict[int, int] = {}
    for ts, kind, vid, _, xway, _, direction, seg, _ in rows:
        if kind == 0:
            segment = (2 * xway + direction) * SEGMENTS + seg
            before = last.get(vid, -1)
            if before != segment:
                last[vid] = segment
                yield ts, vid * 2**32 + segment, before


PLAIN = {POS_REP: plain_pos_rep, NEW_SEG: plain_new_seg}


def define(table: pa.Table, operator: int) -> Results:
    """The whole output by the plain definition, on the tuples in their order."""
    columns = (table[name].to_pylist() for name in ("ts", "type", *COLUMNS))
    results = np.array(list(PLAIN[operator](zip(*columns, strict=True))), np.int64).reshape(-1, 3)
    ts, first, second = (np.ascontiguousarray(results[:, i]) for i in range(3))
    return ts, first, second


def sink_of(first: np.ndarray, sinks: int) -> np.ndarray:
    """The sink of each result: by segment."""
    return (first & (2**32 - 1)) % sinks


def expected(results: Results, sinks: int) -> np.ndarray:
    """int64[sinks, 2]: the order-sensitive hash of each sink's results, and their number."""
    owner = sink_of(results[1], sinks)
    mine = [[column[owner == s] for column in results] for s in range(sinks)]
    return np.array([(fold(*columns), len(columns[0])) for columns in mine], np.int64)


def share_out(vid: np.ndarray, parts: int, multiplier: int) -> np.ndarray:
    """The part, of `parts`, that each car belongs to: a hash of its number."""
    return ((vid.astype(np.uint64) * np.uint64(multiplier) & np.uint64(0xFFFFFFFF)) >> np.uint64(12)) % np.uint64(parts)


@dataclass
class Roads:
    """The tuples of each injector, and room for the results of each instance.

    Attributes
    ----------
    ts, order : list of int64[n]
        For each injector, views of its rows of ``work.ts`` and ``work.order``.
    work : Work
    """

    ts: list[np.ndarray]
    order: list[np.ndarray]
    work: Work
    injectors: int
    instances: int

    def reset(self) -> None:
        """Reset the operators' state."""
        self.work.last[:] = -1


def share_roads(table: pa.Table, injectors: int, instances: int) -> Roads:
    """Distribute the tuples to injectors and instances; there is room for either operator's results."""
    columns = {name: table[name].to_numpy() for name in ("ts", "type", *COLUMNS)}
    source = share_out(columns["vid"], injectors, 0x85EBCA6B)
    owner = share_out(columns["vid"], instances, 0x9E3779B1)
    rows = [np.flatnonzero(source == s) for s in range(injectors)]
    longest = max(map(len, rows))

    def place(values: np.ndarray, dtype) -> np.ndarray:
        out = np.zeros((injectors, longest), dtype)
        for s, mine in enumerate(rows):
            out[s, : len(mine)] = values[mine]
        return out

    most = int(np.bincount(owner.astype(np.int64), minlength=instances).max())
    results = [np.zeros((instances, most), dtype) for dtype in (np.int64, np.int64, np.int64, np.uint8)]
    work = Work(
        place(columns["ts"], np.int64),
        *(place(columns[name], np.int32) for name in ("type", *COLUMNS)),
        place(np.arange(table.num_rows), np.int64),
        place(owner, np.uint8),
        np.full(int(columns["vid"].max()) + 1, -1, np.int32),
        *results,
    )
    ts, order = ([column[s, : len(mine)] for s, mine in enumerate(rows)] for column in (work.ts, work.order))
    return Roads(ts, order, work, injectors, instances)
