"""States by key, whose entries are handed over one by one.

Property    outputs are those of one event after another, whatever the plan, with events that take one entry and events that
            need everything in turn, keys of numbers and of strings, values that are single, records and arrays; forks and
            joins move the bytes of entries, not of maps; a function that touches other entries is refused
Oracle      `headrace.reference.synchronization.run`; in the campaign, the same program without ``by=``
Cannot see  interleavings (test_interleave.py)
"""

import random

import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import InconsistentProgramError, ParameterError, RunFailedError
from headrace.reference import synchronization as reference
from headrace.synchronization.plan_nodes import PlanNode
from headrace.synchronization.plans import implementation_tags
from support.campaign import rarely
from support.random_programs import random_plan

HANG_S = 120


def view(state, e, emit):
    state.views[e.page].n += 1
    emit(page=e.page, info=state.infos.get(e.page, 0))


def update(state, e, emit):
    emit(page=e.page, info=state.infos.get(e.page, 0), n=state.views[e.page].n)
    state.infos[e.page] = e.info


def total(state, e, emit):
    n = 0
    for one in state.views.values():
        n += one.n
    emit(n=n)


def split(state, left, right, tags_left, tags_right):
    for page, info in state.infos.items():
        is_right = "total" in tags_right or ("view", page) in tags_right or ("update", page) in tags_right
        if is_right:
            right.infos[page] = info
        if not is_right or "total" in tags_left or ("view", page) in tags_left or ("update", page) in tags_left:
            left.infos[page] = info
    for page, one in state.views.items():
        if "total" in tags_right or ("update", page) in tags_right:
            right.views[page].n = one.n
        else:
            left.views[page].n = one.n


def merge(into, other):
    for page, info in other.infos.items():
        into.infos[page] = info
    for page, one in other.views.items():
        into.views[page].n += one.n


def pages(kind="int64", parts=1, by="page", **changed):
    given = {
        "tags": {
            hr.tag("view", by="page", parts=parts): {"page": kind},
            hr.tag("update", by="page", parts=parts): {"page": kind, "info": "int64"},
            "total": {},
        },
        "depends": [("update", "view"), ("update", "update"), ("total", "view"), ("total", "update"), ("total", "total")],
        "state": {"infos": hr.map_of(kind, "int64", by=by), "views": hr.map_of(kind, hr.record(n="int64"), by=by)},
        "emits": {"page": kind, "info": "int64", "n": "int64"},
        "update": {"view": view, "update": update, "total": total},
        "fork": split,
        "join": merge,
    }
    return hr.program(**{**given, **changed})


