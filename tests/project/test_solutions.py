"""The code in the solutions of the notebooks' exercises runs, and gives what is said beside it.

Method: what a solution has in backticks or in a block is quoted here, letter for letter, put where its sentence says, and run in
a process of its own behind those cells of its notebook that it builds on. No call, function or assignment in a solution is left
out. The cells themselves are run by `make check-notebooks`.
Cannot see: what solutions say about speed, and those that have no code.
"""

import ast
import heapq
import itertools
import random
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import nbformat
import pytest

from headrace.gates import MergedLog, ScaleGate
from support.campaign import rarely

NOTEBOOKS = {file.stem[:2]: file for file in sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))}


def solutions_of(number):
    """What is said of each exercise, by its number."""
    (text,) = [
        found[1]
        for cell in nbformat.read(NOTEBOOKS[number], 4).cells
        if (found := re.search(r"<summary>Solutions</summary>(.*?)</details>", cell.source, flags=re.DOTALL))
    ]
    parts = re.split(r"^(\d)\. ", text, flags=re.MULTILINE)[1:]
    return dict(zip(map(int, parts[::2]), parts[1::2], strict=True))


def code_in(text):
    """The blocks of a solution, and what it has in backticks."""
    blocks = [textwrap.dedent(block) for block in re.findall(r"```python\n(.*?) *```", text, flags=re.DOTALL)]
    return blocks, re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def does_something(code):
    """Whether it is a call with arguments, a function, or a change of something: no name, and no part of a call."""
    try:
        nodes = list(ast.walk(ast.parse(code)))
    except SyntaxError:
        return False
    return any(
        (isinstance(node, ast.Call) and (node.args or node.keywords)) or isinstance(node, ast.FunctionDef | ast.AugAssign)
        for node in nodes
    )


class Said:
    """Quotes the solutions of one notebook."""

    def __init__(self, number):
        self.solutions = solutions_of(number)
        self.left = {each for text in self.solutions.values() for part in code_in(text) for each in part if does_something(each)}

    def __call__(self, exercise, code):
        assert f"`{code}`" in self.solutions[exercise], f"not in the solution of exercise {exercise}: {code}"
        self.left.discard(code)
        return code

    def block(self, exercise):
        (block,) = code_in(self.solutions[exercise])[0]
        self.left.discard(block)
        return block

    def words(self, exercise, text):
        assert text in self.solutions[exercise]


def first_stream(said):
    both_ends = said(
        1,
        'hr.stream(departures, event_time="ts").key_by(airport=("origin", "dest")).window("1h")'
        ".aggregate(n=hr.count()).to_pandas()",
    )
    overlapping = said(2, '.window(size="2h", advance="30min")')
    sort = said(3, 'hr.stream(frame.sample(frac=1), event_time="ts", sort=True)')
    return f"""
assert sum(({both_ends})["n"]) == 2 * len(departures), "no flight goes from A to A"
flights_by_origin = hr.stream(departures, event_time="ts").key_by("origin"){overlapping}.aggregate(n=hr.count())
assert sum(flights_by_origin.to_pandas()["n"]) == 4 * len(departures)
try:
    busy_airports(frame.sample(frac=1)).to_pandas()
    raise AssertionError("nobody has seen the disorder")
except hr.errors.DisorderError:
    pass
ordered = {sort}
assert len(ordered.key_by("origin").window("1h").aggregate(flights=hr.count()).to_pandas()) == len(by_engine)
"""


def windows_and_joins(said):
    update = said(2, "def update(state, t, emit): state.n += 1").replace(": ", ":\n    ")
    emit = said(2, "if state.n == 1: emit(chars=t.chars)")
    number = said(3, 'posts.append_column("number", ...)').replace("...", "pa.array(range(len(posts)))")
    pairs = said(3, "where=lambda l, r: l.number < r.number")
    said.words(4, "(2w + 1)/10,000 of the others, around a real number 2w/10,000; less at the ends")
    said.words(4, "With the paper's band of 10 it is one in 238,315.")
    near_integer, near_real = (21 * 10_000 - 10 * 11) / 10_000**2, (20 * 9_999 - 10 * 10) / 9_999**2
    assert int(1 / (near_integer * near_real)) == 238_315
    return f"""
{update}
    {emit}


first = hr.operator(state={{"n": "int64"}}, emits={{"chars": "int64"}}, update=update)
measured = hr.stream(posts, event_time="ts").select("ts", "user", chars=hr.col("text").length())
firsts = measured.key_by("user").window("1h").apply(first).to_pandas()
hours = posts.to_pandas().assign(hour=lambda frame: frame["ts"].dt.floor("1h"))
assert len(firsts) == len(hours.drop_duplicates(["user", "hour"]))

s = hr.stream({number}, event_time="ts").select("ts", "user", "number")
found = s.join(s, within="1min", on="user", {pairs}).to_arrow()
times = [(ts, user) for ts, user in zip(posts["ts"].cast("int64").to_pylist(), posts["user"].to_pylist())]
near = sum(
    a[1] == b[1] and b[0] - a[0] < 60_000_000
    for at, a in enumerate(times) for b in times[at + 1 : at + 200]
)
assert found.num_rows == near > 0
"""


