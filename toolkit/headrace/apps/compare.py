"""Comparing a result with the reference: same rows, same order, same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from headrace.apps.app import EVENT_TIME, integers
from headrace.ingress.columns import plain_type


def first_difference(result: pa.Table, expected: list[dict[str, Any]]) -> str | None:
    """Compare a table with the rows of `headrace.reference.apps`.

    Parameters
    ----------
    result : pa.Table
    expected : list of dict
        Event times as integers in the stream's unit.

    Returns
    -------
    str or None
        None if they are identical: floats are compared by bits, so 0.0 is not -0.0 and NaN is NaN. Otherwise
        the first difference, in words.

    Examples
    --------
    >>> counted = pa.table({"ts": [60], "word": ["a"], "count": [2]})
    >>> first_difference(counted, [{"ts": 60, "word": "a", "count": 3}])
    "row 0, column 'count': 2, but the reference has 3"
    """
    if result.num_rows != len(expected):
        return f"{result.num_rows:,} rows, but the reference has {len(expected):,}"
    # In any order: the reference of `forward` puts the event time first, wherever the file has it.
    if expected and sorted(result.column_names) != sorted(expected[0]):
        return f"columns {result.column_names}, but the reference has {list(expected[0])}"
    differences = []
    for name in result.column_names:
        column = integers(result[name]) if name == EVENT_TIME else result[name]
        column = column.cast(plain_type(column.type))
        wanted = pa.array([row[name] for row in expected], column.type)
        row = _first_unequal(column.combine_chunks(), wanted)
        if row is not None:
            differences.append((row, name, column[row].as_py(), wanted[row].as_py()))
    if not differences:
        return None
    row, name, found, want = min(differences)
    return f"row {row:,}, column {name!r}: {found!r}, but the reference has {want!r}"


def _first_unequal(found: Any, wanted: pa.Array) -> int | None:
    if isinstance(found, pa.ChunkedArray):
        found = pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], found.type)
    if pa.types.is_floating(found.type):
        nulls = [np.asarray(a.is_null()) for a in (found, wanted)]
        bits = [np.where(null, 0.0, a.to_numpy(zero_copy_only=False)) for a, null in zip((found, wanted), nulls, strict=True)]
        is_equal = _same_bits(*bits) & (nulls[0] == nulls[1])
        return None if is_equal.all() else int(np.argmin(is_equal))
    if found.equals(wanted):
        return None
    pairs = zip(found.to_pylist(), wanted.to_pylist(), strict=True)
    return next(i for i, (a, b) in enumerate(pairs) if a != b)


def _same_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return (a.view(np.int64) == b.view(np.int64)) | (np.isnan(a) & np.isnan(b))
