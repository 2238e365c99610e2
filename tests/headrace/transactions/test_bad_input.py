"""What users get wrong with transactions: the documented error, through the public interface.

Property    an error is of the documented type, one line, and names the
            parameter or column, the value and the fix; nothing is half
            written, snapshots that were taken stay readable, and the engine
            works afterwards
Oracle      by hand
Cannot see  what belongs to one part alone is tested there (tables, lowering);
            the command line: tests/headrace/cli
"""

import contextlib
import signal
import threading

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.control.mapping import Mapping
from headrace.errors import (
    ArgumentError,
    FunctionError,
    HeadraceError,
    KeyNullError,
    MissingAttributeError,
    NotSupportedError,
    OverflowInputError,
    ParameterError,
    RunStoppedError,
    SchemaError,
    UnknownNameError,
    UnsafeResultsWarning,
    UnsupportedTypeError,
)
from headrace.transactions import phases_kernel
from headrace.transactions.options import TransactionOptions
from headrace.transactions.reconfiguration import in_turn
from support.workloads import Steered, eventually

accounts = hr.table("accounts", columns={"balance": "int64"}, rows=10)
owners = hr.table("owners", key="name", data=pa.table({"name": ["a", "b"], "age": [30, 40]}))
seen = hr.table("seen", columns={"total": "int64", "who": hr.set_of("int64")}, rows=100, unknown="error")
GOOD = pa.table(
    {"ts": [1, 2, 3], "key": [0, 7, 0], "name": ["a", "b", None], "part": [0.5, 1.0, 2.0], "by": [2, 1, 5], "turns": [0, 3, 0]}
)


def visit(e, t):
    row = seen[e.key]
    row.total += 10 // e.by
    for turn in range(e.turns):
        row.total = (3 * row.total + turn) % 1_001
    row.who.add(e.ts)
    t.emit(total=row.total)


def events(rows, **columns):
    """Rows that are good, unless said otherwise."""
    zeros = np.zeros(rows, np.int64)
    good = {"ts": np.arange(rows), "key": zeros, "by": zeros + 1, "turns": zeros}
    return pa.table(good | columns)


def visits(source):
    return hr.stream(source, event_time="ts").transact(visit, emits={"total": "int64"})


def transact(function, emits=None, **options):
    return hr.stream(GOOD, event_time="ts").transact(function, emits=emits, **options)


def check_works():
    with visits(GOOD.select(["ts", "key", "by", "turns"])).start(threads=2) as run:
        run.wait()
    assert run.to_arrow()["total"].to_pylist() == [5, 275, 7]
    assert run.tables["seen"].to_arrow()["total"].to_pylist()[:8] == [7, 0, 0, 0, 0, 0, 0, 275]


@contextlib.contextmanager
def fails(kind, *words):
    """Expect an error of this documented kind whose one line has all these words."""
    with pytest.raises(kind) as caught:
        yield caught
    text = str(caught.value)
    assert "\n" not in text, f"more than one line: {text!r}"
    for word in words:
        assert str(word) in text, f"{word!r} is not in {text!r}"


# -- the functions ---------------------------------------------------------------------------------


def no_such_table(e, t):
    acounts[e.key].balance += 1  # noqa: F821


def no_such_column(e, t):
    accounts[e.key].blance += 1


def no_such_column_of_the_event(e, t):
    accounts[e.kye].balance += 1


def text_for_a_number(e, t):
    accounts[e.name].balance += 1


def number_for_a_text(e, t):
    owners[e.key].age += 1


def constant_for_a_text(e, t):
    owners[3].age += 1


def key_from_a_read(e, t):
    first = accounts[e.key].balance
    accounts[first].balance += 1


def writes_the_key(e, t):
    accounts[e.key].id = 3


def changes_the_key(e, t):
    owners[e.name].name += "x"


def changes_the_event(e, t):
    e.by = 3


def emits_another_column(e, t):
    t.emit(blance=1)


def loops_over_a_table(e, t):
    for row in accounts:
        row.balance = 0


def key_from_a_read_in_the_second_branch(e, t):
    if e.by > 1:
        accounts[e.key].balance += 1
    else:
        first = accounts[e.key].balance
        accounts[first].balance += 1


def replaces_a_row(e, t):
    accounts[e.key] = 3


def gives_a_value(e, t):
    return accounts[e.key].balance


