"""The ordered applications, and the same said a second time, as chains of stages: on random rows, with random options.

Property    Equal rows, whatever is null, equal or below zero.
Oracle      tests/support/ordered_chains.py, which shares nothing with the applications but the distance on a sphere.
Cannot see  What both formulations get wrong: test_ordering_apps_sql.py asks DuckDB.
"""

import random

import pytest

from headrace.reference.ordering_apps import (
    abandoned,
    declining,
    mobility,
    sold_together,
    viewed_before,
    viewed_together,
)
from support import ordered_chains
from support.campaign import rarely


def drawn(seed, names, rows=250):
    """Rows whose columns are few integers and, now and then, null; times that begin below zero and are often equal."""
    draw = random.Random(seed)
    of = {
        "kind": lambda: draw.choice(["view", "view", "view", "cart", "buy", "search", None]),
        "amount": lambda: draw.choice([None, draw.randrange(-9, 99)]) if draw.random() < 0.1 else draw.randrange(50),
    }
    coordinates = lambda: float(draw.choice([0, 0, 0, 1, 9]))  # noqa: E731
    of |= dict.fromkeys(("caller_lat", "caller_lon", "callee_lat", "callee_lon"), coordinates)
    few = lambda: None if draw.random() < 0.04 else draw.randrange(6)  # noqa: E731
    step = draw.choice([[0, 0, 1, 3], [0, 5, 20, 200], [1]])
    ts, source = draw.randrange(-400, 0), []
    for _ in range(rows):
        ts += draw.choice(step)
        source.append((ts, {name: of.get(name, few)() for name in names.split()}))
    cut = sorted(draw.sample(range(rows), rows // 3))
    return [[row for i, row in enumerate(source) if i not in cut], [source[i] for i in cut]]


def check_agree(seed):
    """Six applications, options drawn; a unit of time stands for a minute, so that a day has 1,440."""
    draw = random.Random(seed)
    top, last = draw.choice([1, 2, 3, 100]), draw.choice([1, 2, 5])
    width, span = draw.choice([7, 60, 1_440]), draw.choice([0, 1, 3, 60])
    unit = {"unit": "min"}
    found = []

    source = drawn(seed, "ticket item")
    found.append(sold_together(source, top, width, **unit))
    assert found[-1] == ordered_chains.sold_together(source, top, width), "sold_together"
    source = drawn(seed, "user item")
    found.append(viewed_together(source, top, width, span, **unit))
    assert found[-1] == ordered_chains.viewed_together(source, top, width, span), "viewed_together"
    source = drawn(seed, "user item kind")
    found.append(viewed_before(source, top, last, span, **unit))
    assert found[-1] == ordered_chains.viewed_before(source, top, last, span), "viewed_before"
    found.append(abandoned(source, span, **unit))
    assert found[-1] == ordered_chains.abandoned(source, span), "abandoned"
    source = [[(90 * ts, payload) for ts, payload in one] for one in drawn(seed, "item amount")]
    right = [{"item": item, "category": draw.choice([0, 1, None])} for item in range(5)]
    found.append(declining(source, right, **unit))
    assert found[-1] == ordered_chains.declining(source, right, 1_440), "declining"
    source = drawn(seed, "caller callee area caller_lat caller_lon callee_lat callee_lon")
    area, speed = draw.choice([None, 1]), draw.choice([900, 20_000])
    found.append(mobility(source, area, speed, width, **unit))
    assert found[-1] == ordered_chains.mobility(source, area, speed, width, 60), "mobility"
    return [len(rows) for rows in found]


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(25), *rarely(range(25, 60))], ids=str)
def test_oracle_chains_of_stages(seeds):
    lengths = [check_agree(seed) for seed in seeds]
    assert min(map(max, zip(*lengths, strict=True))) > 3, "nothing was compared"
