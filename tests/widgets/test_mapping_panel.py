"""Method: buckets are chosen, moved and balanced as a browser would; what becomes of it is read from the run.
What this cannot see: anything in the browser; tests/browser drives a real one.
"""

import pytest

import headrace as hr
from support.dashboards import problem
from support.workloads import eventually


@pytest.mark.slow
def test_example_move_predict_apply(run, dashboard):
    panel = dashboard.mapping
    run.reconfigure(threads=2).wait(180)
    eventually(lambda: panel.to.options == (0, 1), 180)
    before = run.mapping
    panel.plot.selected = [0, 1]  # the first two groups of thread 0
    assert panel.buckets.value == "0-31"
    panel.to.value = 1
    panel.move.click()
    assert run.mapping == before
    assert "32 buckets move" in panel.prediction.value
    panel.apply.click()
    eventually(lambda: run.mapping == before.move(range(32), to=1), 180)
    assert dashboard.messages.lines == (
        "draft = run.mapping.move(range(0, 32), to=1)",
        "run.reconfigure(mapping=run.mapping.move(range(0, 32), to=1))",
    )
    assert panel.apply.disabled
    assert panel.prediction.value == "" or eventually(lambda: panel.prediction.value == "", 180)
    panel.buckets.value, panel.to.value = "40", 1
    panel.move.click()
    assert "1 bucket moves" in panel.prediction.value


@pytest.mark.slow
def test_example_balance_predicts_what_it_does(run, dashboard):
    panel = dashboard.mapping
    run.reconfigure(threads=2, mapping=hr.Mapping.even(2).move(range(1_000), to=0)).wait(180)
    eventually(lambda: panel.to.options == (0, 1), 180)
    eventually(lambda: panel._loads.loads.sum() > 2_000, 180)
    loads, before = panel._loads.loads, run.mapping
    assert before.predicted_imbalance(loads)[0] > 0.5
    panel.balance.click()
    panel.apply.click()
    eventually(lambda: run.mapping != before, 180)
    assert run.mapping.predicted_imbalance(loads)[0] < 0.2
    draft = "hr.Mapping.balanced(dashboard.bucket_loads, [0, 1], start=run.mapping)"
    assert dashboard.messages.lines == (f"draft = {draft}", f"run.reconfigure(mapping={draft})")


def test_example_bad_buckets_and_discard(run, dashboard):
    panel = dashboard.mapping
    panel.buckets.value = "7-3"
    panel.move.click()
    assert "buckets" in problem(dashboard)
    panel.buckets.value = "0-3"
    panel.move.click()
    panel.discard.click()
    assert panel.apply.disabled
    assert panel.shown == run.mapping


@pytest.mark.slow
def test_example_a_draft_is_dropped_when_the_mapping_changes(run, dashboard):
    panel = dashboard.mapping
    panel.buckets.value = "0-3"
    panel.move.click()
    run.reconfigure(threads=3).wait(180)
    eventually(lambda: panel.apply.disabled, 180)
    eventually(lambda: "discarded" in problem(dashboard), 180)


@pytest.mark.slow
def test_example_balance_is_for_the_threads_that_there_are_now(run, dashboard):
    panel = dashboard.mapping
    run.reconfigure(threads=3).wait(180)
    eventually(lambda: panel.to.options == (0, 1, 2) and panel.bucket_loads.any(), 180)
    with dashboard.messages.lock:  # the panel has not seen yet that there are fewer
        run.reconfigure(threads=2).wait(180)
        panel.balance.click()
        assert set(panel.shown.owners.tolist()) == {0, 1} and problem(dashboard) == ""


@pytest.mark.slow
def test_example_a_draft_for_a_thread_that_has_ended_is_dropped(run, dashboard):
    panel = dashboard.mapping
    run.reconfigure(threads=3).wait(180)
    eventually(lambda: panel.to.options == (0, 1, 2), 180)
    with dashboard.messages.lock:  # the panel has not seen yet that there are fewer
        run.reconfigure(threads=2).wait(180)
        panel.buckets.value, panel.to.value = "0-3", 2
        panel.move.click()
    eventually(lambda: panel.apply.disabled and "discarded" in problem(dashboard), 180)
