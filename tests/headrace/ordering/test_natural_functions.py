"""Stages with functions as people write them, drawn: a pipeline gives what they give in plain Python.

Property, oracle    as in `support.natural_runs`, for drawn threads, schedules, queues, batches and changes while running
Programs            `support.natural_functions`; interpreted: the text that the rewriting writes, with the stages' own around it
Cannot see          what the compiler makes of such a text: the campaign's compiled part
"""

from collections import Counter

import pytest

from support.natural_runs import check_pipeline


@pytest.mark.interpreted
@pytest.mark.slow
def test_oracle_natural_functions():
    """Seeds 12 and 15 have `state.a[state.n % 3] += step(state)`, where the call changes what the index is made of."""
    assert Counter(map(check_pipeline, [2, 3, 4, 10, 12, 15]))["rows"] > 2


@pytest.mark.campaign
@pytest.mark.interpreted
def test_campaign_natural_functions():
    for seed in range(150):
        check_pipeline(seed)


@pytest.mark.campaign
def test_campaign_natural_functions_compiled():
    for seed in range(40):
        check_pipeline(seed)
