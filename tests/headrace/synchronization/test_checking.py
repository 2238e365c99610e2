"""check(): the paper's programs are consistent, and mistakes in them are found, each by the law that it breaks.

Property    no law fails for a right program; for each mutant one does, the law is the one expected, the counterexample is small,
            says so in words and runs again; mended functions agree on it
Oracle      which law a mistake breaks, worked out by hand
Counted     23 mutants of 6 programs: of 3 applications, an event window with one sum, outliers with one score, and homes
Cannot see  that a program without counterexample is consistent
"""

import pytest

import headrace as hr
from headrace.apps import eventwindow, keycounter, modelfraud, outlier, pageview, smarthome
from headrace.errors import InconsistentProgramError, ParameterError, UnknownNameError
from headrace.reference.synchronization import Parallel, Update
from headrace.synchronization.laws import is_valid
from headrace.synchronization.program import Program
from headrace.synchronization.tags import ImplementationTag
from support import event_window
from support.campaign import rarely
from support.event_window import add, merge


def mutant(of: Program, **changed):
    """A program with something else in it."""
    said = {
        "tags": {hr.tag(one.name, by=one.by, parts=one.parts) if one.by else one.name: one.columns for one in of.tags.values()},
        "depends": [pair for pair, (same, _) in of.dependence.items() if same],
        "state": {name: field.kind for name, field in of.state.items()},
        **{name: getattr(of, name) for name in ("name", "emits", "update", "fork", "join")},
    }
    changed["update"] = {**of.update, **changed.get("update", {})}
    return hr.program(**{**said, **changed})


# -- programs -------------------------------------------------------------------------------------------------


WINDOW = hr.program(name="window", **event_window.WINDOW)


def flag(state, e, emit):
    """A local candidate: above all that was seen here."""
    state.most = max(state.most, e.score)
    state.n += 1


def confirm(state, e, emit):
    emit(most=state.most, n=state.n)


def share(state, left, right, tags_left, tags_right):
    left.most = state.most
    right.most = state.most
    if "request" in tags_right:
        right.n = state.n
    else:
        left.n = state.n


def globally(into, other):
    into.most = max(into.most, other.most)
    into.n += other.n


OUTLIER = hr.program(
    name="outlier",
    tags={"connection": {"score": "int64"}, "request": {}},
    depends=[("request", "connection"), ("request", "request")],
    state={"most": -5, "n": "int64"},
    emits={"most": "int64", "n": "int64"},
    update={"connection": flag, "request": confirm},
    fork=share,
    join=globally,
)


def load(state, e, emit):
    plug = state.plugs[e.house]
    plug.sum += e.load
    plug.n += 1


def slice_over(state, e, emit):
    for house, plug in state.plugs.items():
        emit(house=house, sum=plug.sum, n=plug.n)
    state.plugs.clear()


def by_house(state, left, right, tags_left, tags_right):
    for house, plug in state.plugs.items():
        if "slice" in tags_right or ("load", house) in tags_right:
            right.plugs[house].sum = plug.sum
            right.plugs[house].n = plug.n
        else:
            left.plugs[house].sum = plug.sum
            left.plugs[house].n = plug.n


def houses(into, other):
    for house, plug in other.plugs.items():
        into.plugs[house].sum += plug.sum
        into.plugs[house].n += plug.n


HOMES = hr.program(
    name="homes",
    tags={hr.tag("load", by="house", parts=4): {"house": "string", "load": "float64"}, "slice": {}},
    depends=[("load", "load"), ("slice", "load"), ("slice", "slice")],
    state={"plugs": hr.map_of("string", hr.record(sum="float64", n="int64"))},
    emits={"house": "string", "sum": "float64", "n": "int64"},
    update={"load": load, "slice": slice_over},
    fork=by_house,
    join=houses,
)
MEAN = hr.program(
    name="mean",
    tags={"value": {"x": "float64"}},
    state={"sum": "float64"},
    emits={"sum": "float64"},
    update={"value": add},
    fork=lambda state, left, right, tags_left, tags_right: setattr(left, "sum", state.sum),
    join=merge,
)
PROGRAMS = [eventwindow.PROGRAM, pageview.PROGRAM, modelfraud.PROGRAM, keycounter.PROGRAM, WINDOW, OUTLIER, HOMES]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_example_consistent_programs(program):
    checked = program.check(seed=1)
    # Most of what is drawn tells something.
    laws = {"C1", "C2", "C3", *(["C4"] if program.by else [])}
    assert set(checked.held) == laws and min(checked.held.values()) > 150, checked
    assert "consistent as far as was tried: C2 in" in repr(checked)


