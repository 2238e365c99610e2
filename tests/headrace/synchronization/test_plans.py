"""Plans: what is valid, what JSON says of them, and what the optimizers make.

Property    every way of making a plan makes a valid one, of at most so many leaves; a valid plan passes `check`, and each
            way of spoiling it is refused with its tags and nodes; a plan is the same after it was JSON
Oracle      Definition 3.2 written out pair by pair over all nodes and tags, on random programs; Appendix B by hand on the
            paper's Figure 3, and by taking away one tag at a time on random programs
Cannot see  whether a plan is fast
"""

import itertools
import json
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import HeadraceError, ParameterError
from headrace.synchronization.definition import dependent
from headrace.synchronization.dependence import Dependence
from headrace.synchronization.inputs import read_streams
from headrace.synchronization.optimizing import WAYS, streams_of
from headrace.synchronization.plan_nodes import PlanNode
from headrace.synchronization.plans import Plan, implementation_tags
from headrace.synchronization.prediction import Costs, read_costs
from headrace.synchronization.tags import ImplementationTag as Tag
from support import event_window
from support.plans import is_valid, program_of, programs, rates

WINDOW = program_of({"value": 0, "barrier": 0}, [("barrier", "barrier"), ("barrier", "value")])
COUNTER = program_of({"inc": 8, "reset": 8}, [("reset", "inc"), ("reset", "reset")])


@given(st.data(), programs(), st.integers(1, 9), st.sampled_from(WAYS))
def test_oracle_every_way_makes_valid_plans(data, given_program, leaves, by):
    program, streams = given_program
    there = implementation_tags(program, streams)
    known = data.draw(st.none() | rates(program, there))
    assume(by not in ("best", "latency") or known is not None)
    assume(by != "best" or len(there) <= 6)
    plan = program.plan(streams, leaves=leaves, rates=known, by=by)
    assert is_valid(plan, program, there)
    assert plan.check(program, streams) is plan
    assert len(plan.leaves) == leaves if by in ("chain", "flat") else len(plan.leaves) <= leaves
    again = Plan.from_json(plan.to_json())
    assert again == plan and again.to_json() == plan.to_json()
    if by == "flat":
        assert all(one.depth == 0 or one.leaf >= 0 or not one.node.tags for one in plan.nodes)
        assert max(one.depth for one in plan.nodes) <= (leaves - 1).bit_length()
    if by == "chain":
        inner = [one for one in plan.nodes if one.leaf < 0]
        assert all(any(not child.children for child in one.node.children) for one in inner)


@st.composite
def random_plans(draw, there, most_leaves=5):
    """Any tree with these tags put anywhere."""

    def tree(leaves):
        if leaves == 1:
            return PlanNode(boxes.pop())
        left = draw(st.integers(1, leaves - 1))
        own = boxes.pop()
        return PlanNode(own, (tree(left), tree(leaves - left)))

    roots = draw(st.lists(st.integers(1, most_leaves), min_size=1, max_size=2))
    boxes = [[] for _ in range(sum(2 * leaves - 1 for leaves in roots))]
    for tag in there:
        boxes[draw(st.integers(0, len(boxes) - 1))].append(tag)
    return Plan([tree(leaves) for leaves in roots])


@given(st.data(), programs())
def test_oracle_check_agrees_with_the_definition(data, given_program):
    program, streams = given_program
    there = implementation_tags(program, streams)
    plan = data.draw(random_plans(there))
    try:
        plan.check(program, there)
    except ParameterError as error:
        assert not is_valid(plan, program, there), error
        assert "depend on each other" in str(error)
        # Both nodes that it names own what it says, and neither is above the other.
        said = [one for one in plan.nodes if f" of {one.name} " in f"{error} "]
        assert len(said) == 2, error
    else:
        assert is_valid(plan, program, there)


@given(st.data(), programs(), st.integers(1, 5), st.sampled_from(["lose", "double", "unknown", "stream", "part"]))
def test_oracle_a_spoilt_plan_is_refused(data, given_program, leaves, how):
    program, streams = given_program
    plan = program.plan(streams, leaves=leaves)
    assume(plan.tags)
    tag = data.draw(st.sampled_from(plan.tags))
    at = data.draw(st.sampled_from([one.index for one in plan.nodes]))
    more = {
        "lose": (), "double": (tag,), "unknown": (tag._replace(tag="nobody"),), "stream": (tag._replace(stream=9),),
        "part": (tag._replace(part=64),),
    }[how]  # fmt: skip

    def spoilt(node, index):
        tags = [one for one in node.tags if how != "lose" or one != tag]
        children, below = [], index + 1
        for child in node.children:
            changed, below = spoilt(child, below)
            children.append(changed)
        return PlanNode([*tags, *(more if index == at else ())], children), below

    index, roots = 0, []
    for root in plan.roots:
        changed, index = spoilt(root, index)
        roots.append(changed)
    said = {"lose": "no node owns", "double": "belongs to one node", "unknown": "is no tag", "stream": "stream", "part": "part"}
    with pytest.raises(ParameterError, match=said[how]) as caught:
        Plan(roots).check(program, streams)
    assert "\n" not in str(caught.value)
    assert ("nobody" if how == "unknown" else tag.tag) in str(caught.value)