def calls_what_is_not_there(e, t):
    t.rejct()


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (no_such_table, ["'acounts' is not defined", "did you mean accounts?"]),
        (no_such_column, ["no column 'blance'", "did you mean balance?"]),
        (no_such_column_of_the_event, ["no field 'kye'", "did you mean e.key?"]),
        (text_for_a_number, ["e.name is a string", "accounts[e.name]", "give a whole number"]),
        (number_for_a_text, ["e.key is a number", "owners[e.key] takes a string"]),
        (constant_for_a_text, ["3 is a number", "takes a string"]),
        (writes_the_key, ["accounts[e.key].id is assigned", "the key of a row cannot be changed"]),
        (changes_the_key, ["owners[e.name].name is assigned", "the key of a row cannot be changed"]),
        (changes_the_event, ["e.by is assigned", "use a local variable"]),
        (emits_another_column, ["t.emit(blance=...)", "emits= names are balance"]),
        (loops_over_a_table, ["'accounts' is the table", "use its rows"]),
        (replaces_a_row, ["accounts[e.key] is a row", "use its columns"]),
        (gives_a_value, ["returns a value", "t.emit or t.reject"]),
        (calls_what_is_not_there, ["t.rejct()", "reject() and emit(...)"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_example_functions_that_are_no_transactions(function, words):
    """Refused when the query is built, at the line."""
    line = function.__code__.co_firstlineno + 1
    with fails(FunctionError, *words, function.__name__, "test_bad_input.py", f"line {line}"):
        transact(function, {"balance": "int64"})


def test_example_what_is_emitted_is_to_be_named():
    named = 'transact(emits_another_column, emits={"blance": "int64"})'
    with fails(FunctionError, "t.emit(blance=...): there is no such column", named):
        transact(emits_another_column)


@pytest.mark.parametrize(("function", "at"), [(key_from_a_read, 2), (key_from_a_read_in_the_second_branch, 5)])
def test_example_a_key_that_depends_on_a_read(function, at):
    """Refused by `start`: one scheme can run it on several threads, and one on one."""
    line, query = function.__code__.co_firstlineno + at, transact(function)
    words = ("key of accounts[first]", "(accounts[e.key].balance, ", f"line {line}", 'scheme="speculative"', "put the key into")
    for scheme in ("chains", "lock", "partition"):
        with fails(FunctionError, *words):
            query.start(scheme=scheme)


def test_example_arguments_of_transact():
    with fails(ParameterError, "give a function"):
        hr.stream(GOOD, event_time="ts").transact()
    with fails(ParameterError, "3", "functions f(e, t)"):
        transact(3)
    with fails(ParameterError, "carry='key'", "carry=['key']"):
        transact(visit, {"total": "int64"}, carry="key")
    with fails(SchemaError, "'kye'", "key"):
        transact(visit, {"total": "int64"}, carry=["kye"])
    with fails(ParameterError, "'rejected'", "rename"):
        transact(visit, {"rejected": "bool"})
    with fails(NotSupportedError, "who", "single values"):
        transact(visit, {"who": hr.set_of("int64")})


# -- the tables ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "arguments", "words"),
    [
        (SchemaError, {"data": pa.table({"id": [1, 2, 1], "v": [1, 2, 3]})}, ["'id' has 1 twice, at rows 0 and 2"]),
        (KeyNullError, {"data": pa.table({"id": [1, None], "v": [1, 2]})}, ["'id' is null at row 1", "fill it or filter"]),
        (UnsupportedTypeError, {"data": pa.table({"id": [1.0], "v": [1]})}, ["'id' has type double", "cast it to int64"]),
        (SchemaError, {"data": pa.table({"idd": [1], "v": [1]})}, ["no column 'id'", "did you mean 'idd'?"]),
        (SchemaError, {"data": pa.table({"id": [1], "v": pa.array([None], pa.int64())})}, ["'v' is null at row 0", "fill it"]),
        (ParameterError, {"columns": {"v": "int46"}, "rows": 1}, ["'int46' is not a kind", "int64"]),
        (ParameterError, {"columns": {"v": "int64"}, "rows": -1}, ["rows=-1", "from 0"]),
        (ParameterError, {"columns": {"v": "int64"}}, ["rows=", "data=", "neither"]),
        (ParameterError, {"columns": {"v": "int64"}, "rows": 1, "unknown": "rejct"}, ["'rejct'", "did you mean 'reject'?"]),
        (ParameterError, {"columns": {"v": "int64"}, "rows": 1, "conserve": "w"}, ["conserve='w'", "'v'"]),
    ],
    ids=str,
)
def test_example_tables_that_are_none(kind, arguments, words):
    with fails(kind, "'t'", *words):
        hr.table("t", **arguments)


def test_example_tables_outside_a_transaction():
    with fails(NotSupportedError, "accounts[3]", "run.tables['accounts']"):
        accounts[3].balance += 1


# -- the options -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        (ParameterError, {"punctuation": 0}, ["punctuation=0", "from 1 to 131,072"]),
        (ParameterError, {"punctuation": 1 << 18}, ["punctuation=262144", "from 1"]),
        (ParameterError, {"punctuation": 1.5}, ["punctuation=1.5", "whole number"]),
        (ParameterError, {"scheme": "lok"}, ["scheme='lok'", "did you mean 'lock'?"]),
        (ParameterError, {"scheme": None}, ["scheme=None", "'chains'"]),
        (ParameterError, {"scheme": "none"}, ["scheme='none'", "wrong", "unsafe=True"]),
        (ParameterError, {"scheme": "none", "unsafe": "yes"}, ["unsafe=True"]),
        (ParameterError, {"reconfigure": [(1, {"scheme": "none"})]}, ["scheme='none'", "unsafe=True"]),
        (ParameterError, {"sharing": "all"}, ["sharing='all'", "'everything'"]),
        (ParameterError, {"threads": 0}, ["threads=0", "from 1"]),
        (ParameterError, {"threads": 3, "max_threads": 2}, ["threads=3", "from 1 to 2"]),
        (ParameterError, {"max_state": 0}, ["max_state=0", "from 4,096"]),
        (ParameterError, {"max_operations": 0}, ["max_operations=0", "from 1"]),
        (ParameterError, {"chains": "skip"}, ["chains='skip'", "'skiplist'"]),
        (ParameterError, {"reconfigure": [(1, {"chains": "radix"})]}, ["'chains", "the controls"]),
        (ParameterError, {"pin": "yes"}, ["pin='yes'", "True or False"]),
        (ParameterError, {"snapshot_every": "often"}, ["snapshot_every='often'", "such as '2s'"]),
        (ParameterError, {"max_delay": "soon"}, ["max_delay='soon'", "'200ms'"]),
        (ParameterError, {"reconfigure": [(1, {"schem": "lock"})]}, ["'schem", "did you mean 'scheme'?"]),
        (ParameterError, {"reconfigure": [(5, 2), (3, 1)]}, ["(3, ", "rising from 5"]),
        (ParameterError, {"mapping": 3}, ["mapping=3", "headrace.Mapping"]),
        (ArgumentError, {"mode": "sn"}, ["mode='sn'", "share their tables", "leave it out"]),
        (ArgumentError, {"gate": "scalegate"}, ["gate='scalegate'", "one gate", "leave it out"]),
        (ArgumentError, {"punctuaton": 3}, ["punctuaton=3", "did you mean punctuation=?"]),
    ],
    ids=str,
)
def test_example_options_that_cannot_be_meant(kind, options, words):
    with fails(kind, *words):
        visits(GOOD.select(["ts", "key", "by", "turns"])).start(**options)