def test_example_the_case_studies_are_consistent():
    outlier.program().check(examples=60, values={"row": range(1 << 20)})  # two connections seldom have one row
    smarthome.program().check(examples=60)


@pytest.mark.parametrize("program", [keycounter.PROGRAM, *rarely(pageview.PROGRAM)], ids=lambda program: program.name)
def test_example_whatever_the_parts(program):
    tags = {hr.tag(tag.name, by=tag.by, parts=1): tag.columns for tag in program.tags.values()}
    mutant(program, tags=tags).check(examples=200)


# -- mutants --------------------------------------------------------------------------------------------------


def replicated_sum(state, left, right, tags_left, tags_right):
    left.sum = state.sum
    right.sum = state.sum


def always_left(state, left, right, tags_left, tags_right):
    left.sum = state.sum


def shared_out(state, left, right, tags_left, tags_right):
    """Wrong only for a fork whose right side never sees a barrier."""
    if "barrier" in tags_left:
        left.sum = state.sum
    elif "barrier" in tags_right:
        right.sum = state.sum
    else:
        left.sum = state.sum // 2
        right.sum = state.sum // 2


def running(state, e, emit):
    state.sum += e.x
    emit(sum=state.sum)


def last(state, e, emit):
    state.sum = e.x


def counts_left(state, left, right, tags_left, tags_right):
    for key, count in state.counts.items():
        left.counts[key] = count


def counts_of_one_side(into, other):
    for key, count in other.counts.items():
        into.counts[key] = count


def counts_forgotten(into, other):
    for key, count in other.counts.items():
        if key in into.counts:
            into.counts[key] += count


def reset_all(state, e, emit):
    emit(key=e.key, count=state.counts.get(e.key, 0))
    state.counts.clear()


def pages_by_views(state, left, right, tags_left, tags_right):
    """Forgets that the other side is asked for the page too."""
    for page, info in state.info.items():
        if ("view", page) in tags_left or ("update", page) in tags_left:
            left.info[page] = info
        else:
            right.info[page] = info


def pages_everywhere(state, left, right, tags_left, tags_right):
    for page, info in state.info.items():
        left.info[page] = info
        right.info[page] = info


def pages_of_left(into, other):
    pass


def model_of_left(into, other):
    into.high += other.high
    into.low += other.low


def models_added(into, other):
    into.model += other.model
    into.rules = max(into.rules, other.rules)
    model_of_left(into, other)


def most_of_other(into, other):
    into.most = other.most
    into.n += other.n


def most_is_added(into, other):
    into.most += other.most
    into.n += other.n


VALUES_APART = [("barrier", "barrier")]
MUTANTS = {
    "sum replicated": (WINDOW, {"fork": replicated_sum}, "C2", ()),
    "sum halved": (WINDOW, {"fork": shared_out}, "C2", ()),
    "barrier may come right": (WINDOW, {"fork": always_left}, "C1 mirrored", ("barrier",)),
    "barrier does not wait": (WINDOW, {"depends": VALUES_APART}, "C3", ("barrier", "value")),
    "barriers do not wait": (WINDOW, {"depends": [("barrier", "value")]}, "C3", ("barrier", "barrier")),
    "running sum": (WINDOW, {"update": {"value": running}}, "C3", ("value", "value")),
    "last value": (WINDOW, {"update": {"value": last}}, "C3", ("value", "value")),
    "first value counted twice": (WINDOW, {"state": {"sum": 7}}, "C2", ()),
    "reset may come right": (keycounter.PROGRAM, {"fork": counts_left}, "C1 mirrored", ("reset",)),
    "counts of one side": (keycounter.PROGRAM, {"join": counts_of_one_side}, "C1", ("inc",)),
    "new keys forgotten": (keycounter.PROGRAM, {"join": counts_forgotten}, "C2", ()),
    "resets do not wait": (keycounter.PROGRAM, {"depends": [("inc", "reset")]}, "C3", ("reset", "reset")),
    "increments are not waited for": (keycounter.PROGRAM, {"depends": [("reset", "reset")]}, "C3", ("inc", "reset")),
    "reset of all keys": (keycounter.PROGRAM, {"update": {"reset": reset_all}}, "C3", ("inc", "reset")),
    "page on one side": (pageview.PROGRAM, {"fork": pages_by_views}, "C1 mirrored", ("view",)),
    "an old copy survives": (pageview.PROGRAM, {"fork": pages_everywhere}, "C1", ("update",)),
    "pages of left": (pageview.PROGRAM, {"join": pages_of_left}, "C2", ()),
    "views do not wait": (pageview.PROGRAM, {"depends": [("update", "update")]}, "C3", ("update", "view")),
    "model of left": (modelfraud.PROGRAM, {"join": model_of_left}, "C1 mirrored", ("rule",)),
    "models added": (modelfraud.PROGRAM, {"join": models_added}, "C2", ()),
    "most of the other": (OUTLIER, {"join": most_of_other}, "C1", ("connection",)),
    "most is added": (OUTLIER, {"join": most_is_added}, "C2", ()),
    "a house has two workers": (HOMES, {"depends": [("slice", "load"), ("slice", "slice")]}, "C3", ("load", "load")),
}