def elastic_reconfiguration(said):
    said.words(1, "512 buckets, then 511, then 513.")
    said.words(2, "173 %")
    save = said(5, 'dashboard.save("history.html")')
    return f"""
results = {{"one thread": scored(finite).to_arrow()}}
printed, show = [], print
print = lambda *values: printed.append(values)
{said.block(1)}
{said.block(2)}
{said.block(3)}
assert [moved for _, _, moved in printed[:3]] == [512, 511, 513], printed
assert round(printed[3][0][0], 2) == 1.73, printed
assert printed[4][1] is True, printed
with scored(finite).start(threads=1, max_threads=4, sink=hr.discard()) as run:
    dashboard = Dashboard(run)
    run.wait()
    {save}
import pathlib
assert "</html>" in pathlib.Path("history.html").read_text()
"""


def own_controllers(said):
    calm = said(1, "Damping(up_after_s=0.2, down_after_s=1, cooldown_s=0.5)")
    compare = said(3, "hr.compare_controllers(query, plans, rate=hr.rates.recorded(speed=0.5), max_threads=most)")
    return f"""
from headrace.controllers import Damping

damping = {calm}


def damped(seen):
    request = by_queue(seen)
    wished = seen.threads if request is None else request.threads
    settled = damping.settled(seen, wished)
    return None if settled is None else controllers.Request(threads=settled)


query = smoothed(200)
plans = {{"one thread": 1, "damped": damped}}
most = 2
table = {compare}.table
assert list(table.index) == list(plans) and table["results"].nunique() == 1
"""


def transactions(said):
    pay, fee = said(1, "accounts[e.target].balance += e.amount - 1"), said(1, "accounts[0].balance += 1")
    speculative = said(2, 'scheme="speculative"')
    return f"""
from headrace.errors import FunctionError


def with_fee(e, t):
    if accounts[e.source].balance < e.amount:
        t.reject()
    accounts[e.source].balance -= e.amount
    {pay}
    {fee}


table = pa.Table.from_pandas(orders, preserve_index=False)
with hr.stream(table, event_time="ts").transact(with_fee).start(threads=2) as run:
    run.wait()
    balances = run.tables["accounts"].to_arrow()["balance"].to_pylist()
assert sum(balances) == 1_000 * ACCOUNTS and balances[0] > 1_000


def follows(e, t):
    if accounts[e.source].balance < e.amount:
        t.reject()
    accounts[e.source].balance -= e.amount
    accounts[accounts[e.source].balance % 10].balance += e.amount


payees = hr.stream(table, event_time="ts").transact(follows)
try:
    payees.start(threads=2)
    raise AssertionError("nobody has seen that a key is read")
except FunctionError as error:
    assert {speculative!r} in str(error), error
for options in (dict(threads=2, {speculative}), dict(threads=1, scheme="serial")):
    with payees.start(**options) as run:
        run.wait()
        assert run.metrics().holds
"""


def ordered_pipelines(said):
    own = said(4, "def own(stage): return stage.backlog * stage.cost / (stage.workers + 1)")
    start = said(4, "frauds_in(table).start(threads=2, schedule=own)")
    stranded = said(5, "STRANDED in outcomes([look_again_fenced, bring], START, True)")
    fence = said(5, '("fence", SLOT, None)')
    return f"""
table = heard.to_arrow()
rows = frauds_in(table).to_arrow()
with frauds_in(table).start(threads=2, batch=1, capacity=2) as run:
    run.wait()
    assert run.to_arrow().equals(rows)


{own}


with {start} as run:
    run.wait()
    assert run.to_arrow().equals(rows)
bring = [("store", SLOT, 1), ("load", FLAG, None)]
assert {stranded}
bring.insert(1, {fence})
assert not {stranded}
"""


