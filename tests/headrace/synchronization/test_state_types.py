"""Programs with several types of state: what each may process, typed forks and joins, and the type of every node of a plan.

Property    outputs are those of one event after another for any plan whose nodes have types, while plans change too; the laws
            hold for programs that are right and fail for mutants of them, each at its law; the second phase of Appendix B
            finds types where there are any, and plans are refused that have none
Oracle      `headrace.reference.synchronization.run`, its wire diagrams, and all types of all nodes tried in turn
Cannot see  interleavings (test_interleave.py: a node's type changes nothing there)
"""

import itertools
import random
from xml.etree import ElementTree

import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import FunctionError, InconsistentProgramError, ParameterError, UnknownNameError
from headrace.reference import synchronization as reference
from headrace.synchronization.cuts import checksum_of
from headrace.synchronization.plan_nodes import PlanNode
from headrace.synchronization.plans import implementation_tags
from headrace.synchronization.state_types import matched
from support.event_window import add

HANG_S = 120


def close(state, e, emit):
    emit(sum=state.sum, barriers=state.barriers)
    state.sum = 0
    state.barriers += 1


def ask(state, e, emit):
    """What a part knows of barriers it was told when it was forked: none come while there are parts."""
    emit(sum=0, barriers=state.barriers)


def ask_known(state, e, emit):
    emit(sum=0, barriers=state.known)


def split(state, left, right, tags_left, tags_right):
    left.sum = state.sum
    left.known = state.barriers
    right.known = state.barriers


def halve(state, left, right, tags_left, tags_right):
    left.sum = state.sum
    left.known = state.known
    right.known = state.known


def together(into, left, right):
    into.sum = left.sum + right.sum
    into.barriers = left.known


def of_parts(into, left, right):
    into.sum = left.sum + right.sum
    into.known = left.known


TYPED = {
    "tags": {"value": {"x": "int64"}, "question": {}, "barrier": {}},
    "depends": [("barrier", "barrier"), ("barrier", "value"), ("barrier", "question")],
    "states": {"all": {"barriers": "int64", "sum": "int64"}, "part": {"sum": "int64", "known": "int64"}},
    "processes": {"part": ["value", "question"]},
    "emits": {"sum": "int64", "barriers": "int64"},
    "update": {"value": add, "question": {"all": ask, "part": ask_known}, "barrier": close},
    "fork": {("all", "part", "part"): split, ("part", "part", "part"): halve},
    "join": {("all", "part", "part"): together, ("part", "part", "part"): of_parts},
}


def program(**changed):
    return hr.program(**{**TYPED, **changed})


def rising(rng, count, span):
    return sorted(rng.randint(0, span) for _ in range(count))


def case(rng, counts=(0, 3, 60, 2_000)):
    count = rng.choice(counts)
    streams = {"value": rng.randint(1, 4), "question": rng.randint(1, 2), "barrier": 1}
    rows = {
        "value": [[(ts, {"x": rng.randint(-9, 9)}) for ts in rising(rng, count, count)] for _ in range(streams["value"])],
        "question": [[(ts, {}) for ts in rising(rng, 5, count)] for _ in range(streams["question"])],
        "barrier": [[(ts, {}) for ts in rising(rng, rng.choice([0, 1, 30]), count)]],
    }
    expected = reference.run(program(), [(tag, own) for tag, each in rows.items() for own in each])
    schema = {"value": pa.schema({"ts": pa.int64(), "x": pa.int64()})}
    inputs = {
        tag: [
            pa.Table.from_pylist([{"ts": ts, **row} for ts, row in own], schema.get(tag, pa.schema({"ts": pa.int64()})))
            for own in each
        ]
        for tag, each in rows.items()
    }
    return streams, inputs, expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(16))
def test_oracle_outputs_are_those_of_one_event_after_another(seed):
    rng = random.Random(seed)
    streams, inputs, expected = case(rng)
    typed = program()
    plans = ["auto", "flat", "chain", typed.plan(streams, leaves=rng.choice([1, 2, 5]))]
    options = {"plan": rng.choice(plans), "leaves": rng.choice([1, 2, 3, 8]), "heartbeat": rng.choice([1, 7, 1024])}
    options["reconfigure"] = [(at, {"plan": rng.choice(plans)}) for at in rising(rng, rng.choice([0, 3]), 60)]
    with typed.start(inputs, threads=rng.randint(1, 4), max_threads=4, **options) as run:
        assert run.wait(HANG_S)
        assert run.to_arrow().to_pylist() == expected
        assert run.metrics().operators["program"].balance.faults == ()


@pytest.mark.parametrize("seed", range(4))
def test_oracle_a_program_with_types_goes_on_from_its_checkpoints(seed, tmp_path):
    rng = random.Random(seed)
    _, inputs, expected = case(rng, (60, 2_000))
    options = {"max_threads": 4, "heartbeat": rng.choice([1, 1024]), "checkpoint": tmp_path}
    with program().start(inputs, threads=2, plan="flat", leaves=3, checkpoint_every=20, **options) as run:
        assert run.wait(HANG_S)
        assert run.to_arrow().to_pylist() == expected
    with program().resume(tmp_path, inputs, plan="chain", leaves=2, **options) as run:
        assert run.wait(HANG_S)
        assert run.to_arrow().to_pylist() == expected
    other = program(update={**TYPED["update"], "question": {"all": ask, "part": ask}})
    assert checksum_of(other) != checksum_of(program())


