"""Runs Polars in its own environment, which has nothing but Polars; takes requests from `on_polars`.

Requests: ``load FOLDER...``, ``run WORKLOAD RESULT_FILE [SIZE]``. The answer to a run is the query's
duration and its processor time, both in seconds; its result is written to the file after the clock stops.
"""

import sys
import time
from pathlib import Path

import polars as pl  # pyright: ignore[reportMissingImports]: it is not here, but in the environment of this script


def aggregate(rows):
    window = ((pl.col("ts") // 10_000 + 1) * 10_000).alias("ts")
    return rows.group_by(window, "key").agg(pl.col("value").sum().alias("sum"), pl.len().alias("count"))


def count(rows, key, keys):
    # Panes first: each key is counted once, and each count goes into two windows.
    panes = (
        rows.select((pl.col("ts") // 60_000).alias("pane"), keys.alias(key))
        .explode(key)
        .drop_nulls(key)
        .group_by("pane", key)
        .agg(pl.len().cast(pl.Int64).alias("n"))
    )
    both = pl.concat(
        [panes.with_columns(((pl.col("pane") + 1 + later) * 60_000).alias("ts")) for later in (0, 1)]
    )
    return both.group_by("ts", key).agg(pl.col("n").sum().alias("count"))


def forward(left, right):
    return pl.concat([left, right]).sort("ts", maintain_order=True)


def band_join(left, right, size):
    # Joined by cells of x and of time, ten and WS wide: `join_where` by x took 3.5 times as long.
    def beside(column, width):
        return pl.concat_list([pl.col(column) // width + step for step in (-1, 0, 1)])

    cells = left.with_columns(cell=pl.col("x") // 10, tile=pl.col("ts") // size)
    near = right.with_columns(cell=beside("a", 10), tile=beside("ts", size)).explode("cell").explode("tile")
    pairs = cells.join(near, on=["cell", "tile"]).filter(
        (pl.col("x") - pl.col("a")).abs() <= 10,
        (pl.col("ts") - pl.col("ts_right")).abs() < size,
        (pl.col("y").cast(pl.Float64) - pl.col("b").cast(pl.Float64)).abs() <= 10,
    )
    return pairs.select((pl.max_horizontal("ts", "ts_right") + 1).alias("ts"), "left", "right")


QUERIES = {
    "aggregate": aggregate,
    "word_count": lambda rows: count(rows, "word", pl.col("text").str.split(" ")),
    "pair_count": lambda rows: count(rows, "pair", pl.col("pairs")),
    "forward": forward,
    "band_join": band_join,
}


def main():
    frames = []
    print(f"@ok {pl.thread_pool_size()}", flush=True)
    for line in sys.stdin:
        words = line.split()
        try:
            if words[0] == "load":
                frames = [pl.read_parquet(Path(folder)) for folder in words[1:]]
                print("@ok", flush=True)
            elif words[0] == "run":
                begin, cpu = time.perf_counter(), time.process_time()
                found = QUERIES[words[1]](*(frame.lazy() for frame in frames), *map(int, words[3:])).collect()
                seconds, cpu_s = time.perf_counter() - begin, time.process_time() - cpu
                found.write_parquet(words[2])
                print(f"@ok {seconds} {cpu_s}", flush=True)
        except Exception as error:
            print(f"@error {type(error).__name__}: {' '.join(str(error).split())}", flush=True)


main()