def appendix_by_hand(program, tags, rate):
    """The sets of tags of Appendix B's nodes, one removal at a time."""

    def pieces(tags):
        left, found = set(tags), []
        while left:
            piece = {left.pop()}
            while more := {b for b in left if any(dependent(program, a, b) for a in piece)}:
                piece |= more
                left -= more
            found.append(piece)
        return found

    def of(piece):
        left = sorted(piece, key=lambda tag: (rate[tag], -sum(dependent(program, tag, other) for other in piece)))
        gone = []
        while left and len(pieces(left)) == 1:
            gone.append(left.pop(0))
        return [frozenset(piece)] if not left else [frozenset(gone)] + [one for each in pieces(left) for one in of(each)]

    return [one for piece in pieces(tags) for one in of(piece)]


@given(st.data(), programs())
def test_oracle_appendix_one_removal_at_a_time(data, given_program):
    program, streams = given_program
    there = implementation_tags(program, streams)
    assume(there)
    # Different rates, so that there is one order.
    rate = dict(zip(there, data.draw(st.permutations(range(len(there)))), strict=True))
    known = {name: 0 for name in program.tags if not streams[name]} | {tuple(tag): rate[tag] for tag in there}
    plan = program.plan(streams, leaves=64, rates=known, by="appendix")
    expected = appendix_by_hand(program, there, rate)
    assert sorted(map(sorted, expected)) == sorted(sorted(one.node.tags) for one in plan.nodes if one.node.tags)


def test_example_figure_3():
    """The run of Example B.1: resets of two keys with increments of one in two streams, and of the other in one.

    rates: r1 10, i1 15 and 100; r2 200, i2 300              (root, untagged: two roots)
                                                   node 0 reset 1            leaf 2  inc 2 and reset 2
                                              leaf 0 inc 1 (15)  leaf 1 inc 1 (100)
    """
    program = program_of({"inc": 2, "reset": 2}, [("reset", "inc"), ("reset", "reset")])
    tags = [Tag("reset", 0, 0), Tag("inc", 0, 0), Tag("inc", 0, 1), Tag("reset", 1, 0), Tag("inc", 1, 0)]
    plan = program.plan({"inc": 2, "reset": 1}, leaves=3, by="appendix", rates={
        tags[0]: 10, tags[1]: 15, tags[2]: 100, tags[3]: 200, tags[4]: 300,
    })  # fmt: skip
    # The second stream has no increments of the second key.
    quiet = Tag("inc", 1, 1)
    assert [(one.name, one.parent, one.depth) for one in plan.nodes] == [
        ("leaf 0", -1, 0), ("node 1", -1, 0), ("leaf 1", 1, 1), ("leaf 2", 1, 1),
    ]  # fmt: skip
    assert [one.node.tags for one in plan.nodes] == [
        (tags[4], quiet, tags[3]), (tags[0],), (tags[2],), (tags[1],),
    ]  # fmt: skip


def test_example_text():
    known = {"value": [10_000, 10_000, 500], "barrier": 1.5}
    plan = WINDOW.plan({"value": 3, "barrier": 1}, leaves=3, rates=known, by="appendix")
    assert repr(plan) == (
        "node 0  barrier  1.5/s\n"
        "├─ node 1  nothing\n"
        "│  ├─ leaf 0  value (stream 0)  10 k/s\n"
        "│  └─ leaf 1  value (stream 2)  500/s\n"
        "└─ leaf 2  value (stream 1)  10 k/s\n"
        "predicted: 201 M events/s"
    )
    assert repr(COUNTER.plan({"inc": 2, "reset": 1}, leaves=2)) == (
        "leaf 0  inc, reset (parts 0, 2, 4, 6)\nleaf 1  inc, reset (parts 1, 3, 5, 7)"
    )


SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("by", ["appendix", "chain", "flat"])
@pytest.mark.parametrize(("leaves", "parts"), [(1, 8), (2, 8), (8, 8), (64, 1000)])
def test_example_drawing(by, leaves, parts):
    """Every node is there by its name, every leaf in a row of its own, and nothing is outside of the picture."""
    program = program_of({"inc": parts, "reset": parts, "stop": 0}, [("reset", "inc"), ("reset", "reset"), ("stop", "inc")])
    known = {"inc": 1e6, "reset": 10, "stop": 1}
    plan = program.plan({"inc": 4, "reset": 1, "stop": 1}, leaves=leaves, by=by, rates=known)
    svg = ElementTree.fromstring(plan._repr_html_())
    titles = [one.text for one in svg.iter(f"{SVG}title")]
    assert [title.partition(":")[0] for title in titles] == [one.name for one in plan.nodes]
    width, height = map(float, svg.attrib["viewBox"].split()[2:])
    boxes = [(group, box) for group in svg.iter(f"{SVG}g") for box in group.findall(f"{SVG}rect")]
    for _, box in boxes:
        x, y, wide, high = (float(box.attrib[name]) for name in ("x", "y", "width", "height"))
        assert 0 <= x and x + wide <= width and 0 <= y and y + high <= height
    rows = [float(box.attrib["y"]) for group, box in boxes if group.find(f"{SVG}title").text.startswith("leaf")]
    assert len(rows) == leaves and (leaves == 1 or min(b - a for a, b in itertools.pairwise(rows)) >= 20)


def test_example_names_are_escaped_in_a_drawing():
    plan = Plan([PlanNode([("<script>&", 0, 0)])])
    assert "<script>" not in plan._repr_html_() and "&lt;script&gt;&amp;" in plan._repr_html_()


def test_example_without_fork_there_is_one_leaf():
    program = program_of({"value": 0, "barrier": 0}, [], can_fork=False)
    assert len(program.plan({"value": 4, "barrier": 1}, leaves=8).nodes) == 1
    with pytest.raises(ParameterError, match=r"2 nodes: program has no fork and join"):
        Plan([PlanNode([("value", 0, 0)]), PlanNode([("barrier", 0, 0)])]).check(program, {"value": 1, "barrier": 1})


def test_example_json_is_short_and_readable():
    plan = COUNTER.plan({"inc": 3, "reset": 1}, leaves=2)
    assert json.loads(plan.to_json()) == {"roots": [
        {"tags": [{"tag": "inc", "parts": "0, 2, 4, 6", "streams": "0-2"}, {"tag": "reset", "parts": "0, 2, 4, 6"}]},
        {"tags": [{"tag": "inc", "parts": "1, 3, 5, 7", "streams": "0-2"}, {"tag": "reset", "parts": "1, 3, 5, 7"}]},
    ]}  # fmt: skip


def test_example_inputs_are_counted(tmp_path):
    path = tmp_path / "values.parquet"
    path.write_bytes(b"PAR1")
    plan = WINDOW.plan({"value": [str(path), iter(())], "barrier": object()})
    assert sorted(plan.tags) == [Tag("barrier", 0, 0), Tag("value", 0, 0), Tag("value", 0, 1)]


def test_agree_inputs_of_several_streams_are_counted_as_a_run_counts_them():
    program = hr.program(**event_window.WINDOW)
    values, mixed = pa.table({"ts": [1], "x": [1]}), pa.table({"ts": [1], "x": [1], "tag": ["value"]})
    inputs = {"value": hr.streams(values, 3), ("value", "barrier"): [hr.streams(mixed, 2, tag="tag")]}
    spec = program.over(inputs).plan().output.spec
    assert streams_of(inputs) == read_streams(spec.inputs, program) == {"value": 5, "barrier": 2}
    assert len(program.plan(inputs, leaves=4).tags) == 7


def costly(costs):
    return WINDOW.plan({"value": 2, "barrier": 1}, rates={"value": 2, "barrier": 1}, costs=costs)


def test_example_an_update_whose_cost_is_left_out():
    assert read_costs(WINDOW, {"update": {"value": 20}}).update == {"value": 20, "barrier": 20}
    assert read_costs(WINDOW, {"update": {}}).update == dict.fromkeys(WINDOW.tags, Costs().update)


VALUES = [PlanNode([("value", 0, 0)]), PlanNode([("value", 0, 1)])]


