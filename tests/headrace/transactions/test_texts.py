"""Strings in tables and lists of strings in events: what functions read, compare, write and emit of them.

Property    rows and tables are those of the serial definition, for every scheme, thread and punctuation; a string that
            a row took from an event is there when the event is long gone; data, snapshots and results hold the same
            strings whatever their layout; what cannot be done with them is refused at the user's line
Oracle      `headrace.reference.transactions`, which runs the same function; for refusals, by hand
Cannot see  strings of custom operators (tests/headrace/elastic/test_texts.py); keys that are strings alone (test_tables.py)
"""

import random

import pandas as pd
import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import FunctionError
from headrace.ingress import encode, keys, lists
from headrace.ingress.keys_kernel import FREE
from headrace.transactions import binding, compiled, event_columns, results
from planted_mistakes import fails, planted
from support.transacted import SCHEMES, agree, agree_as_text, in_python, same
from support.workloads import Steered, eventually

CITIES = ["", "a", "b", "bb", "oslo", "oslo-east", "ö", "z\0", "\U0001f40c"]
NAMES = ["", "ann", "bob", "cyd", "dée", "eve"]

people = hr.table(
    "people", key="name",
    data=pa.table({"name": NAMES, "city": CITIES[:6], "next": NAMES[1:] + NAMES[:1], "moves": range(6)}),
)  # fmt: skip
seats = hr.table("seats", columns={"holder": "string", "note": "string", "taken": "int64"}, rows=5, first={"holder": "nobody"})
newcomers = hr.table("newcomers", columns={"first": "string", "visits": "int64"}, rows=0, unknown="insert", max_rows=64)
friends = hr.table("friends", columns={"names": hr.set_of("string"), "best": "string"}, rows=4)
EMITS = {"said": "string", "n": "int64"}
RUN = {"threads": 2, "punctuation": 7}


def events(draw, rows=60, nulls=True):
    def some(values):
        return None if nulls and draw.random() < 0.06 else draw.choice(values)

    def many():
        if nulls and draw.random() < 0.05:
            return None
        return [some(NAMES) if draw.random() < 0.2 else draw.choice(NAMES) for _ in range(draw.randrange(5))]

    return pa.table(
        {
            "ts": pa.array(sorted(draw.randrange(rows) for _ in range(rows)), pa.int64()),
            "name": pa.array([some([*NAMES, "nobody"]) for _ in range(rows)], pa.string()),
            "city": pa.array([draw.choice([*CITIES, f"city {n}"]) for n in range(rows)], pa.string()),
            "seat": pa.array([draw.randrange(5) for _ in range(rows)], pa.int64()),
            "names": pa.array([many() for _ in range(rows)], pa.list_(pa.string())),
            "amounts": pa.array([[draw.randrange(9)] * draw.randrange(5) for _ in range(rows)], pa.list_(pa.int64())),
            "is_late": pa.array([draw.random() < 0.3 for _ in range(rows)]),
        }
    )  # fmt: skip


EVENTS = events(random.Random(5))


def relocates(e, t):
    row = people[e.name]
    before = row.city
    row.city = e.city
    row.moves += 1
    t.emit(said=before, n=len(before))


def sits(e, t):
    seat = seats[e.seat]
    if seat.holder == "nobody" or seat.holder > e.city:
        seat.note = seat.holder
        seat.holder = e.city
        seat.taken += 1
    t.emit(said=max(seat.holder, seat.note), n=1 if seat.holder in ("oslo", "a") else 0)


def takes_over(e, t):
    mine = people[e.name]
    other = seats[e.seat]
    other.holder = mine.city
    mine.city = "moved" if e.is_late else other.note
    other.note = e.city
    if other.holder == "b" or (e.is_late and not mine.city):
        t.reject()
    t.emit(said=other.holder)


def arrives(e, t):
    row = newcomers[e.seat]
    if not row.first:
        row.first = e.city
    row.visits += 1
    if e.is_late:
        t.reject()
    t.emit(said=row.first, n=row.visits)


def all_move(e, t):
    if e.names is None:
        t.reject()
    for name in e.names:
        people[name].city = e.city
        people[name].moves += 1