def events_in(diagram):
    if isinstance(diagram, Update):
        return 1
    if isinstance(diagram, Parallel):
        return events_in(diagram.left) + events_in(diagram.right)
    return sum(map(events_in, diagram.parts))


def refused(program, **options):
    with pytest.raises(InconsistentProgramError) as raised:
        program.check(**options)
    return raised.value


@pytest.mark.parametrize("name", MUTANTS)
def test_example_mutants_are_refused(name):
    of, changed, law, tags = MUTANTS[name]
    program = mutant(of, **changed)
    found = refused(program).counterexample
    # Where both sides are alike, either may be found.
    assert law in (found.law, found.case.law) and tuple(sorted(found.tags)) == tags
    sides = found.run()
    assert sides.verdict == found.verdict == ("rounding" if name == "a house has two workers" else "different")
    assert repr(found.run()) == repr(sides)
    case = found.case
    parts = [*(descent.before for descent in case.descents), case.before, case.left.diagram, case.right.diagram]
    assert sum(map(events_in, parts)) <= 2
    assert is_valid(program, case, all_tags(program))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sum halved", "model of left", *rarely("barrier may come right", "an old copy survives")])
def test_example_other_seeds_find_it_too(name):
    of, changed, law, _ = MUTANTS[name]
    for seed in range(1, 4):
        found = refused(mutant(of, **changed), seed=seed).counterexample
        assert law in (found.law, found.case.law)


def all_tags(program):
    tags = program.tags.values()
    return [ImplementationTag(tag.name, part, stream) for tag in tags for part in range(tag.parts) for stream in range(2)]


# -- what a counterexample says -------------------------------------------------------------------------------


def test_example_drawing_of_c1():
    error = refused(mutant(WINDOW, fork=always_left))
    assert str(error).splitlines()[0] == (
        "program 'window' is not consistent: C1 mirrored fails: updating the right side with 'barrier' and joining differs from"
        " joining and updating; what the event needs must be forked to its side, and what it changes must survive the join"
    )
    assert str(error.counterexample) == str(error).partition("\n\n")[2] == """\
state     sum=1
reached   value(x=1)
left      nothing
right     barrier (stream 0)
          sum=1 on the left and sum=0 on the right, before barrier()

update, join
  ─┬──────────────┬─> sum=1; barrier emits sum=0
   └─ barrier() ──┘
join, update
  ─┬──┬─ barrier() ─> sum=0; barrier emits sum=1
   └──┘"""


def test_example_drawing_of_c2():
    assert str(refused(mutant(WINDOW, fork=replicated_sum)).counterexample) == """\
state     sum=1
reached   value(x=1)
left      nothing
right     nothing

forked and joined
  ─┬──┬─> sum=2
   └──┘
as it was
  ──> sum=1"""


def test_example_drawing_of_records():
    def sums(into, other):
        for house, plug in other.plugs.items():
            into.plugs[house].sum += plug.sum

    text = str(refused(mutant(HOMES, join=sums)).counterexample)
    assert "plugs={'" in text and ": record(sum=" in text and ", n=1)}" in text and "namespace" not in text, text


def test_example_drawing_of_c3():
    counterexample = refused(mutant(WINDOW, update={"value": running})).counterexample
    assert "make these tags depend on each other" in counterexample.summary
    assert str(counterexample) == """\
state     sum=0
reached   it is the first one

in one order
  ── value(x=0) ─ value(x=1) ─> sum=1; value emits sum=0; value emits sum=1
in the other
  ── value(x=1) ─ value(x=0) ─> sum=1; value emits sum=1; value emits sum=1"""


def test_example_rounding_is_said():
    error = refused(MEAN)
    assert error.counterexample.verdict == "rounding"
    assert "by rounding alone: floats are added in another order; sum fixed-point integers" in str(error)
    # Halves and quarters are added exactly.
    MEAN.check(examples=100, values={"x": [0.5, 0.25, -1.0]})


