"""Tolls by transactions and by keys answer the same question.

Property    rows of an operator keyed by segment, and a window's aggregates, are those of the transactions
Oracle      `headrace.reference.transaction_apps.tp`
Cannot see  whether a figure is right: no clock is looked at
"""

import pytest

import headrace as hr
from headrace.apps.app import sources
from headrace.reference import transaction_apps
from headrace_bench import tolls
from planted_mistakes import planted


@pytest.mark.slow
@pytest.mark.parametrize(
    "source", [pytest.param(name, marks=pytest.mark.campaign if name == "reports made up" else ()) for name in tolls.SOURCES]
)
def test_agree_all_ways(source):
    table = tolls.reports(source, 6_000)
    tolls.check(table)
    wanted, _ = transaction_apps.tp(sources([table]), records=tolls.SEGMENTS)
    found = tolls.by_transactions(hr.stream(table, event_time="ts")).to_arrow(threads=2)
    assert found.to_pylist() == wanted
    if source == "reports made up":
        assert any(row["toll"] for row in wanted), "nobody pays: the tolls are not compared"


@pytest.mark.slow
def test_planted_mistakes_are_found():
    table = tolls.reports("reports made up", 2_000)
    mistakes = {
        ('vehicles=hr.count_distinct("vehicle")', "vehicles=hr.count()"): "a window's aggregates, 1 thread: not what is in",
        (".window(FOREVER).apply", ".window(1_000).apply"): "keyed by segment, 1 thread: not the rows",
    }
    for mistake, said in mistakes.items():
        with planted(tolls, *mistake), pytest.raises(AssertionError, match=said):
            tolls.check(table)
