"""Splitting a text column into words without making Python objects.

A word is what ``str.split()`` gives. A hashtag is a word that starts with ``#``
and has more characters; it is given without that first ``#``.

Examples
--------
>>> texts = pa.array(["a #b  #", "", "c\\u3000##d"])
>>> words(texts).to_pylist(), hashtags(texts).to_pylist()
([['a', '#b', '#'], [], ['c', '##d']], [['b'], [], ['#d']])
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.errors import SchemaError
from headrace.ingress import columns, tokeniser_kernel

ANY_DISTANCE = 2**31 - 1


def find_spans(
    texts: pa.Array, only_hashtags: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the places of the words of a text column.

    Returns
    -------
    data : uint8[...]
        The column's bytes.
    starts, ends : int[k]
        Word j is ``data[starts[j]:ends[j]]``.
    offsets : int32[n + 1]
        Text i has words ``offsets[i]`` to ``offsets[i + 1]``; a null text has none.
    """
    texts = columns.plain(columns.combine(texts))
    if not columns.is_text(texts.type):
        raise SchemaError(f"text column has type {texts.type}, not string: cast it")
    data, starts, ends = columns.string_spans(texts)
    valid = columns.validity(texts)
    if valid is not None:
        # Arrow allows bytes under a null.
        ends = np.where(valid, ends, starts)
    lengths = ends - starts
    room = (int(lengths.sum(dtype=np.int64)) + starts.size) // 2 + 1
    marks = np.empty(int(lengths.max(initial=0)) + 1, np.int64)
    word_starts, word_ends = np.empty(room, starts.dtype), np.empty(room, starts.dtype)
    offsets = np.empty(starts.size + 1, np.int32)
    count = tokeniser_kernel.find_words(data, starts, ends, only_hashtags, marks, word_starts, word_ends, offsets)
    return data, word_starts[:count], word_ends[:count], offsets


def words(texts: pa.Array) -> pa.ListArray:
    """Return the words of each text as a list column; a null text has none."""
    return _to_lists(texts, only_hashtags=False)


def hashtags(texts: pa.Array) -> pa.ListArray:
    """Return the hashtags of each text, in order, as a list column; a null text has none."""
    return _to_lists(texts, only_hashtags=True)


def _to_lists(texts: pa.Array, only_hashtags: bool) -> pa.ListArray:
    data, starts, ends, offsets = find_spans(texts, only_hashtags)
    lengths = (ends - starts).astype(np.int64)
    bounds = np.concatenate(([0], np.cumsum(lengths)))
    # One index for each byte kept, in plain NumPy: streams do not come through here.
    source = np.arange(int(bounds[-1])) + np.repeat(starts - bounds[:-1], lengths)
    kept = data[source] if source.size else np.zeros(0, np.uint8)
    layout, bounds = (
        (pa.string(), bounds.astype(np.int32)) if bounds[-1] < 2**31 else (pa.large_string(), bounds)
    )
    values = pa.Array.from_buffers(layout, lengths.size, [None, pa.py_buffer(bounds), pa.py_buffer(kept)])
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def pairs(ids: np.ndarray, offsets: np.ndarray, distance: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the ordered pairs of each row's words: ``i < j``, ``j - i <= distance``.

    Parameters
    ----------
    ids : int32[k]
        Ids of the words, in order, repetitions included.
    offsets : int32[n + 1]
    distance : int or None
        None: any distance.

    Returns
    -------
    pairs : int32[p, 2]
        A pair may occur more than once.
    pair_offsets : int64[n + 1]
    """
    reach = ANY_DISTANCE if distance is None else min(distance, ANY_DISTANCE)
    pair_offsets = np.empty(offsets.size, np.int64)
    out = np.empty((tokeniser_kernel.count_pairs(offsets, reach, pair_offsets), 2), np.int32)
    tokeniser_kernel.fill_pairs(ids, offsets, reach, out)
    return out, pair_offsets
