"""Programs with updates as people write them, drawn: a run gives what they give in plain Python.

Property, oracle    as in `support.natural_runs`, for drawn threads, plans and heartbeats
Programs            `support.natural_functions`; interpreted: the text that the rewriting writes, with the kernels around it
Cannot see          what the compiler makes of such a text: the campaign's compiled part
"""

import pytest

from support.natural_runs import check_program


@pytest.mark.campaign
@pytest.mark.interpreted
def test_campaign_natural_functions():
    for seed in range(105):
        check_program(seed)


@pytest.mark.campaign
def test_campaign_natural_functions_compiled():
    for seed in range(40):
        check_program(seed)