@pytest.mark.slow
def test_example_a_wish_for_no_order_is_told_with_its_line():
    """Once for each wish, at the line that has it."""
    unsafe = {"unsafe": True, "threads": 1, "max_threads": 2}
    wrong = {"match": "scheme='none' .* THE RESULTS ARE WRONG"}
    with pytest.warns(UnsafeResultsWarning, **wrong) as told, visits(events(10_000)).start(**unsafe, scheme="none") as run:
        run.wait()
    with (
        pytest.warns(UnsafeResultsWarning, **wrong) as later,
        visits(events(100_000)).start(**unsafe, rate=1_000) as run,
    ):
        run.reconfigure(scheme="lock")
        run.reconfigure(scheme="none")
        run.stop()
    with pytest.warns(UnsafeResultsWarning, **wrong) as planned:
        visits(events(10)).start(**unsafe, reconfigure=[(5, {"scheme": "none"})]).stop()
    for each in (told, later, planned):
        assert [warning.filename for warning in each] == [__file__]


@pytest.mark.logic
def test_example_a_planned_mapping_fits_the_threads_that_there_are_by_then():
    halves, one = Mapping.even(2), Mapping.even(1)
    changes = [(5, {"mapping": one}), (9, 2), (12, {"mapping": halves})]
    given = TransactionOptions(None, threads=1, max_threads=2, reconfigure=changes)
    assert [each.mapping for _, each in given.planned("t", True)] == [one, in_turn(2), halves]
    early = TransactionOptions(None, threads=1, max_threads=2, reconfigure=[(5, {"mapping": halves})])
    with fails(ParameterError, "mapping: executor 1 owns buckets", "there are 1 threads; raise threads="):
        early.planned("t", True)
    with fails(ParameterError, "mapping=[0, 1]: give a headrace.Mapping"):
        TransactionOptions(None, threads=2, reconfigure=[(5, {"mapping": [0, 1]})])


