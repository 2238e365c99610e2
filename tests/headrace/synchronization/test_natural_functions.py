"""Programs with updates as people write them, drawn: a run gives what they give in plain Python.

Property, oracle    as in `support.natural_runs`, for drawn threads, plans and heartbeats
Programs            `support.natural_functions`: all events depend on each other; `support.natural_keyed`: by key, with forks and
                    joins, under drawn plans; interpreted: the text that the rewriting writes, with the kernels around it
Cannot see          what the compiler makes of such a text: the campaign's compiled part
"""

import pytest

from support.natural_keyed import check_keyed
from support.natural_runs import check_program


@pytest.mark.campaign
@pytest.mark.interpreted
def test_campaign_natural_functions():
    for seed in range(105):
        check_program(seed)


FEW = 3
"""Programs with forks and joins in each run of the tests."""


@pytest.mark.interpreted
def test_natural_keyed_functions():
    assert [check_keyed(seed) for seed in range(FEW)] == ["rows"] * FEW


@pytest.mark.campaign
@pytest.mark.interpreted
def test_campaign_natural_keyed_functions():
    for seed in range(FEW, 100):  # 102 draws loops in loops that take plain Python minutes
        check_keyed(seed)


@pytest.mark.campaign
def test_campaign_natural_keyed_functions_compiled():
    for seed in range(20):
        check_keyed(seed)


@pytest.mark.campaign
def test_campaign_natural_functions_compiled():
    for seed in range(40):
        check_program(seed)