def test_example_a_difference_is_told_before_rounding_is():
    """What floats a wrong program adds is not the trouble with it."""

    def lost(into, other):
        if into.sum == 0:
            into.sum = other.sum

    assert refused(MEAN).counterexample.law == "C3"
    found = refused(mutant(MEAN, join=lost)).counterexample
    assert (found.verdict, found.case.law) == ("different", "C1")


def test_example_mended_functions_agree():
    counterexample = refused(mutant(WINDOW, fork=always_left)).counterexample
    assert counterexample.run(WINDOW).verdict == "agree"
    sides = counterexample.run()
    assert (sides.one.state, sides.other.state) == ({"sum": 1}, {"sum": 0})
    assert [[row["sum"] for (row,) in side.outputs] for side in (sides.one, sides.other)] == [[0], [1]]


def test_example_a_seed_finds_the_same_again():
    program = mutant(modelfraud.PROGRAM, join=model_of_left)
    assert str(refused(program, seed=4)) == str(refused(program, seed=4))


# -- what cannot be checked -----------------------------------------------------------------------------------


def test_example_without_fork_only_the_order_counts():
    alone = mutant(WINDOW, fork=None, join=None)
    assert set(alone.check(examples=20).held) == {"C3"}
    assert refused(mutant(alone, depends=[]), examples=100).counterexample.law == "C3"


def test_example_functions_that_fail_on_what_is_drawn():
    def inverse(state, e, emit):
        state.sum += 12 // e.x

    program = mutant(WINDOW, update={"value": inverse})
    # Some values are no zeros.
    assert program.check(examples=50).held["C3"] > 10
    with pytest.raises(ParameterError, match=r"fail on most of what is drawn \(ZeroDivisionError.*values="):
        program.check(examples=50, values={"x": [0]})
    with pytest.raises(InconsistentProgramError, match=r"C2 fails: .* \(AttributeError: .*'total'.*, in <lambda>, line \d+\)"):
        mutant(WINDOW, fork=lambda state, left, right, a, b: setattr(left, "total", 0)).check(examples=50)


def test_example_one_side_fails_alone():
    def strict(into, other):
        if into.sum * other.sum < 0:
            raise ValueError("of two signs")
        into.sum += other.sum

    found = refused(mutant(WINDOW, join=strict)).counterexample
    assert found.case.law == "C1"
    assert "ValueError: of two signs" in str(found)


def test_example_both_sides_fail_with_other_texts():
    """A reset of a key that is not there fails in either order, at another key: so it is the function that is refused."""

    def strict_reset(state, e, emit):
        emit(key=e.key, count=state.counts.pop(e.key))

    with pytest.raises(ParameterError, match=r"fail on most of what is drawn \(KeyError"):
        mutant(keycounter.PROGRAM, update={"reset": strict_reset}).check(examples=100)


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"examples": 0}, ParameterError, "examples=0"),
        ({"values": {"y": [1]}}, UnknownNameError, "no tag has 'y'.*'x'"),
        ({"values": {"x": 1}}, ParameterError, "x=1: give a list"),
        ({"values": {"x": []}}, ParameterError, "give a list"),
        ({"example": 3}, ParameterError, "did you mean examples="),
    ],
)
def test_example_bad_arguments(arguments, kind, words):
    with pytest.raises(kind, match=words):
        WINDOW.check(**arguments)


CODE = 77_321


def is_refund(kind):
    return kind == "refund"


def test_example_values_that_updates_compare_with_are_tried():
    def by_number(state, e, emit):
        state.sum += e.x
        if e.x > CODE:
            emit(sum=state.sum)

    def by_text(state, e, emit):
        state.sum = 1 if is_refund(e.kind) else state.sum + 1

    assert refused(mutant(WINDOW, update={"value": by_number})).counterexample.law == "C3"
    kinds = mutant(WINDOW, tags={"value": {"kind": "string"}, "barrier": {}}, update={"value": by_text})
    assert refused(kinds).counterexample.law == "C3"


def test_example_given_values_are_the_only_ones():
    seen = set()

    def look(state, e, emit):
        seen.add((e.key, type(e.key)))

    program = mutant(keycounter.PROGRAM, update={"inc": look})
    program.check(examples=50, values={"key": [70, 71]})
    assert seen == {(70, int), (71, int)}


def test_example_keys_of_all_kinds():
    seen = set()

    def look(state, e, emit):
        seen.add((type(e.key), e.key))

    for kind in ("int64", "string", "bool", "timestamp[us]"):
        tags = {hr.tag("inc", by="key", parts=2): {"key": kind}}
        hr.program(tags=tags, emits={"n": "int64"}, update={"inc": look}).check(examples=50)
    assert {kind for kind, _ in seen} == {int, str, bool}