SOLUTIONS = {
    "00": (first_stream, {"flights_read": 2_000}, ("departures = ", "by_hand = ", "def busy_airports")),
    "20": (windows_and_joins, {}, ("posts = tweets",)),
    "30": (elastic_reconfiguration, {"work": 100}, ("def scored", "finite = ")),
    "40": (own_controllers, {"work": 100}, ("def smoothed", "def by_queue")),
    "70": (transactions, {"transfers": 2_000}, ("orders = ", "accounts = hr.table")),
    "75": (ordered_pipelines, {"calls_read": 5_000, "work": 10}, ("heard = ", "def frauds_in", "def outcomes")),
}
"""Of the notebooks that have code in solutions: what makes the test of it, parameters, and beginnings of lines by which those
cells are told that it needs."""


def script(number):
    """Cells of the notebook, and the code of its solutions behind them."""
    make, parameters, needed = SOLUTIONS[number]
    said = Said(number)
    code = make(said)
    settings, imports, *cells = [cell.source for cell in nbformat.read(NOTEBOOKS[number], 4).cells if cell.cell_type == "code"]
    settings = "\n".join([settings, *(f"{name} = {value}" for name, value in parameters.items())])
    taken = [cell for cell in cells if any(re.search(f"^{re.escape(begin)}", cell, flags=re.MULTILINE) for begin in needed)]
    for begin in needed:
        assert any(re.search(f"^{re.escape(begin)}", cell, flags=re.MULTILINE) for cell in taken), begin
    taken = [re.split(r"^spark = ", cell, flags=re.MULTILINE)[0] for cell in taken]  # Arrow tables do as well here
    return "\n\n\n".join([settings, imports, *taken, code]), said.left


@pytest.mark.parametrize("number", NOTEBOOKS)
def test_example_no_code_of_a_solution_is_left_out(number):
    left = script(number)[1] if number in SOLUTIONS else Said(number).left
    assert not left, "code of a solution that no test runs: put it into SOLUTIONS"


@pytest.mark.slow
@pytest.mark.parametrize("number", ["20", "75", *rarely("00", "30", "40", "70")])
def test_example_solutions_do_what_they_say(number, tmp_path):
    (tmp_path / "solved.py").write_text(script(number)[0])  # compiled functions need a file or a cell
    done = subprocess.run([sys.executable, "solved.py"], cwd=tmp_path, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr


def test_example_ties_show_what_the_solution_says_of_them():
    """Exercise 1 of notebook 10: its class, with the rule that the exercise names, in the cells that follow."""
    code = [cell.source for cell in nbformat.read(NOTEBOOKS["10"], 4).cells if cell.cell_type == "code"]
    by_hand, orders, compared = (next(c for c in code if part in c) for part in ("class ByHand", "BROUGHT =", "script.append"))
    names = {
        "heapq": heapq, "itertools": itertools, "random": random, "steps": 300, "MergedLog": MergedLog, "ScaleGate": ScaleGate,
    }  # fmt: skip
    rule = "self.waiting[0][:2] <= bound"
    assert rule in by_hand
    exec(by_hand.replace(rule, "self.waiting[0][0] <= min(self.watermarks)"), names)
    said = Said("10")
    said.words(1, "the assertion that there is one order fails")
    with pytest.raises(AssertionError, match=r"^$"):  # a cell's assertion, which says nothing
        exec(orders, names)
    said.words(1, "Two: if source 1 delivers its 7 after the first 7 of source 0 and before the second, it is handed on between")
    assert {order[3:6] for order in names["handed_on"]} == {((7, 0), (7, 1), (7, 0)), ((7, 0), (7, 0), (7, 1))}
    assert {tuple(sorted(order)) for order in names["handed_on"]} == {((3, 0), (5, 1), (5, 1), (7, 0), (7, 0), (7, 1), (9, 0))}
    said.words(1, "at step 3:")
    with pytest.raises(AssertionError, match=r"^3$"):
        exec(compared, names)


def test_planted_solutions_that_are_wrong(monkeypatch):
    """A call that nobody quotes is seen; a quotation that is not in the notebook is one, too."""
    assert does_something("hr.stream(x)") and does_something("def f(x): return 1") and does_something("a.b += 1")
    assert not any(map(does_something, ("check()", ".window(size=1)", "run.late", "2 * x", '("a", "b")')))
    monkeypatch.setitem(SOLUTIONS, "20", (lambda said: "", {}, ()))
    assert 'posts.append_column("number", ...)' in script("20")[1]
    with pytest.raises(AssertionError, match="not in the solution of exercise 1: posts.head"):
        Said("20")(1, "posts.head()")