def reads_owners(e, t):
    t.emit(age=owners[e.name].age)


def test_example_operators_that_share_a_table():
    """Rows are an operator's own: a table that one of two writes is refused, one that both read is not."""
    stream, emits = hr.stream(GOOD, event_time="ts"), {"total": "int64"}
    first = stream.transact(visit, emits=emits, carry=["key", "by", "turns"], name="first")
    words = ["operators 'first', 'second'", "one table, 'seen'", "'second' writes to it", ".transact(f, g)", "a table for each"]
    with fails(ParameterError, *words):
        first.transact(visit, emits=emits, name="second").start()
    with fails(ParameterError, "operators 'a', 'b'"):
        hr.together(a=stream.transact(visit, emits=emits, name="a"), b=stream.transact(visit, emits=emits, name="b")).start()
    once = stream.transact(reads_owners, emits={"age": "int64"}, carry=["name"], name="once")
    TransactionOptions(None).look_at(once.transact(reads_owners, emits={"age": "int64"}, name="twice").plan())


@pytest.mark.logic
def test_example_what_is_shared_unless_it_is_said():
    """Operations in chains: nothing; whole transactions: everything, after a planned change too."""
    given = TransactionOptions(None, threads=2, reconfigure=[(5, {"scheme": "lock"})])
    assert given.initial("t", True).sharing == "nothing"
    assert given.initial("t", False).sharing == given.planned("t", False)[0][1].sharing == "everything"
    for sharing in ("nothing", "socket"):
        assert TransactionOptions(None, threads=2, sharing=sharing).initial("t", False).sharing == sharing


# -- while it runs ---------------------------------------------------------------------------------


few = hr.table("few", columns={"n": "int64"}, rows=0, unknown="insert", max_rows=2)


def comes_to_be(e, t):
    few[e.key + e.ts].n += 1


@pytest.mark.logic
def test_example_keys_that_there_is_no_room_for():
    with fails(OverflowInputError, "table 'few' has no room for more than max_rows=2 keys", "a larger max_rows="):
        transact(comes_to_be).to_arrow(threads=1)


narrow = hr.table("narrow", columns={"n": "int32"}, rows=10)


def says_so(e, t):
    t.emit(n=e.key)


def says_it_too(e, t):
    if e.key == 7:
        t.emit(n=1)


def grows(e, t):
    narrow[e.key].n += e.turns * 1_000_000_000


def gives_too_much(e, t):
    t.emit(n=e.turns * 1_000_000_000)


@pytest.mark.logic
def test_example_two_functions_that_emit_for_one_event():
    words = ["several functions emit for one event", "of says_so and says_it_too one may call t.emit", "have one of them emit"]
    with fails(FunctionError, *words, "'key': 7") as caught:
        hr.stream(GOOD, event_time="ts").transact(says_so, says_it_too, emits={"n": "int64"}).to_arrow(threads=1)
    assert caught.value.tuple["ts"] == 2 and "failed when compiled" not in str(caught.value)


@pytest.mark.logic
@pytest.mark.parametrize(("function", "emits", "where"), [(grows, {}, "narrow.n"), (gives_too_much, {"n": "int32"}, "n")])
def test_example_a_value_that_its_column_cannot_hold(function, emits, where):
    with fails(FunctionError, f"OverflowError: {where}: 3000000000 is beyond int32", function.__name__, "'turns': 3"):
        transact(function, emits).to_arrow(threads=1)


