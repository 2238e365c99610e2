"""Load by bucket: nothing invented, nothing lost, and given to the buckets of the keys that were there.

Property    what the buckets of a worker get is what it counted, whatever is looked at and how often, and only
            buckets it owns get anything; where every tuple is looked at it is right bucket by bucket
Oracle      the keys, counted by hand
Cannot see  how far a sample of a busy worker is off: `test_oracle_a_sample_is_close` looks at one stream
"""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.elastic import arrays, loads
from headrace.elastic.loads import (
    EVENLY,
    ONE_KEY,
    SEVERAL_KEYS,
    add_load,
    note_load,
    settle_load,
    spread_load,
)
from headrace.elastic.words import LOADED, UPDATES
from headrace.gates import merged_log
from headrace.ingress.store import Store, allocate_directories
from headrace.references import BUCKETS, tuple_reference

DRAWN = settings(deadline=None, max_examples=60)
WORKERS = 3


def arrays_of(how, width, owners, sources=1):
    c = arrays.allocate(WORKERS, sources)
    c.layout[:] = how, width, UPDATES
    c.owner[0] = owners
    return c


def stored(rows, several):
    """A gate's records of one source, and the directory where their keys are. `rows`: the keys of each tuple."""
    directory = allocate_directories(1, 0)
    store = Store({}, several, directory[0])
    keys = np.array([key for row in rows for key in row], np.int32)
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int32) if several else None
    store.append(np.zeros(len(rows), np.int64), keys, offsets, {}, None)
    gate = merged_log.allocate(1, WORKERS, max(16, len(rows)))
    gate.out_ref[0, : len(rows)] = [tuple_reference(0, i) for i in range(len(rows))]
    return SimpleNamespace(gate=gate, directory=directory, store=store)


KEYS = st.lists(st.lists(st.integers(0, 5000), max_size=6), min_size=1, max_size=200)


@pytest.mark.slow
@DRAWN
@given(KEYS, st.booleans(), st.integers(0, 2**32), st.integers(1, 5))
def test_oracle_every_tuple_looked_at(rows, several, seed, per_key):
    """Few enough keys in one go: each bucket gets what its keys counted."""
    if not several:
        rows = [[row[0] if row else 0] for row in rows]
    rows = [row for row in rows if row] or [[1]]
    while sum(map(len, rows)) > loads.LOAD_KEYS:
        rows.pop()
    data = stored(rows, several)
    owners = np.random.default_rng(seed).integers(0, WORKERS, BUCKETS)
    c = arrays_of(SEVERAL_KEYS if several else ONE_KEY, data.store.width, owners)
    wanted = np.zeros((WORKERS, BUCKETS), np.int64)
    for key in (key for row in rows for key in row):
        wanted[owners[key % BUCKETS], key % BUCKETS] += per_key
    for me in range(WORKERS):
        c.meter[me, UPDATES] = wanted[me].sum()
        note_load(me, data.gate, c, data.directory, 0, 0, 0, len(rows), 12345 + seed)
    assert (c.load == wanted).all()
    assert (c.meter[:, LOADED] == wanted.sum(axis=1)).all()


@DRAWN
@given(KEYS, st.integers(0, 2**32), st.lists(st.integers(0, 10**9), min_size=1, max_size=8), st.booleans())
def test_oracle_nothing_invented_and_nothing_lost(rows, seed, counted, evenly):
    """Whatever was counted: never more than that is given, only to buckets owned, and all of it once settled."""
    rows = [row * 40 for row in rows]
    data = stored(rows, True)
    draw = np.random.default_rng(seed)
    owners = draw.integers(0, WORKERS, BUCKETS)
    c = arrays_of(EVENLY if evenly else SEVERAL_KEYS, data.store.width, owners)
    for more in counted:
        for me in range(WORKERS):
            c.meter[me, UPDATES] += more
            first = int(draw.integers(0, len(rows)))
            note_load(me, data.gate, c, data.directory, 0, 0, first, len(rows) - first, int(draw.integers(2**60)))
            given_out = int(c.load[me].sum())
            assert given_out == c.meter[me, LOADED] <= c.meter[me, UPDATES]
    for me in range(WORKERS):
        settle_load(me, c, 0)
        assert c.load[me].sum() == c.meter[me, UPDATES] == c.meter[me, LOADED]
        assert (c.load[me, owners != me] == 0).all() and (c.load >= 0).all()


@DRAWN
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=50), st.integers(1, BUCKETS), st.integers(0, 2**32))
def test_oracle_spreading_goes_round(dues, owned, seed):
    """However it is divided into looks, no bucket owned is ever ahead of another by more than one."""
    mine = np.random.default_rng(seed).permutation(BUCKETS) < owned
    c = arrays_of(EVENLY, 3, np.where(mine, 0, 1))
    for i, due in enumerate(dues):
        spread_load(0, c, 0, due)
        assert c.load.sum() == sum(dues[: i + 1])
        assert c.load[0, ~mine].sum() == 0
        assert np.ptp(c.load[0, mine]) <= 1


def test_example_a_worker_that_owns_nothing_gets_nothing():
    c = arrays_of(EVENLY, 3, np.zeros(BUCKETS, np.int64))
    c.meter[1, UPDATES] = 7
    spread_load(1, c, 0, 7)
    settle_load(1, c, 0)
    assert c.load.sum() == 0 and c.meter[1, LOADED] == 0


@pytest.mark.parametrize("several", [False, True])
def test_oracle_a_sample_is_close(several):
    """A skewed stream, each key of period 1,024 as batches are: looks at changing places find all of it."""
    draw = np.random.default_rng(5)
    weights = 1.0 / np.arange(1, 33)
    keys = draw.choice(32, p=weights / weights.sum(), size=1024)
    rows = [[key, key + 100] for key in keys] if several else [[key] for key in keys]
    data = stored(rows, several)
    c = arrays_of(SEVERAL_KEYS if several else ONE_KEY, data.store.width, np.zeros(BUCKETS, np.int64))
    for _ in range(400):
        c.meter[0, UPDATES] += len(rows) * len(rows[0])
        note_load(0, data.gate, c, data.directory, 0, 0, 0, 1024, int(draw.integers(2**40)))
    true = np.bincount([key for row in rows for key in row], minlength=BUCKETS) * 400
    assert c.load[0].sum() == true.sum()
    assert np.abs(c.load[0] - true).sum() < 0.1 * true.sum()


def test_example_the_limit_on_keys_holds():
    """A tuple of many keys costs no more than others do: so many keys are looked at, and no more."""
    data = stored([list(range(3000)), [5]], True)
    c = arrays_of(SEVERAL_KEYS, data.store.width, np.zeros(BUCKETS, np.int64))
    owned = add_load(0, data.gate, c, data.directory, 0, 0, 0, 2, 999, 1, 0)
    assert owned == loads.LOAD_KEYS == c.load.sum()