@pytest.mark.parametrize("seed", range(30))
def test_oracle_wire_diagrams_give_the_same(seed):
    rng = random.Random(seed)
    typed = program()
    streams = {"value": 2, "question": 1, "barrier": 1}
    given = [
        (tag, [(ts, {"x": rng.randint(-9, 9)} if tag[0] == "value" else {}) for ts in rising(rng, 12, 30)])
        for tag in implementation_tags(typed, streams)
    ]
    plan = typed.plan(streams, leaves=3)
    events = reference.merged(given)
    assert reference.evaluate(typed, reference.planned(events, plan.roots[0]), typed.seen) == reference.run(typed, given)


# -- laws


def forgets_what_is_known(state, left, right, tags_left, tags_right):
    left.sum = state.sum
    left.known = state.known


def keeps_twice(state, left, right, tags_left, tags_right):
    left.sum = right.sum = state.sum
    left.known = right.known = state.barriers


def of_the_left(into, left, right):
    into.sum = left.sum
    into.barriers = left.known


def resets(state, e, emit):
    state.sum = e.x


def test_the_laws_hold_as_far_as_is_tried():
    checked = program().check(examples=100)
    assert set(checked.held) == {"C1", "C2", "C3"} and min(checked.held.values()) > 50


MUTANTS = {
    "a part is not told": ({"fork": {**TYPED["fork"], ("part", "part", "part"): forgets_what_is_known}}, "C1"),
    "both sides have the sum": ({"fork": {**TYPED["fork"], ("all", "part", "part"): keeps_twice}}, "C2"),
    "one side is left out": ({"join": {**TYPED["join"], ("all", "part", "part"): of_the_left}}, "C1"),
    "of one type a tag does something else": ({"update": {**TYPED["update"], "value": {"all": add, "part": resets}}}, "C3"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_refused_at_its_law(name):
    changed, law = MUTANTS[name]
    with pytest.raises(InconsistentProgramError) as caught:
        program(**changed).check()
    found = caught.value.counterexample
    assert found.law.startswith(law)
    assert found.run(program()).verdict == "agree"


# -- plans


def test_plans_say_the_type_of_every_node():
    typed = program()
    plan = typed.plan({"value": 2, "question": 1, "barrier": 1}, leaves=3)
    assert {one.node.state for one in plan.leaves} == {"part"} and plan.roots[0].state == "all"
    assert hr.Plan.from_json(plan.to_json()) == plan
    assert "node 0 (all)" in repr(plan) and "leaf 0 (part)" in repr(plan)
    drawn = ElementTree.fromstring(plan._repr_html_())
    texts, titles = ([one.text for one in drawn.iter(f"{{http://www.w3.org/2000/svg}}{kind}")] for kind in ("text", "title"))
    assert "barrier (all)" in texts and any(text.startswith("leaf 0 (part): value") for text in texts if text)
    assert titles[0].startswith("node 0 (all): barrier")


def only_once():
    """A part is not forked again."""
    key = ("all", "part", "part")
    return program(fork={key: split}, join={key: together})


def test_fewer_leaves_where_no_types_fit():
    typed, streams = only_once(), {"value": 4, "question": 1, "barrier": 1}
    assert len(typed.plan(streams, leaves=4).leaves) == 2
    assert len(typed.plan(streams, leaves=4, rates={"value": 10_000, "question": 1, "barrier": 1}).leaves) == 2
    with pytest.raises(ParameterError, match=r"plan\(by='flat', leaves=4\): the forks of program lead to no types"):
        typed.plan(streams, leaves=4, by="flat")


def leaf(*tags, state=None):
    return hr.PlanNode([(tag, 0, 0) for tag in tags], state=state)


ALL = {"value": 1, "question": 1, "barrier": 1}


@pytest.mark.parametrize(
    ("roots", "words"),
    [
        ([leaf("value", "question", "barrier", state="part")], r"owns barrier.*, which a state of type 'part' may not"),
        ([leaf("value", "question", "barrier", state="whole")], "leaf 0 has the state 'whole'.*all"),
        ([hr.PlanNode([("barrier", 0, 0)], [leaf("value", state="all"), leaf("question")])], "no types of state fit: the forks"),
        ([hr.PlanNode([], [leaf(), leaf("value", "question", "barrier")])], "no types of state fit"),
    ],
    ids=["not allowed", "unknown", "no such fork", "a part below may not either"],
)  # fmt: skip
def test_a_plan_without_fitting_types_is_refused(roots, words):
    with pytest.raises(ParameterError, match=words):
        hr.Plan(roots).check(program(), ALL)


def test_a_plan_of_a_program_with_one_type_says_none():
    window = hr.program(tags={"value": {"x": "int64"}}, state={"sum": "int64"}, emits={"sum": "int64"}, update={"value": add})
    with pytest.raises(ParameterError, match="has one type of state; leave state= out"):
        hr.Plan([leaf("value", state="all")]).check(window, {"value": 1})


def nothing(state, e, emit):
    emit(n=0)


def no_fork(state, left, right, tags_left, tags_right):
    pass


def no_join(into, left, right):
    pass


@pytest.mark.parametrize("seed", range(40))
def test_oracle_types_are_found_where_there_are_any(seed):
    """All types of all nodes are tried in turn."""
    rng = random.Random(seed)
    names, types = ["a", "b", "c"], ["s", "t", "u"]
    keys = [key for key in itertools.product(types, repeat=3) if rng.random() < 0.25]
    keys += [("s", "t", "u"), ("s", "u", "t")]
    typed = hr.program(
        tags={name: {} for name in names}, states={of: {"n": "int64"} for of in types}, emits={"n": "int64"},
        processes={of: rng.sample(names, rng.randint(1, 3)) for of in types[1:]}, update=dict.fromkeys(names, nothing),
        fork=dict.fromkeys(keys, no_fork), join=dict.fromkeys(keys, no_join),
    )  # fmt: skip

    def grown(depth):
        tags = [(rng.choice(names), 0, rng.randrange(9)) for _ in range(rng.randint(0, 1))]
        return PlanNode(tags, [grown(depth - 1), grown(depth - 1)] if depth and rng.random() < 0.7 else [])

    def below(node):
        return {tag.tag for tag in node.tags}.union(*map(below, node.children))

    def is_right(node, of):
        if not below(node) <= typed.processes[of]:
            return False
        ways = itertools.product(types, repeat=2)
        return not node.children or any(
            (of, *pair) in typed.forks and all(map(is_right, node.children, pair)) for pair in ways
        )

    root = grown(3)
    found = matched(typed, root)
    assert (found is not None) == is_right(root, "s")
    waiting = [found] if found else []
    for node in waiting:
        assert below(node) <= typed.processes[node.state]
        assert not node.children or (node.state, *(child.state for child in node.children)) in typed.forks
        waiting.extend(node.children)


# -- what cannot be meant


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"states": {"all": {"sum": "int64"}}}, ParameterError, "one type is state="),
        ({"state": {"sum": "int64"}}, ParameterError, "give one of them"),
        ({"states": {**TYPED["states"], "part": {"sums": hr.map_of("int64", "int64", by="x")}}}, ParameterError,
         "states: part: sums=.*between states of one type.*leave by= out"),
        ({"processes": {"all": ["value"]}}, ParameterError, "'all', the first of states=, may not process 'question'"),
        ({"processes": {"part": ["valeu"]}}, UnknownNameError, "no tag 'valeu'"),
        ({"processes": {"parts": ["value"]}}, UnknownNameError, "no type of state 'parts'.*part"),
        ({"states": {**TYPED["states"], "other": {"n": "int64"}}, "processes": {"part": ["value"], "other": []},
          "update": {"value": add, "question": ask, "barrier": close}}, ParameterError, "'other' cannot be reached"),
        ({"update": {**TYPED["update"], "question": {"all": ask}}}, ParameterError, "question has no function for 'part'"),
        ({"update": {**TYPED["update"], "barrier": {"all": close, "part": close}}}, ParameterError, "'part', which may not"),
        ({"join": {("all", "part", "part"): together}}, ParameterError, r"join: there is none for \('part', 'part', 'part'\)"),
        ({"fork": {**TYPED["fork"], ("all", "part"): split}}, ParameterError, "types above, left and right"),
        ({"fork": {**TYPED["fork"], ("all", "part", "rest"): split}}, UnknownNameError, "no type of state 'rest'"),
        ({"fork": split}, ParameterError, "dict of the types above, left and right"),
        ({"join": {**TYPED["join"], ("all", "part", "part"): lambda into, other: None}}, ParameterError, "must take"),
        ({"states": None, "state": {"sum": "int64"}}, ParameterError, "processes=.*states="),
        ({"states": None, "state": {"sum": "int64"}, "processes": None}, ParameterError, "a dict is for several types"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(changed, error, words):
    with pytest.raises(error, match=words):
        program(**changed)


def fails(into, left, right):
    into.sum = left.sum + right.sum + 0 * (10 // (left.sum + right.sum - 7))
    into.barriers = left.known


@pytest.mark.slow
def test_a_typed_function_that_fails_is_named():
    typed = program(join={**TYPED["join"], ("all", "part", "part"): fails})
    values = [pa.table({"ts": [1], "x": [3]}), pa.table({"ts": [2], "x": [4]})]
    none = pa.table({"ts": pa.array([], pa.int64())})
    inputs = {"value": values, "question": none, "barrier": pa.table({"ts": [5]})}
    with pytest.raises(FunctionError, match=r"join: ZeroDivisionError.*fails.*line \d+"):
        typed.over(inputs).to_arrow(threads=2, leaves=2)