@pytest.mark.parametrize(
    ("roots", "said"),
    [
        ([PlanNode([("value", 0, 0)], VALUES[1:] * 2)], "leaf 1 owns value (stream 1), and so does leaf 0"),
        ([PlanNode([("barrier", 0, 0), ("barrier", 0, 0)], VALUES)], "node 0 owns barrier, twice"),
        ([PlanNode([("barrier", 0, 0)], [VALUES[0], PlanNode()])], "no node owns value (stream 1); give it to one"),
        ([PlanNode([("barier", 0, 0)], VALUES)], "owns barier (stream 0), which is no tag of program; did you mean 'barrier'?"),
        ([PlanNode([("barrier", 0, 1)], VALUES)], "node 0 owns barrier (stream 1), and barrier has 1 stream, from 0 on; leave"),
        ([PlanNode([("barrier", 3, 0)], VALUES)], "node 0 owns barrier (part 3; stream 0), and barrier has 1 part, from 0 on"),
        (
            [PlanNode([("barrier", 0, 0)], [VALUES[0], PlanNode()]), VALUES[1]],
            "barrier of node 0 and value (stream 1) of leaf 2 depend on each other, and neither node is above the other",
        ),
    ],
)
def test_example_refused(roots, said):
    with pytest.raises(ParameterError) as caught:
        Plan(roots).check(WINDOW, {"value": 2, "barrier": 1})
    assert said in str(caught.value) and str(caught.value).startswith("plan: ")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: PlanNode([], VALUES[:1]), "a node with 1 child: a leaf has none, and a node that forks has two"),
        (lambda: PlanNode([], [*VALUES, PlanNode()]), "a node with 3 children"),
        (lambda: PlanNode([("value", 0)]), "tag ('value', 0): give (name of the tag, part, stream)"),
        (lambda: PlanNode([("value", -1, 0)]), "tag ('value', -1, 0)"),
        (lambda: PlanNode([], ["a", "b"]), "give nodes, PlanNode(tags, children)"),
        (lambda: Plan([]), "roots=(): give one node or more"),
        (lambda: Plan([PlanNode()] * 65), "65 leaves: give at most 64"),
        (lambda: WINDOW.plan({"value": 2, "barrier": 1}, by="apendix"), "plan(by='apendix'): did you mean 'appendix'?"),
        (lambda: WINDOW.plan({"value": 2, "barrier": 1}, leaves=65), "plan(leaves=65): give a whole number from 1 to 64"),
        (lambda: WINDOW.plan({"value": 2, "barrier": 1}, leaves=True), "plan(leaves=True)"),
        (lambda: WINDOW.plan({"vlaue": 2}), "there is no tag 'vlaue'; did you mean 'value'?"),
        (lambda: WINDOW.plan({"value": -1}), "value=-1: give the number of its streams"),
        (lambda: WINDOW.plan({"value": "two"}), "plan({'value': 'two'}): there is no such file; give the inputs of a tag"),
        (lambda: WINDOW.plan({"value": 2.5}), "plan({'value': 2.5}): give the inputs of a tag, as for a run, or a"),
        (lambda: WINDOW.plan({"value": True}), "plan({'value': True}): give"),
        (lambda: WINDOW.plan({"value": None}), "plan({'value': None}): give"),
        (lambda: WINDOW.plan({"value": {"x": [1]}}), "plan({'value': {'x': [1]}}): give"),
        (lambda: WINDOW.plan({"value": [2, 3], "barrier": 1}), "plan({'value': 2}): give"),
        (lambda: WINDOW.plan({"value": 2}), "plan({'value': 2}): tag 'barrier' is missing; give its inputs, or how many streams"),
        (lambda: WINDOW.plan({"value": 2, "barrier": 1}, threads=0), "plan(threads=0): give a whole number"),
        (lambda: WINDOW.plan({"value": 2, "barrier": 1}, by="best"), "give rates=, events per second of each tag"),
        (lambda: WINDOW.plan({"value": 11, "barrier": 0}, by="best", rates={"value": 1, "barrier": 0}), "11 implementation tags"),
        (lambda: costly({"updates": 1}), "costs: there is no 'updates'; did you mean 'update'?"),
        (lambda: costly({"update": {"valeu": 1}}), "costs: update: there is no tag 'valeu'; did you mean 'value'?"),
        (lambda: costly({"fork": -1}), "costs: fork=-1: give nanoseconds"),
        (lambda: costly(7), "costs=7: give a dict of nanoseconds"),
        (lambda: costly({"update": {"value": 1, "barrier": "x"}}), "costs: update: barrier='x': give nanoseconds"),
        (lambda: WINDOW.plan([1, 2]), "plan([1, 2]): give a dict"),
        (lambda: WINDOW.plan({"value": 2, "barrier": 1}, rates={"value": -1}), "rates: value=-1: give events per second"),
        (lambda: WINDOW.plan({"value": 2, "barrier": 1}, rates={"value": [1]}), "value=[1]: give 2 numbers, one a stream"),
        (lambda: WINDOW.plan({"value": 1, "barrier": 1}, rates={"value": 1}), "rates: 'barrier' is missing"),
        (lambda: WINDOW.plan({"value": 1, "barrier": 0}, rates={"valeu": 1}), "there is no tag 'valeu'; did you mean 'value'?"),
        (lambda: WINDOW.plan({"value": 1, "barrier": 1}, rates={("value", 0, 1): 1}), "rates: there is no ('value', 0, 1)"),
        (lambda: WINDOW.plan({"value": 1, "barrier": 1}, rates=[1]), "rates=[1]: give a dict"),
    ],
)
def test_example_bad_arguments(make, said):
    with pytest.raises(HeadraceError) as caught:
        make()
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "plan: this is not JSON: "),
        ("[" * 100_000, "plan: this is not JSON: "),
        ("[]", "plan: []: give an object with roots"),
        ("{}", "plan: roots=[]: give a list of nodes"),
        ('{"roots": [], "name": 1}', "plan: there is no 'name'; its members are 'roots'"),
        ('{"roots": {}}', "plan: roots={}: give a list of nodes"),
        ('{"roots": [{"tag": []}]}', "plan.roots[0]: there is no 'tag'; did you mean 'tags'?"),
        ('{"roots": [{"tags": ["barrier"]}]}', "plan.roots[0].tags[0]: 'barrier': give an object with parts, streams, tag"),
        ('{"roots": [{"tags": [{}]}]}', "plan.roots[0].tags[0]: tag=None: give the name of a tag"),
        ('{"roots": [{"tags": [{"tag": "a", "parts": "5-3"}]}]}', "parts='5-3': give a number or ranges of them"),
        ('{"roots": [{"tags": [{"tag": "a", "parts": "0-99999999"}]}]}', "each from 0 to 65,535"),
        ('{"roots": [{"tags": [{"tag": "a", "streams": true}]}]}', "streams=True: give a number"),
        ('{"roots": [{"tags": [{"tag": "a", "streams": 1.5}]}]}', "streams=1.5: give a number"),
        ('{"roots": [{"tags": [{"tag": "a", "streams": -1}]}]}', "streams='-1': give a number"),
        ('{"roots": [{"children": [{}]}]}', "plan.roots[0]: 1 in children: a leaf has none, and a node that forks has two"),
        ('{"roots": [{"children": [{}, {"children": 7}]}]}', "plan.roots[0].children[1]: children=7: give a list of nodes"),
        ('{"roots": [' + '{"children": [{}, ' * 70 + "{}" + "]}" * 70 + "]}", "deeper than 63"),
    ],
)  # fmt: skip
def test_example_bad_json(text, said):
    with pytest.raises(ParameterError) as caught:
        Plan.from_json(text)
    assert said in str(caught.value) and len(str(caught.value)) < 1500


