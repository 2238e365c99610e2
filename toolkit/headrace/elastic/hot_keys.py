"""Which keys cause the load of a bucket: the most frequent ones among the latest rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.references import BUCKETS

if TYPE_CHECKING:
    import pandas as pd


def hottest(section: Any, limit: int) -> pd.DataFrame:
    """See `headrace.elastic.section.ElasticSection.hot_keys`."""
    import pandas as pd

    ids = np.concatenate([inlet.latest_keys for inlet in section.inlets])
    ids = ids[ids >= 0]  # a row with a negative id has no key and matches nothing
    found, counts = np.unique(ids, return_counts=True)
    order = np.lexsort((found, -counts))[: max(0, limit)]
    buckets = found[order] % BUCKETS
    mapping = section.reconfiguration.current.mapping
    keys = section.dictionary.decode(found[order])
    names = section.compiled.key_names
    columns: dict[str, Any] = {name: key.to_pandas() for name, key in zip(names, keys, strict=True)}
    columns["share"] = counts[order] / max(1, len(ids))
    columns["bucket"] = buckets
    columns["thread"] = [int(mapping.owners[bucket]) for bucket in buckets]
    return pd.DataFrame(columns)
