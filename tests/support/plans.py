"""Random programs for tests of plans, and a pair-by-pair check that a plan is valid."""

from hypothesis import strategies as st

import headrace as hr
from headrace.synchronization.definition import dependent


def nothing(state, e, emit):
    emit(n=0)


def fork(state, left, right, tags_left, tags_right):
    left.n = state.n


def join(into, other):
    into.n += other.n


def program_of(tags, depends, can_fork=True):
    """A program with tags (name -> parts, 0 without a key) that does nothing."""
    return hr.program(
        tags={hr.tag(name, by="key", parts=parts) if parts else name: {"key": "int64"} for name, parts in tags.items()},
        depends=depends,
        update=dict.fromkeys(tags, nothing),
        state={"n": "int64"},
        emits={"n": "int64"},
        fork=fork if can_fork else None,
        join=join if can_fork else None,
    )


@st.composite
def programs(draw, most_parts=3):
    """A random program and the number of streams of each of its tags."""
    names = ["a", "b", "c", "d"][: draw(st.integers(1, 4))]
    parts = draw(st.sampled_from(range(2, most_parts + 1)))
    tags = {name: draw(st.sampled_from([0, parts])) for name in names}
    kinds = st.sampled_from([(False, False)] * 3 + [(True, True), (True, False), (False, True)])
    relation = {frozenset((a, b)): draw(kinds) for a in names for b in names}

    def depends(a, b):
        same, different = relation[frozenset((a.name, b.name))]
        if not (tags[a.name] and tags[b.name]):
            return same
        return same if a.part == b.part else different

    return program_of(tags, depends), {name: draw(st.integers(0, 3)) for name in names}


@st.composite
def rates(draw, program, tags):
    """Rates of implementation tags, many of them equal."""
    none = {name: 0 for name in program.tags if not any(tag.tag == name for tag in tags)}
    return none | {tuple(tag): draw(st.sampled_from([0, 1, 1, 5, 10, 100])) for tag in tags}


def is_valid(plan, program, there):
    """Check Definition 3.2 pair by pair."""
    if sorted(plan.tags) != sorted(there):
        return False

    def above(node):
        while node >= 0:
            yield node
            node = plan.nodes[node].parent

    related = {(a, one.index) for one in plan.nodes for a in above(one.index)}
    return not any(
        dependent(program, a, b)
        for x in plan.nodes
        for y in plan.nodes
        if (x.index, y.index) not in related and (y.index, x.index) not in related
        for a in x.node.tags
        for b in y.node.tags
    )
