"""The generalized operator O+: what each function sees, and the order of what it emits.

Oracles: for WT=multi the definition (each window of each key replayed by
itself); Theorem 2: O+ as A+ equals `aggregate`, O+ as ScaleJoin equals `join`,
in both WT where both can. Two inputs: the rule for which tuples meet.
Cannot see: watermarks and instances; one instance owns all keys here.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import ParameterError
from headrace.reference import aggregate, column, copy_per_key, each, join, operator, operators, order
from headrace.windows import Window
from planted_mistakes import assert_found

ROWS = st.tuples(st.integers(-20, 20), st.lists(st.sampled_from("abc"), max_size=3), st.integers(0, 9))


@st.composite
def windows(draw):
    advance = draw(st.integers(1, 5))
    return Window(advance + draw(st.integers(0, 11)), advance)


@st.composite
def cases(draw):
    """One or two inputs of one or two sources each, and a window; ids are unique."""
    ids = iter(range(1000))
    source = st.lists(ROWS, max_size=9)
    inputs = [
        [
            [(ts, {"ks": ks, "x": x, "id": next(ids)}) for ts, ks, x in sorted(rows, key=lambda row: row[0])]
            for rows in sources
        ]
        for sources in draw(st.lists(st.lists(source, min_size=1, max_size=2), min_size=1, max_size=2))
    ]
    return inputs, draw(windows())


def running_sum(state, t, emit):
    state.total += t.x
    if t.x % 2:
        emit(total=state.total, by=t.id)
    if t.x == 9:
        emit(total=-1, by=t.id)


def final_sum(key, state, emit):
    emit(total=state.total, by=None)


def replayed(inputs, window):
    """What the definition gives: every window of every key on its own, then sorted."""
    merged = order.merge([source for sources in inputs for source in sources])
    placed = []
    for left in range(-60 * window.advance, 60 * window.advance, window.advance):
        ts = left + window.size
        for key in "abc":
            total, seen = 0, False
            for t in merged:
                if left <= t.ts < ts and key in t.payload["ks"]:
                    seen = True
                    total += t.payload["x"]
                    if t.payload["x"] % 2:
                        placed.append((ts, 0, t.position, key, 0, total, t.payload["id"]))
                    if t.payload["x"] == 9:
                        placed.append((ts, 0, t.position, key, 1, -1, t.payload["id"]))
            if seen:
                placed.append((ts, 1, 0, key, 0, total, None))
    return [(ts, key, total, by) for ts, _, _, key, _, total, by in sorted(placed)]


def check_definition(case):
    inputs, window = case
    rows = operator(
        inputs, window, each("ks"), state={"total": "int64"}, update=running_sum, output=final_sum
    )
    found = [(row.ts, row.key, *row.values.values()) for row in rows]
    assert found == replayed(inputs, window), "the rows are not the definition's"


@settings(deadline=None, max_examples=80)
@given(cases())
def test_oracle_definition(case):
    check_definition(case)


def stored_sum(key, state, emit):
    stored = sorted(state.tuples, key=lambda t: t.id)
    emit(n=len(stored), total=sum(t.x for t in stored), ids=[t.id for t in stored])


def check_theorem_2(case):
    """A+ by the defaults of Table I: update stores, slide purges, only output is given."""
    inputs, window = case
    sources = [source for sources in inputs for source in sources]
    expected = aggregate(sources, window, each("ks"), {"n": ("count", None), "total": ("sum", "x")})
    for instances in ("multi", "single"):
        rows = operator(inputs, window, each("ks"), instances=instances, output=stored_sum)
        found = [(row.ts, row.key, row.values["n"], row.values["total"]) for row in rows]
        assert found == [(row.ts, row.key, *row.values.values()) for row in expected], "the rows are not A+'s"


@settings(deadline=None, max_examples=80)
@given(cases())
def test_agree_theorem_2_single_and_multi_equal_aggregate(case):
    check_theorem_2(case)


def scale_join(within, keys_count):
    """Operator 10, corrected: tuples are stored by position, the purge is at distance WS."""

    def update(state, t, emit):
        opposite = state.tuples[1 - t.input]
        opposite[:] = [other for other in opposite if t.ts - other.ts < within]
        for other in opposite:
            tl, tr = (t, other) if t.input == 0 else (other, t)
            if abs(tl.x - tr.x) <= 2:
                emit(left=tl.id, right=tr.id)
        if state.count % keys_count == t.key:
            state.tuples[t.input].append(t)
        state.count += 1

    return update


@settings(deadline=None, max_examples=60)
@given(cases(), st.integers(1, 4), st.integers(1, 9))
def test_agree_theorem_2_scalejoin_equals_join(case, keys_count, within):
    inputs, _ = case
    left, right = inputs if len(inputs) == 2 else (inputs[0], inputs[0])
    copies = [
        [copy_per_key(source, lambda payload: range(keys_count), "key") for source in side]
        for side in (left, right)
    ]
    rows = operator(
        copies,
        Window(within, 1),
        column("key"),
        instances="single",
        state=lambda: {"count": 0, "tuples": [[], []]},
        update=scale_join(within, keys_count),
    )
    expected = join(left, right, within, lambda tl, tr: abs(tl["x"] - tr["x"]) <= 2)
    # The storage key orders what one later tuple makes and is no part of the result: compare as sets.
    found = sorted((row.ts, row.values["left"], row.values["right"]) for row in rows)
    assert found == sorted((m.ts, m.left["id"], m.right["id"]) for m in expected)


def meet(state, t, emit):
    for other in state.tuples:
        if other.input != t.input:
            emit(pair=(t.id, other.id))
    state.tuples.append(t)


@settings(deadline=None, max_examples=80)
@given(cases())
def test_oracle_two_inputs_meet_in_the_windows_they_share(case):
    inputs, window = case
    left, right = inputs if len(inputs) == 2 else (inputs[0], inputs[0])
    met = {row.values["pair"] for row in operator([left, right], window, update=meet)}
    merged = order.merge([*left, *right])
    expected = {
        (later.payload["id"], earlier.payload["id"])
        for later in merged
        for earlier in merged
        if (later.source < len(left)) != (earlier.source < len(left))
        and earlier.position < later.position
        # The latest window of the earlier tuple begins at L; shared only if the later one lies in it.
        and later.ts < window.advance * (earlier.ts // window.advance) + window.size
    }
    assert met == expected


NOT_A = r"AssertionError: the rows are not A\+'s"
NOT_DEFINED = "AssertionError: the rows are not the definition's"


@pytest.mark.parametrize(
    "text, mistake, check, expected",
    [
        # Algorithm 2 as printed: a window whose right boundary is the watermark does not expire.
        ("ends(expiry[0][0]) <= watermark", "ends(expiry[0][0]) < watermark", check_theorem_2, "KeyError"),  # begun a second time
        ("latest_ts >= left", "latest_ts > left", check_theorem_2, NOT_A),
        ("latest_ts >= left", "latest_ts >= left - window.advance", check_theorem_2, NOT_A),
        ("if t.ts >= left]", "if t.ts > left]", check_theorem_2, NOT_A),
        ("if t.ts >= left]", "]", check_theorem_2, NOT_A),
        ("(BY_TUPLE, t.position)", "(AT_EXPIRY, t.position)", check_definition, NOT_DEFINED),
        ("emitted.append(((ts, cause,", "emitted.append(((cause, ts,", check_definition, NOT_DEFINED),
        ("key_order(key), len(emitted))", "0, -len(emitted))", check_definition, NOT_DEFINED),
        # Lemma 2 as printed: what the windows emit is in order already.
        ("sorted(emitted, key=lambda entry: entry[0])", "emitted", check_definition, NOT_DEFINED),
        ("(BY_TUPLE, t.position)", "(BY_TUPLE, 0)", check_definition, NOT_DEFINED),
    ],
)
def test_planted_mistake_is_found(text, mistake, check, expected):
    assert_found(operators, text, mistake, check, cases(), expected)


def summary(rows):
    return [(row.ts, row.key, row.values) for row in rows]


def test_example_order_of_emissions_where_windows_overlap():
    # WS 4, WA 2     -2 -1  0  1  2  3  4  5
    # tuples                   p     q
    # l = -1         [-----------)                 p
    # l =  0               [-----------)           p  q
    # l =  1                     [-----------)        q
    # p emits for 2 and 4, q for 4 and 6: released in order of time, update's before output's.
    def update(state, t, emit):
        emit(by=t.name, step=1)
        emit(by=t.name, step=2)

    def output(key, state, emit):
        emit(by="output", step=0)

    source = [(1, {"name": "p"}), (3, {"name": "q"})]
    rows = operator([[source]], Window(4, 2), state={}, update=update, output=output)
    assert [(row.ts, row.values["by"], row.values["step"]) for row in rows] == [
        (2, "p", 1),
        (2, "p", 2),
        (2, "output", 0),
        (4, "p", 1),
        (4, "p", 2),
        (4, "q", 1),
        (4, "q", 2),
        (4, "output", 0),
        (6, "q", 1),
        (6, "q", 2),
        (6, "output", 0),
    ]


def test_example_slide():
    # WS 4, WA 2     -2 -1  0  1  2  3  4  5  6
    # tuples                   x     y
    # the instance   [-----------)                    begins with x
    #                      [-----------)              slides to 0 when y comes, holds x y
    #                            [-----------)        slides to 2, y is left; then nothing is left
    slides = []

    def update(state, t, emit):
        state.n += 1

    def output(key, state, emit):
        emit(n=state.n)

    def slide(key, state, left):
        slides.append((key, left, state.n))
        if left == 2:
            state.n -= 1

    rows = operator(
        [[[(1, {}), (3, {})]]],
        Window(4, 2),
        instances="single",
        state={"n": "int64"},
        update=update,
        output=output,
        slide=slide,
    )
    assert summary(rows) == [(2, (), {"n": 1}), (4, (), {"n": 2}), (6, (), {"n": 1})]
    assert slides == [((), 0, 1), ((), 2, 2)]


def test_example_longest_tweet_per_hashtag():
    # Appendix E and Execution Trace 16, in minutes since 09:00: windows of 60 that advance by 30.
    calls = []

    def update(key, state, t, emit):
        before, state.chars = state.chars, max(state.chars, t.chars)
        calls.append((t.ts, key, before, state.chars))

    def output(key, state, emit):
        emit(chars=state.chars)

    tweets = [
        (50, {"chars": 11, "tags": ["pink"]}),
        (58, {"chars": 13, "tags": ["red", "pink"]}),
    ]
    rows = operator(
        [[tweets]], Window(60, 30), each("tags"), state={"chars": "int64"}, update=update, output=output
    )
    assert summary(rows) == [
        (60, "pink", {"chars": 13}),
        (60, "red", {"chars": 13}),
        (90, "pink", {"chars": 13}),
        (90, "red", {"chars": 13}),
    ]
    # Once for the window from 09:00 and once for that from 09:30, which have the same states here.
    assert sorted(calls) == 2 * [(50, "pink", 0, 11)] + 2 * [(58, "pink", 11, 13)] + 2 * [(58, "red", 0, 13)]


def test_example_tuples_say_which_input_they_came_from():
    def update(state, t, emit):
        emit(input=t.input, x=t.x)

    left, right = [(0, {"x": 1}), (2, {"x": 3})], [(0, {"x": 2})]
    rows = operator([[left], [right]], Window(5, 5), state={}, update=update)
    assert [(row.values["input"], row.values["x"]) for row in rows] == [(0, 1), (1, 2), (0, 3)]


def test_example_a_key_function_for_each_input():
    left, right = [(0, {"a": "k"})], [(1, {"b": "k"})]
    rows = operator(
        [[left], [right]], Window(5, 5), [column("a"), column("b")], update=lambda s, t, e: e(ts=t.ts)
    )
    assert [(row.key, row.values["ts"]) for row in rows] == [("k", 0), ("k", 1)]


def test_defaults_emit_nothing():
    assert operator([[[(0, {})]]], Window(5, 1), instances="single") == []


def test_state_begins_at_zero_in_each_window():
    def update(state, t, emit):
        emit(state=(state.i, state.f, state.b, state.start))
        state.i, state.f, state.b, state.start = 1, 1.0, True, 0

    kinds = {"i": "int64", "f": "float64", "b": "bool", "start": 7}
    rows = operator([[[(0, {}), (1, {})]]], Window(1, 1), state=kinds, update=update)
    assert [row.values["state"] for row in rows] == [(0, 0.0, False, 7)] * 2


def test_bad_instances():
    with pytest.raises(ParameterError, match="instances = 'many'"):
        operator([[[]]], Window(1, 1), instances="many")
