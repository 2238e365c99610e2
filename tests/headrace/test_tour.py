"""`headrace tour`, and the stream it shows.

Method: the tour itself, made shorter by letting the stream fall less far behind; in this process where what it prints is
the point, in one of its own with a terminal of its own where keys are pressed. Results are held against the reference.
Cannot see: whether two threads do nearly twice what one does (that is the machine's matter), how it feels, and the page that
it ends with: tests/browser/test_tour.py opens that.
"""

import itertools
import os
import re
import shutil
import signal
from pathlib import Path

import pyarrow as pa
import pytest

from headrace import cli, lab, lesson, tour
from headrace.apps.compare import first_difference
from support.terminal import Terminal


@pytest.fixture
def cheap(monkeypatch):
    """Updates that cost a fortieth: the operator is compiled anew, and the reference is quick."""
    monkeypatch.setattr(lesson, "WORK", 200)


# -- the stream


@pytest.mark.slow
def test_oracle_scores_are_those_of_plain_python(cheap):
    batches = list(itertools.islice(lesson.posts(), 16))
    rows = pa.Table.from_batches(batches)
    expected = lesson.expected(rows)
    with lesson.scored(batches).start(threads=1, max_threads=3, reconfigure=[(1_000, 3), (2_500, 2)]) as run:
        run.wait()
        assert first_difference(run.to_arrow(), expected) is None
    one_bit = [{**row, "score": row["score"] * (1 + 2**-52)} if i == 70 else row for i, row in enumerate(expected)]
    assert "row 70, column 'score'" in first_difference(run.to_arrow(), one_bit)


def test_example_posts_are_the_same_each_time_and_do_not_end():
    first, again = (lesson.posts() for _ in range(2))
    for _ in range(100):
        assert next(first).equals(next(again))


def test_example_the_posts_end_when_they_are_no_longer_wanted():
    tap = tour.Tap(lesson.posts())
    given = iter(tap)
    kept = [next(given), next(given)]
    tap.close()
    assert list(given) == [] and tap.given == kept


# -- the tour


@pytest.mark.campaign  # a minute
def test_example_without_a_terminal_it_asks_for_nothing_and_opens_nothing(monkeypatch, capfd):
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("a page was opened"))
    assert tour.main(behind_s=0.5) == 0
    said = capfd.readouterr().out
    assert "Enter" not in said
    for heading in ("1. A stream", "2. Too much for one thread", "3. One thread more", "4. Are the results the same?"):
        assert heading in said
    lines = [(int(threads), float(behind)) for threads, behind in re.findall(r" s +(\d) +[\d,]+ +([\d.]+) s", said)]
    assert lines[0][0] == 1 and lines[-1][0] == 2
    # It is printed with one decimal: what is below the bound may read as the bound.
    assert max(behind for _, behind in lines) >= 0.5 and lines[-1][1] <= tour.DRAINED_S
    assert re.search(r"run\.reconfigure\(threads=2\) +# took \d+\.\d\d ms", said)
    assert re.search(r"[\d,]+ results: the same rows, in the same order, to the last bit", said)