def rows_of(rng, kind, count, keys):
    name = (lambda key: f"page {key}") if kind == "string" else (lambda key: key - keys // 2)
    ts, rows = 0, []
    for _ in range(count):
        ts += rng.randint(0, 2)
        tag = rng.choice(["view"] * 8 + ["update"] * 3 + ["total"])
        rows.append({"ts": ts, "tag": tag, "page": name(rng.randrange(keys)), "info": rng.randint(1, 99), "s": rng.randrange(3)})
    return rows


def run_on(program, rows, **options):
    """Outputs, and what was measured."""
    kind = pa.string() if rows and isinstance(rows[0]["page"], str) else pa.int64()
    columns = [("ts", pa.int64()), ("tag", pa.string()), ("page", kind), ("info", pa.int64()), ("s", pa.int64())]
    table = pa.Table.from_pylist(rows, pa.schema(columns))
    with program.start({("view", "update", "total"): hr.streams(table, 3, by="s", tag="tag")}, **options) as run:
        assert run.wait(HANG_S)
        metrics = run.metrics().operators["program"]
        assert metrics.balance.faults == ()
        return run.to_arrow().to_pylist(), metrics.values


def expected_of(program, rows):
    return reference.run(program, [[(row["ts"], row["tag"], row) for row in rows]])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_oracle_outputs_are_those_of_one_event_after_another(seed):
    rng = random.Random(seed)
    kind, parts = rng.choice([("int64", 1), ("string", 4)])
    program = pages(kind, parts)
    rows = rows_of(rng, kind, rng.choice([3, 100, 1_500]), rng.choice([1, 3, 50]))
    plan = random_plan(rng, program, implementation_tags(program, dict.fromkeys(program.tags, 3))) if parts == 1 else "auto"
    options = {"plan": plan, "leaves": rng.choice([2, 5]), "threads": rng.randint(1, 4), "heartbeat": rng.choice([1, 7, 1024])}
    options["reconfigure"] = [(at, {"plan": rng.choice(["flat", "chain", "auto"])}) for at in rng.choice([[], [20, 60]])]
    assert run_on(program, rows, max_threads=4, **options)[0] == expected_of(program, rows)


def above_the_views(program):
    """Updates and totals at the root, views of three streams at leaves on two levels."""
    tags = implementation_tags(program, dict.fromkeys(program.tags, 3))
    leaves = [PlanNode([tag for tag in tags if tag.tag == "view" and tag.stream == stream]) for stream in range(3)]
    return hr.Plan([PlanNode([tag for tag in tags if tag.tag != "view"], [leaves[0], PlanNode([], leaves[1:])])])


@pytest.mark.parametrize("maps", [("page",), *rarely((("page", None),))])
@pytest.mark.slow
def test_entries_move_and_maps_stay(maps):
    """The campaign compares it with maps that are handed over whole."""
    rng = random.Random(1)
    rows = [row for row in rows_of(rng, "int64", 4_000, 500) if row["tag"] != "total"]
    found = {}
    for by in maps:
        program = pages(by=by)
        outputs, values = run_on(program, rows, plan=above_the_views(program), threads=2)
        assert outputs == expected_of(program, rows)
        found[by] = values
    updates = sum(row["tag"] == "update" for row in rows)
    # Up and down, infos of three leaves and views of one: 16 bytes each, at the most; and the first fork, of no entries.
    assert 0 < found["page"]["copied_bytes"] <= updates * 2 * 4 * 2 * 16 + 256
    assert found["page"]["joins"] == 0 and found["page"]["forks"] == 2
    assert None not in found or found[None]["copied_bytes"] > 20 * found["page"]["copied_bytes"]
    assert found["page"]["spared_bytes"] > found["page"]["copied_bytes"]


@pytest.mark.slow
def test_what_needs_everything_joins_it_once_and_entries_come_before_and_after():
    rows = [
        {"ts": ts, "tag": tag, "page": 7, "info": ts, "s": ts % 3}
        for ts, tag in enumerate(["view", "update", "total", "update", "view", "total", "total", "update"])
    ]
    program = pages()
    outputs, values = run_on(program, rows, plan=above_the_views(program), threads=2)
    assert outputs == expected_of(program, rows)
    assert values["joins"] > 0


# -- the law


def test_the_laws_hold_as_far_as_is_tried():
    checked = pages(parts=4).check(examples=60)
    assert set(checked.held) == {"C1", "C2", "C3", "C4"} and min(checked.held.values()) > 20


def also_of_another(state, e, emit):
    state.views[e.page + 1].n += 1
    emit(page=e.page, info=0)


def looks_at_another(state, e, emit):
    emit(page=e.page, info=state.infos.get(e.page + 1, 0), n=state.views[e.page].n)
    state.infos[e.page] = e.info


@pytest.mark.parametrize(
    ("tag", "function", "words"),
    [
        ("update", also_of_another, "touches other entries of views"),
        ("update", looks_at_another, "C4 fails: updating only the entries"),
    ],
)
def test_a_function_that_is_not_by_key_is_refused_by_check(tag, function, words):
    functions = {"view": view, "update": update, "total": total, tag: function}
    depends = [(a, b) for a in functions for b in functions]  # nothing else is wrong
    with pytest.raises(InconsistentProgramError, match=words) as caught:
        pages(update=functions, depends=depends).check(values={"page": [0, 1, 2, 3]})
    found = caught.value.counterexample
    assert found.law == "C4" and "the entries of its key alone" in str(found)
    assert found.run(pages(depends=depends)).verdict == "agree"


@pytest.mark.slow
def test_a_function_that_makes_other_entries_ends_the_run():
    program = pages(update={"view": view, "update": also_of_another, "total": total})
    rows = [{"ts": 1, "tag": "view", "page": 1, "info": 0, "s": 0}, {"ts": 2, "tag": "update", "page": 1, "info": 0, "s": 1}]
    with pytest.raises(RunFailedError, match="update: its function makes other entries than that of the event's own page"):
        run_on(program, rows, plan=above_the_views(program), threads=2)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"infos": hr.map_of("int64", "int64", by="page"), "n": "int64"}, "infos is by 'page' and n is not"),
        ({"infos": hr.map_of("int64", "int64", by="info")}, "no tag has the key 'info'"),
        ({"infos": hr.map_of("string", "int64", by="page")}, "the key of view is int64; give the map that kind"),
    ],
)
def test_what_cannot_be_meant_is_refused(state, words):
    with pytest.raises(ParameterError, match=words):
        pages(state=state)


def test_by_means_nothing_to_other_engines():
    with pytest.raises(ParameterError, match=r"by= is the key of a program's tags; leave it out here"):
        hr.operator(
            state={"m": hr.map_of("int64", "int64", by="page")}, emits={"n": "int64"}, output=lambda key, state, emit: None
        )
    with pytest.raises(ParameterError, match="map_of: by=3: give the name of a column"):
        hr.map_of("int64", "int64", by=3)
