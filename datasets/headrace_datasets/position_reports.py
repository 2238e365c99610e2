"""Position reports of Linear Road as events of Toll Processing.

TStream (Zhang et al., ICDE 2020), section VI-B, runs Toll Processing on a data set of Linear Road. Here the reports come from
`linear_road` or from a text file with one report a line: seven whole numbers, separated by blanks or tabs, which are seconds,
vehicle, speed, expressway, lane, direction and position in feet.
"""

import gzip
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace_datasets.dataset import TIME, Dataset
from headrace_datasets.linear_road import NAMES, REPORT, SEGMENT_FEET, START
from headrace_datasets.parameters import explains_arguments, whole_number
from headrace_datasets.tp import SCHEMA

FIELDS = ("seconds", "vehicle", "speed", "expressway", "lane", "direction", "position")
BLOCK_BYTES = 1 << 20
LATEST_S = 3_000_000_000


@explains_arguments
def position_reports(source: Dataset | str | os.PathLike[str], n: int | None = None) -> Dataset:
    """Return position reports as ts, vehicle, segment (a mile of road), speed.

    Parameters
    ----------
    source : Dataset or path
        What `linear_road` returned; its queries are left out. Or a text file, sorted by time; it may be compressed with gzip.
    n : int or None
        The first `n` rows only; None: all rows.

    Returns
    -------
    Dataset
        ts, vehicle, segment, speed, as `tp` has them. Segments are those of all expressways and directions together, 0 to 99.
        Event times count from the same day as `linear_road`'s.

    Raises
    ------
    ValueError
        When rows are asked for and a line is not a report, or is earlier than the line before it; the error names the line.

    Examples
    --------
    >>> from headrace_datasets import linear_road, position_reports
    >>> position_reports(linear_road(n=1_000, seed=7)).to_arrow().num_rows
    987
    """
    rows = None if n is None else whole_number("n", n, minimum=0)
    if isinstance(source, Dataset):
        missing = [name for name in ("ts", *NAMES) if name not in source.schema.names]
        if missing:
            raise ValueError(f"source is {source.name}, which has no column {missing[0]!r}; give a linear_road(...)")
        return Dataset(f"position_reports({source.name}, n={rows})", SCHEMA, partial(_cut, partial(_of_road, source), rows))
    if not isinstance(source, str | os.PathLike):
        raise ValueError(f"source is {source!r}, of type {type(source).__name__}; give a linear_road(...) or a file's name")
    path = Path(source)
    if not path.is_file():
        raise FileNotFoundError(f"source is {str(source)!r}, which is not a file; name a text file of position reports")
    return Dataset(f"position_reports({str(source)!r}, n={rows})", SCHEMA, partial(_cut, partial(_of_file, path), rows))


def _cut(blocks, n: int | None) -> Iterator[pa.RecordBatch]:
    for block in blocks():
        yield block if n is None else block.slice(0, n)
        if n is not None:
            n = max(n - block.num_rows, 0)
            if n == 0:
                return


def _of_road(source: Dataset) -> Iterator[pa.RecordBatch]:
    for batch in source.batches():
        reports = batch.filter(pc.equal(batch.column("type"), REPORT))
        columns = [reports.column(name).cast(pa.int64()) for name in ("vid", "seg", "spd")]
        yield pa.RecordBatch.from_arrays([reports.column("ts"), *columns], schema=SCHEMA)


def _of_file(path: Path) -> Iterator[pa.RecordBatch]:
    line, latest = 1, 0
    with path.open("rb") as raw:
        is_packed = raw.read(2) == b"\x1f\x8b"
    with cast(BinaryIO, gzip.open(path)) if is_packed else path.open("rb") as file:
        while lines := file.readlines(BLOCK_BYTES):
            reports = _numbers(lines, path, line)
            seconds, vehicle, speed, *_, position = reports.T
            before = np.concatenate(([latest], seconds[:-1]))
            for is_bad, what in (
                (seconds < 0, "has a time below 0"),
                (seconds < before, "is earlier than the line before it; sort the file by the first number"),
                (seconds > LATEST_S, f"has a time above {LATEST_S} seconds"),
                (position < 0, "has a position below 0"),
            ):
                if is_bad.any():
                    raise ValueError(f"{path}, line {line + int(np.argmax(is_bad))} {what}")
            ts = pa.array(START + seconds * 1_000_000).cast(TIME)
            columns = [pa.array(np.ascontiguousarray(one)) for one in (vehicle, position // SEGMENT_FEET, speed)]
            yield pa.RecordBatch.from_arrays([ts, *columns], schema=SCHEMA)
            line, latest = line + len(lines), int(seconds[-1])


def _numbers(lines: list[bytes], path: Path, first_line: int) -> NDArray[np.int64]:
    """Return int64[lines, 7]."""
    fields = [line.split() for line in lines]
    for at, one in enumerate(fields):
        if len(one) != len(FIELDS):
            raise ValueError(
                f"{path}, line {first_line + at} has {len(one)} fields; a position report has {len(FIELDS)}: {', '.join(FIELDS)}"
            )
    try:
        return np.array(fields).astype(np.int64)
    except (ValueError, OverflowError):
        at = next(at for at, one in enumerate(fields) if not all(_is_number(field) for field in one))
        raise ValueError(
            f"{path}, line {first_line + at} has a field that is not a 64-bit whole number: {lines[at][:80]!r}"
        ) from None


def _is_number(field: bytes) -> bool:
    try:
        return -(2**63) <= int(field) < 2**63
    except ValueError:
        return False