@pytest.mark.slow
def test_example_what_fails_while_it_runs():
    """One function, and so one compilation, for all: only the data differ."""
    check_works()
    cases = _unknown_key, _the_millionth_event, _sets_outgrow_max_state, _wishes_while_it_runs, _interrupted_inside_a_batch
    for case in cases:
        case()
        check_works()


def _unknown_key():
    fix = "put it in, or make the table with unknown='reject' or 'insert'"
    words = [f"seen has no key 100: {fix}", "visit", "test_bad_input.py", f"line {_line(1)}", "'key': 100"]
    with fails(FunctionError, *words) as caught:
        visits(events(1_000, key=[0] * 600 + [100] + [1] * 399)).to_arrow(threads=2, punctuation=100)
    assert caught.value.tuple["ts"] == 600
    # A null is never a key.
    result = visits(events(3, key=pa.array([0, None, 1], pa.int64()))).to_arrow(threads=2)
    assert result["rejected"].to_pylist() == [False, True, False]


def _the_millionth_event():
    by = np.ones(1_000_000, np.int64)
    by[-1] = 0
    source = Steered(events(by.size, by=by, key=np.arange(by.size) % 100), [by.size - 1])
    run = visits(source).start(threads=2, punctuation=5_000, rate=None)
    source.let()
    held = run.snapshot()
    source.let_all()
    words = ["ZeroDivisionError", "visit", "test_bad_input.py", f"line {_line(2)}", "'key': 99", "'by': 0"]
    with fails(FunctionError, *words) as caught:
        run.wait()
    assert caught.value.tuple["ts"] == 999_999
    assert held["seen"].to_arrow().num_rows == 100, "what was taken stays"
    with fails(MissingAttributeError, "run.tables", "failed with FunctionError: ZeroDivisionError", "snapshots"):
        run.tables  # noqa: B018
    with pytest.raises((RunStoppedError, FunctionError)):
        run.snapshot()
    run.stop()


def _sets_outgrow_max_state():
    with fails(OverflowInputError, "max_state=65536", "larger max_state="):
        visits(events(100_000)).to_arrow(threads=2, max_state=1 << 16)


def _wishes_while_it_runs():
    with visits(events(100_000)).start(threads=1, max_threads=2, rate=1_000) as run:
        with fails(ParameterError, "scheme='lok'", "'lock'"):
            run.reconfigure(scheme="lok")
        with fails(ParameterError, "punctuation=0", "from 1"):
            run.reconfigure(punctuation=0)
        with fails(ParameterError, "scheme='none'", "give start unsafe=True"):
            run.reconfigure(scheme="none")
        with fails(UnknownNameError, "'sen'", "did you mean 'seen'?"):
            run.snapshot()["sen"]
        with fails(MissingAttributeError, "run.tables", "goes on", "run.snapshot()"):
            run.tables  # noqa: B018
        run.stop()
    with fails(MissingAttributeError, "run.tables", "was stopped"):
        run.tables  # noqa: B018


def _interrupted_inside_a_batch():
    """Ctrl-C while executors are in the middle of it: the wait ends, and so do the threads."""
    before = threading.active_count()
    run = visits(events(200_000, turns=np.full(200_000, 20_000))).start(threads=2, punctuation=100_000)
    eventually(lambda: run.metrics().operators["visit"].values["added"] == 200_000)  # more than the first batch
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        timer.start()  # in here: it may be long before this thread goes on
        run.wait()
    run.stop()
    timer.join()
    eventually(lambda: threading.active_count() <= before)


@pytest.mark.slow
@pytest.mark.interpreted
def test_planted_failure_in_the_middle_of_a_change_ends_all_threads(monkeypatch):
    """The loop fails where the membership of the output is odd; the collector, which waits for the end of that, ends."""
    before = threading.active_count()

    def breaks(*_):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(phases_kernel, "start_mark", breaks)
    run = visits(events(100)).start(threads=1, max_threads=2, reconfigure=[(50, 2)])
    with pytest.raises(HeadraceError, match="planted"):
        run.wait(180)
    run.stop()
    eventually(lambda: threading.active_count() <= before)


def _line(number):
    return visit.__code__.co_firstlineno + number