@pytest.mark.slow
def test_example_a_wrong_result_is_noticed(cheap, monkeypatch, capfd):
    """Plant a mistake: the reference says something else in one place."""
    right = lesson.expected

    def wrong(rows):
        found = right(rows)
        found[len(found) // 2]["n"] += 1
        return found

    monkeypatch.setattr(lesson, "expected", wrong)
    monkeypatch.setattr(lesson, "capacity", lambda threads: 2_000.0 * threads)
    monkeypatch.setattr(tour, "LONGEST_S", 1.0)
    assert cli.main(["tour"]) == 1
    said = capfd.readouterr().out
    assert "WRONG: row" in said and "column 'n'" in said and "to the last bit" not in said


@pytest.mark.parametrize(
    ("checkout", "on_path", "commands"),
    [
        (True, "/bin/headrace", ["headrace lab", "headrace demo", "make dashboard"]),
        (True, None, ["make lab", "make demo", "make dashboard"]),
        (False, "/bin/headrace", ["headrace lab", "headrace demo"]),
        (False, None, ["headrace lab", "headrace demo"]),
    ],
)
def test_example_it_ends_with_commands_that_are_there(monkeypatch, capfd, checkout, on_path, commands):
    """What is installed from a wheel has no Makefile, and no notebooks of ours."""
    monkeypatch.setattr(lab, "shipped", lambda: Path("notebooks") if checkout else None)
    monkeypatch.setattr(shutil, "which", lambda _: on_path)
    tour._point_on()
    said = capfd.readouterr().out
    assert re.findall(r"^   ((?:make|headrace) \w+)", said, re.MULTILINE) == commands
    assert ("30_elastic_reconfiguration" in said) == checkout
    assert checkout or "headrace_widgets.Dashboard(run)" in said


@pytest.mark.parametrize(
    ("two", "cores", "said"), [(1_900, 2, None), (900, 2, "other programs use this machine's cores"), (1_000, 1, "has one core")]
)
def test_example_why_two_threads_do_no_more_than_one(monkeypatch, capfd, two, cores, said):
    monkeypatch.setattr(lesson, "capacity", {1: 1_000.0, 2: float(two)}.get)
    monkeypatch.setattr(tour, "usable_cores", lambda: cores)
    assert tour._capacities() == (1_000.0, two)
    found = capfd.readouterr().out
    assert (said is None and "may bring little" not in found) or said in found


def test_example_what_is_said_fits_the_terminal(monkeypatch, capfd):
    """Paragraphs are filled anew, and no word is lost."""
    monkeypatch.setattr(lesson, "capacity", {1: 1_000.0, 2: 900.0}.get)
    said = []
    for width in (79, 110):
        monkeypatch.setattr(tour, "width", lambda width=width: width)
        tour._capacities()
        tour._point_on(opens=True)
        said.append(capfd.readouterr().out)
    narrow, wide = said
    assert max(map(len, narrow.splitlines())) <= 79 < max(map(len, wide.splitlines())) <= 110
    assert narrow.split() == wide.split() and "\n\n5. Where to go" in narrow


@pytest.mark.campaign  # a minute and a half
def test_example_where_a_second_thread_does_not_help_fewer_posts_come(cheap, monkeypatch, capfd):
    """As on a machine with one core, which here is one whose posts come faster than two threads can take them."""
    said_to_be = 1.25 * lesson.capacity(2)
    monkeypatch.setattr(lesson, "capacity", lambda threads: said_to_be)
    monkeypatch.setattr(tour, "LONGEST_S", 3.0)
    assert tour.main(behind_s=0.5) == 0
    said = capfd.readouterr().out
    assert "no second core is free" in said and f"run.rate = {0.6 * said_to_be:_.0f}" in said
    assert "to the last bit" in said


@pytest.mark.slow
def test_example_where_one_thread_takes_more_than_was_measured_more_posts_come(cheap, monkeypatch, capfd):
    monkeypatch.setattr(lesson, "capacity", lambda threads: 500.0 * threads)
    monkeypatch.setattr(tour, "LONGEST_S", 2.5)
    monkeypatch.setattr(tour, "PATIENCE", 1)
    assert tour.main(behind_s=60.0) == 0
    said = capfd.readouterr().out
    assert "The machine can process that many just now. More: run.rate = 920" in said  # 1.3 times the root of 500 times 1,000
    assert "to the last bit" in said


@pytest.fixture
def terminal():
    opened = []

    def start(*arguments):
        opened.append(Terminal("tour", *arguments))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


@pytest.mark.campaign  # a minute; tests/browser/test_tour.py takes these steps, and one more
def test_example_at_a_terminal_enter_adds_the_thread(terminal):
    one = terminal("--no-browser")
    one.until("Press Enter to add a thread")
    one.until("behind\r\n")
    one.press_enter()
    one.until("run.reconfigure(threads=2)")
    one.until("make dashboard")
    assert one.process.wait(180) == 0


@pytest.mark.slow
def test_example_control_c_ends_it(terminal):
    one = terminal()
    one.until(" s  ")  # a line of the table: the stream runs
    one.process.send_signal(signal.SIGINT)
    one.until("headrace: interrupted")
    assert one.process.wait(180) == 130