@pytest.mark.parametrize("leaves", [1, 2, 64])
@pytest.mark.parametrize("by", ["appendix", "chain", "flat"])
def test_example_plans_for_thousands_of_implementation_tags(leaves, by):
    """It ends, where looking at pairs of tags would not (64 million of them)."""
    program = program_of({"inc": 1000, "reset": 1000, "stop": 0}, [("reset", "inc"), ("reset", "reset"), ("stop", "inc")])
    streams = {"inc": 7, "reset": 1, "stop": 1}
    plan = program.plan(streams, leaves=leaves, by=by)
    assert plan.check(program, streams) is plan
    assert len(plan.leaves) == leaves
    assert Plan.from_json(plan.to_json()) == plan
    if leaves > 1:
        assert plan.roots[0].tags == (Tag("stop", 0, 0),)
    loads = [len(one.node.tags) for one in plan.leaves]
    assert max(loads) - min(loads) <= 16, loads


def test_example_components():
    graph = Dependence(COUNTER)
    found = graph.components(implementation_tags(COUNTER, {"inc": 2, "reset": 1}))
    assert [len(one) for one in found] == [3] * 8 and all(len({tag.part for tag in one}) == 1 for one in found)


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("different", [False, True])
def test_oracle_conflict_between_all_sets_of_three_parts(same, different):
    program = program_of({"a": 3}, lambda a, b: same if a.part == b.part else different)
    subsets = [{part for part in range(3) if bits >> part & 1} for bits in range(8)]
    for left in subsets:
        for right in subsets:
            found = Dependence(program).conflict({"a": left} if left else {}, {"a": right} if right else {})
            pairs = [(("a", a), ("a", b)) for a in left for b in right if (same if a == b else different)]
            assert found in pairs if pairs else found is None
