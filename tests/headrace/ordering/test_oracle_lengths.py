"""Pipelines of one and of four stages give the sequence that one worker would; test_oracle.py has other lengths.

Method: a stage alone is the first and the last one at once. Selectivities are 0, 1 and 50, buckets 1 and 100; functions are
those of chains that are drawn (support.random_chains), which test_oracle.py runs interpreted. Inputs and options are drawn,
changes while it runs among them; compared with `headrace.reference.ordering`.
Cannot see: which interleavings came about (`test_interleave`).
"""

import random

import numpy as np
import pytest

import headrace as hr
from support import random_chains as chains
from support.pipelines import Shape, drawn_options

EMITS = {"emits": chains.EMITS}


def kept(function, **given):
    return {"state": chains.STATES[function.__name__], **EMITS, **given}


LENGTHS = {
    "one stage of a hundred buckets": Shape((("partitioned", chains.met, kept(chains.met, by="key", buckets=100)),)),
    "one stage of fifty outputs": Shape((("flat_map", chains.fifty, EMITS),)),
    "four stages, one bucket, nothing left but the end": Shape((
        ("map", chains.moved, EMITS),
        ("partitioned", chains.before, kept(chains.before, by="key", buckets=1)),
        ("filter", chains.is_nothing, {}),
        ("stateful", chains.totalled, kept(chains.totalled, end=chains.tell)),
    )),
    "four stages, fifty of each, one and a hundred buckets": Shape((
        ("flat_map", chains.fifty, EMITS),
        ("partitioned", chains.before, kept(chains.before, by="v", buckets=1)),
        ("partitioned", chains.met, kept(chains.met, by="key", buckets=100)),
        ("stateful", chains.chained, kept(chains.chained, end=chains.tell_all)),
    )),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", LENGTHS)
def test_oracle_lengths(name):
    """In 24 combinations of input and options."""
    shape, changed = LENGTHS[name], set()
    seed = 10 + list(LENGTHS).index(name)
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    for count in (400, 60, 1, 0):
        table = chains.rows(draw, count)
        expected = shape.expected([table])
        assert expected or count < 2
        pipeline = shape.on(hr.stream(table, event_time="ts"))
        for _ in range(6):
            options = drawn_options(rng, count + 1)
            assert pipeline.to_arrow(**options).to_pylist() == expected, options
            changed.add((count, "reconfigure" in options))
    assert {(400, True), (400, False)} <= changed, "some are changed while they run, and some are not"
