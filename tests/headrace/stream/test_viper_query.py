"""Viper's Figure 1, part of Linear Road: A1, which knows each car's segment before; F; A2, which counts cars; M, which tolls.

`headrace run tolls` is that query from file to file. Here it is one of two engines: A1 and A2 are operators with instances of
their own, F goes with what A1 gives, and M, which is stateless, has workers by being a stage of an ordered pipeline.

Property    tolls are those of the operators one after the other, whatever the threads of each and the changes of these
Oracle      `headrace.reference` for A1 and A2, plain Python for F and M
Cannot see  speed: `headrace bench viper`
"""

import random

import pyarrow as pa
import pytest

import headrace as hr
from headrace import reference
from headrace.windows import Window
from support.campaign import rarely

pytestmark = pytest.mark.logic

SILENT, MINUTES, MINUTE = 90, 300, 60
"""Seconds after which a car is forgotten, and over which cars are counted, every so often."""


def enrich(state, t, emit):
    """A1: the segment that the car was in before; -1 of a car that is new."""
    emit(segment=t.segment, before=state.segment)
    state.segment = t.segment


def toll(t, emit):
    """M: what a segment costs that so many cars came to."""
    emit(segment=t.segment, toll=2 * max(t.cars - 3, 0) ** 2)


A1 = hr.operator(state={"segment": -1}, emits={"segment": "int64", "before": "int64"}, update=enrich, name="before")


def query(reports):
    cars = hr.stream(reports, event_time="ts", time_unit="s").key_by("car").window(SILENT, 1, instances="single").apply(A1)
    counted = cars.filter(hr.col("segment") != hr.col("before")).key_by("segment").window(MINUTES, MINUTE)
    return counted.aggregate("cars", cars=hr.count()).ordered().map(toll, emits={"segment": "int64", "toll": "int64"})


def expected(reports):
    source = [(row["ts"], row) for row in reports.to_pylist()]
    known = reference.operator(
        [[source]], Window(SILENT, 1), reference.column("car"), instances="single", state={"segment": -1}, update=enrich
    )
    moved = [(row.ts, row.values) for row in known if row.values["segment"] != row.values["before"]]
    counts = reference.aggregate([moved], Window(MINUTES, MINUTE), reference.column("segment"), {"cars": ("count", None)})
    return [{"ts": c.ts, "segment": c.key, "toll": 2 * max(c.values["cars"] - 3, 0) ** 2} for c in counts]


def reports(count, seed):
    draw = random.Random(seed)
    cars, rows = {}, []
    for ts in sorted(draw.randrange(1_500) for _ in range(count)):
        car = draw.randrange(60)
        cars[car] = cars.get(car, draw.randrange(8)) + (draw.random() < 0.4)
        rows.append({"ts": ts, "car": car, "segment": cars[car] % 8})
    return pa.Table.from_pylist(rows)


@pytest.mark.parametrize("seed", [0, *rarely(1)])
def test_oracle_the_query_of_figure_1(seed):
    given = reports(500, seed)
    rows = expected(given)
    assert len(rows) > 50 and any(row["toll"] > 0 for row in rows)
    for threads, changes in ((1, ()), (2, [(100, 3), (500, 1)])):
        found = query(given).to_arrow(threads=threads, max_threads=3, reconfigure=list(changes))
        assert found.to_pylist() == rows