def counted(e, t):
    total = 0
    for name, amount in zip(e.names, e.amounts):  # noqa: B905
        people[name].moves += amount
        people[name].city = e.city
        total += amount
    if len(e.names) > 2 and e.names[0] == "bob":
        t.reject()
    t.emit(said=e.names[-1] if e.names else "none", n=total + (10 if "eve" in e.names else 0))


def reads_and_writes(e, t):
    before = people[e.name].city
    seats[e.seat].holder = e.city
    t.emit(said=before, n=len(before))


def befriends(e, t):
    row = friends[e.seat]
    for name in e.names:
        row.names.add(name)
        if row.best < name:
            row.best = name
    t.emit(said=row.best, n=len(row.names))


def first_and_last(e, t):
    """With something to give where there is nothing, and without."""
    if e.names:
        people[max(n for n in e.names)].city = min([n for n in e.names if n <= e.names[0]])
    t.emit(said=max(e.names, default=e.city), n=min(e.amounts, default=-1) + max(len(n) for n in ("a", e.city)))


GUARDED = EVENTS.filter(pa.compute.is_valid(EVENTS["names"]))
WHOLE = GUARDED.filter(pa.array([None not in each for each in GUARDED["names"].to_pylist()]))
AGREE = [(relocates, EVENTS), (sits, EVENTS), (takes_over, EVENTS), (arrives, EVENTS), (all_move, EVENTS), (counted, WHOLE),
         (befriends, WHOLE), (first_and_last, WHOLE)]  # fmt: skip


@pytest.mark.logic
@pytest.mark.parametrize(("function", "given"), AGREE, ids=lambda value: getattr(value, "__name__", ""))
def test_example_rows_and_tables_are_those_of_the_serial_definition(function, given):
    schemes = SCHEMES if function is befriends else (*SCHEMES, "speculative")
    agree(function, given, EMITS, carry=["names", "city"], schemes=schemes, **RUN)


@pytest.mark.parametrize(("function", "given"), AGREE, ids=lambda value: getattr(value, "__name__", ""))
def test_example_lowered_text_says_the_same(function, given):
    agree_as_text(function, given, EMITS)


def next_of(e, t):
    other = people[e.name].next
    people[other].moves += 1
    seats[e.seat].holder = people[other].next
    t.emit(said=other)


@pytest.mark.logic
def test_example_a_string_that_was_read_may_be_a_key():
    agree(next_of, EVENTS, EMITS, schemes=["serial", "speculative"], **RUN)


@pytest.mark.campaign
@pytest.mark.interpreted
@pytest.mark.parametrize("seed", range(40))
def test_many_events_give_what_they_give_in_order(seed):
    draw = random.Random(seed)
    given = events(draw)
    functions = [draw.choice([relocates, sits, takes_over, arrives]), all_move]
    punctuation = draw.choice([1, 7, 50])
    agree(functions, given, EMITS, ["city"], schemes=(*SCHEMES, "speculative"), threads=3, punctuation=punctuation)


# -- how long strings live


def keeps(e, t):
    if e.is_first:
        seats[e.seat].holder = e.city
    t.emit(said=seats[e.seat].holder)


