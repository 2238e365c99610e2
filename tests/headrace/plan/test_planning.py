"""The plan of a query: operators in order, each with its branches. It knows an operator by its `Spec` only."""

import os
import subprocess
import sys

import pyarrow as pa
import pytest

import headrace as hr
from headrace.plan.nodes import SourceNode
from headrace.plan.planning import plan
from headrace.plan.steps import FilterStep, SelectStep

TABLE = pa.table({"ts": [1, 2], "k": [1, 1]})


def rows():
    return hr.stream(TABLE, event_time="ts")


class Passing:
    name, has_sides = "passing", False

    def result_type(self, inputs):
        (given,) = inputs
        return given

    def options(self, run):
        raise NotImplementedError

    def section(self, node, branches, options):
        raise NotImplementedError


def test_example_a_query_without_operators_ends_in_the_one_it_is_given():
    node = SourceNode((lambda: None,), ("source",), (2,), TABLE.schema, "ts", "ms", "ms")
    query = plan({"": node}, Passing())
    assert [operator.name for operator in query.operators] == ["passing"]
    assert query.schema.equals(TABLE.schema)
    assert [branch.origin for branch in query.branches["passing"]] == [node]


def test_example_steps_belong_to_the_branch_that_they_are_on():
    query = rows().filter(hr.col("k") > 0).forward().select("ts", n="k").plan()
    (branch,) = query.branches["forward"]
    assert [type(step) for step in branch.steps] == [FilterStep]
    (output,) = query.outputs
    assert output.name == "forward" and [type(step) for step in output.steps] == [SelectStep]
    assert query.schema.names == ["ts", "n"]


def test_example_operators_come_upstream_first_and_once():
    counted = rows().key_by("k").window(10).aggregate(n=hr.count())
    query = counted.join(counted, 5, on="k").plan()
    assert [operator.name for operator in query.operators] == ["aggregate", "join"]
    assert [(branch.origin.name, branch.side) for branch in query.branches["join"]] == [("aggregate", 0), ("aggregate", 1)]


def test_example_the_names_of_a_query_s_operators_do_not_depend_on_other_queries():
    """An operator that is the second of its name in one query is the only one of its name in another."""
    first, second = (rows().key_by("k").window(size).aggregate(n=hr.count()) for size in (10, 20))
    both = first.join(second, 5, on="k", prefixes=("l_", "r_"))
    assert both.operators == ("aggregate", "aggregate2", "join")
    assert second.operators == ("aggregate",) and list(second.plan().branches) == ["aggregate"]
    assert second.join(first, 5, on="k", prefixes=("l_", "r_")).operators == ("aggregate", "aggregate2", "join")
    query = both.plan()
    assert [branch.origin for branch in query.branches["join"]] == query.operators[:2]
    assert [output.node for output in query.outputs] == query.operators[2:]


@pytest.mark.slow
def test_example_a_query_is_planned_without_the_kernels_of_any_engine():
    """Specifications import their programs when a run needs them: a query is written in no time."""
    text = (
        "import sys, pyarrow as pa, headrace as hr\n"
        "rows = hr.stream(pa.table({'ts': [1], 'k': [1]}), event_time='ts')\n"
        "rows.key_by('k').window(10).aggregate(n=hr.count()).join(rows, 5, on='k', prefixes=('l_', 'r_')).plan()\n"
        "loaded = [name for name in sys.modules if name.startswith('headrace.elastic')]\n"
        "print([name for name in loaded if name.endswith(('program', 'template', 'forward'))])\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
