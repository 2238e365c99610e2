"""Values that user functions emit, as Arrow columns: made from words of 64 bits."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.expressions.rows import cast
from headrace.ingress.columns import as_arrow
from headrace.ingress.keys import KeyDictionary


def emitted_column(
    words: np.ndarray, kind: pa.DataType, is_float: bool, texts: KeyDictionary | None, is_copy: bool = False
) -> pa.Array:
    """Make a column of the words of an emitted field.

    Parameters
    ----------
    words : int64[n]
        Integers as they are, floats as their bits, strings as their ids.
    kind : pa.DataType
    is_float : bool
        Whether the words are bits of float64.
    texts : KeyDictionary or None
        Of strings, if there are any.
    is_copy : bool
        Nothing else refers to `words`.

    Examples
    --------
    >>> emitted_column(np.array([1.5]).view(np.int64), pa.float64(), True, None).to_pylist()
    [1.5]
    """
    if pa.types.is_string(kind):
        assert texts is not None
        (strings,) = texts.decode(words)
        return cast(strings, kind)
    if pa.types.is_boolean(kind):
        return pa.array(words != 0, kind)
    values = words if is_copy else words.copy()  # Arrow would refer to the collector's arrays, which are overwritten
    values = values.view(np.float64) if is_float else values
    if pa.types.is_temporal(kind):
        return as_arrow(values, kind)
    return pa.array(values).cast(kind)


__all__ = ["emitted_column"]