def check_kept(scheme, monkeypatch):
    """Rows keep strings of events that are long gone, while so many others come that ids would be given again."""
    monkeypatch.setattr(keys, "_LEAST_RECYCLED", 8)
    rows, batch = 200, 20
    given = pa.table({"ts": range(rows), "seat": [n % 5 for n in range(rows)], "city": [f"city {n}" for n in range(rows)],
                      "is_first": [n < 5 for n in range(rows)]})  # fmt: skip
    steered = Steered(given, [batch] * (rows // batch))
    ledger = hr.stream(steered, event_time="ts").transact(keeps, emits={"said": "string"})
    with ledger.start(threads=2, scheme=scheme, punctuation=7, max_delay="1ms") as run:
        for n in range(rows // batch):
            steered.let()
            eventually(lambda n=n: run.state != "running" or run.metrics().operators["keeps"].results >= batch * (n + 1))
        steered.let_all()
        run.wait()
    assert run.to_arrow()["said"].to_pylist() == [f"city {n % 5}" for n in range(rows)]
    assert run.tables["seats"].to_arrow()["holder"].to_pylist() == [f"city {n}" for n in range(5)]


def check_known():
    """When strings are let go: what the run's threads do then, done by hand behind its end."""
    cities = [f"city {n}" for n in range(10)]
    columns = {"seat": [n % 5 for n in range(10)], "city": cities, "is_first": [n < 5 for n in range(10)]}
    given = pa.table({"ts": range(10), **columns})
    run = hr.stream(given, event_time="ts").transact(keeps, emits={"said": "string"}).start(threads=1, scheme="serial")
    run.wait()
    (section,) = run._execution.sections.values()
    texts = section.compiled.texts
    ids = texts.encode(pa.array(cities))
    section.compiled.release(1_000)
    texts.recycle(texts.horizon)
    assert all(texts.last_use([each]) != FREE for each in ids[:5]), "strings that rows have"


@pytest.mark.logic
def test_example_strings_that_rows_have_are_known():
    check_known()


@pytest.mark.logic
@pytest.mark.parametrize("scheme", ["chains", "mvlk", "speculative"])
def test_example_a_row_keeps_its_string_when_the_event_is_long_gone(scheme, monkeypatch):
    check_kept(scheme, monkeypatch)


@pytest.mark.slow
def test_agree_on_real_threads():
    """In machine code: rows by strings, and lists of them."""
    given = events(random.Random(11), 3_000, nulls=False)
    agree(counted, given, EMITS, ["city"], schemes=["chains"], threads=2, punctuation=40)


@pytest.mark.logic
def test_example_strings_that_are_read_are_kept_by_operations(capsys):
    check_kept_by_operations(capsys)


def check_kept_by_operations(capsys):
    agree(reads_and_writes, EVENTS, EMITS, schemes=["chains"], **RUN)
    hr.stream(EVENTS, event_time="ts").transact(reads_and_writes, emits=EMITS).explain()
    assert "an operation chain for each row" in capsys.readouterr().out, "not kept by operations"


# -- what cannot be meant


def adds_to_a_string(e, t):
    people[e.name].city += "x"


def number_for_a_string(e, t):
    seats[e.seat].holder = e.seat


def string_for_a_number(e, t):
    seats[e.seat].taken = e.city


def sums_names(e, t):
    t.emit(n=sum(e.names))


def sorts_names(e, t):
    for name in sorted(e.names):
        people[name].moves += 1


def adds_lists(e, t):
    for name in e.names + e.names:
        people[name].moves += 1


def greatest_of_a_list(e, t):
    t.emit(said=max(e.names))


def greatest_as_a_number(e, t):
    t.emit(n=max(e.names, default=0))


def list_as_a_key(e, t):
    people[e.names].moves += 1


def names_as_numbers(e, t):
    for name in e.names:
        seats[name].taken += 1


def number_among_names(e, t):
    t.emit(n=1 if 3 in e.names else 0)


REFUSED = [
    (adds_to_a_string, 'people[e.name].city is a string, which can be compared, kept and emitted here'),
    (number_for_a_string, "e.seat is a number, and the field is a string"),
    (string_for_a_number, "e.city is a string, and the field is a number"),
    (sums_names, "e.names is a list of strings, in sum(...)"),
    (sorts_names, "e.names is a list of strings, in sorted(...)"),
    (adds_lists, "e.names + e.names: e.names is a list of strings; write a loop"),
    (greatest_of_a_list, "e.names is a list of strings, in max(...), which takes numbers; for the greatest text, write max(each"
     " for each in e.names)"),
    (greatest_as_a_number, "'max_or_default' is a string here and a number elsewhere: use two names"),
    (list_as_a_key, "e.names is a list"),
    (names_as_numbers, "name is a string, in the key of seats[name]"),
    (number_among_names, "3 is a number: 3 in e.names takes a string"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "text"), REFUSED, ids=lambda value: getattr(value, "__name__", ""))
def test_example_what_cannot_be_meant(function, text):
    with pytest.raises(FunctionError) as caught:
        hr.stream(EVENTS, event_time="ts").transact(function, emits=EMITS)
    assert text in str(caught.value) and f'function "{function.__name__}"' in str(caught.value)


def uses_a_null(e, t):
    seats[e.seat].holder = e.name


@pytest.mark.logic
def test_example_a_null_is_no_string():
    """As of numbers: it can be asked about, and names no row; kept, it ends the run at its event."""
    rows = EVENTS.filter(pa.compute.is_null(EVENTS["name"])).slice(0, 1)
    with pytest.raises(FunctionError, match="'name': None"):
        hr.stream(rows, event_time="ts").transact(uses_a_null).to_arrow(threads=1)


# -- as tables

LAYOUTS = {
    "string": lambda strings: strings,
    "large": lambda strings: strings.cast(pa.large_string()),
    "view": lambda strings: strings.cast(pa.string_view()),
    "dictionary": lambda strings: strings.dictionary_encode(),
}


@pytest.mark.logic
@pytest.mark.parametrize("layout", LAYOUTS)
def test_example_lists_of_strings_in_any_layout(layout):
    names = WHOLE["names"].combine_chunks()
    made = pa.ListArray.from_arrays(names.offsets, LAYOUTS[layout](names.values))
    given = WHOLE.set_column(WHOLE.schema.get_field_index("names"), "names", made)
    expected = in_python([counted], WHOLE, EMITS)
    run = hr.stream(given, event_time="ts").transact(counted, emits=EMITS).start(**RUN)
    run.wait()
    same(expected, (run.to_arrow().to_pylist(), {"people": run.tables["people"].to_arrow().to_pylist()}))


@pytest.mark.logic
def test_example_snapshots_and_frames_have_strings():
    ledger = hr.stream(EVENTS, event_time="ts").transact(sits, emits=EMITS)
    with ledger.start(snapshot_every=20, **RUN) as run:
        run.wait()
    _, tables = in_python([sits], EVENTS, EMITS)
    frame = run.tables["seats"].to_pandas()
    assert isinstance(frame, pd.DataFrame) and frame["holder"].tolist() == [row["holder"] for row in tables["seats"]]
    assert run.tables["seats"].to_arrow().schema.field("holder").type == pa.string()
    for taken in run.snapshots:
        _, then = in_python([sits], EVENTS.slice(0, taken.position), EMITS)
        assert taken["seats"].to_arrow().to_pylist() == then["seats"]


# -- planted mistakes

def check_lists():
    agree(counted, WHOLE, EMITS, schemes=["serial"])


MISTAKES = {
    "strings forgotten that rows have": (compiled, "self._keeps_texts = self.memory.has_texts", "self._keeps_texts = False",
                                         lambda _: check_known(), "AssertionError: strings that rows have"),
    "elements without their strings": (encode, "found = lists.text_lists(self.texts[name], array, ts)",
                                       "found = lists.number_lists(array, name)", lambda _: check_lists(),
                                       "UnsupportedTypeError: column 'names' has type string, which kernels cannot read"),
    "null elements pass for the empty string": (lists, "if elements.null_count:", "if False:",
                                                lambda _: agree(all_move, EVENTS, EMITS, schemes=["serial"]),
                                                "AssertionError: other results"),
    "a string that was read is a number": (binding, '"string" if kind == "string" else None', "None",
                                           check_kept_by_operations, "AssertionError: not kept by operations"),
    "a list of strings taken for one of numbers": (event_columns, "kind=TEXTS if holds_strings else NUMBERS", "kind=NUMBERS",
                                                   lambda _: check_lists(),
                                                   "FunctionError: .*a number or a string: give one kind"),
    "a null emitted as the empty string": (results, "pc.if_else(pa.array(absent), pa.scalar(None, kind), column)", "column",
                                           lambda _: agree(relocates, EVENTS, EMITS, schemes=["serial"]),
                                           "AssertionError: other results"),
}  # fmt: skip


@pytest.mark.interpreted
@pytest.mark.parametrize("name", MISTAKES)
def test_planted_mistakes_are_found(name, monkeypatch, capsys):
    module, right, wrong, check, expected = MISTAKES[name]
    with planted(module, right, wrong), fails(expected):
        check(capsys if check is check_kept_by_operations else monkeypatch)
