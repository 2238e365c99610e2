"""Sessions from windows of one state for each key that slides: the recipe of the notebook on windows, as it stands there.

Property    a session is over when its user pauses for longer than half an hour, to the microsecond; the result comes out
            within two steps of the window. On any number of threads, also when they change on the way.
Oracle      SQL, by DuckDB, for the engine; a loop over each user's times for the same functions under `headrace.reference`.
Not seen    other pauses and steps than the recipe's.

A pause that is over within one step (a minute; the window's left edge moves by steps), so that `update` ends the session::

    last click    left edge of the last window that has it
       |          |
    0:00:50    0:00:00                      0:30:55: 5 s too late, and in that window still
"""

import importlib.util
import json
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace import reference
from headrace.windows import Window
from support.workloads import HANG_S

NOTEBOOK = Path(__file__).resolve().parents[3] / "notebooks" / "20_windows_and_joins.ipynb"
MINUTE = 60_000_000
PAUSE = 30 * MINUTE
BY_SQL = f"""
    WITH gaps AS (SELECT *, epoch_us(ts) - lag(epoch_us(ts)) OVER (PARTITION BY "user" ORDER BY ts) AS gap FROM clicks),
    numbered AS (SELECT *, sum(coalesce((gap > {PAUSE})::INT, 0)) OVER (PARTITION BY "user" ORDER BY ts) AS number FROM gaps)
    SELECT "user", epoch_us(min(ts)) AS begin, epoch_us(max(ts)) AS "end", count(*) AS clicks FROM numbered
    GROUP BY "user", number ORDER BY "user", begin
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """The notebook's cell as a module: functions that are compiled need a file."""
    sources = ["".join(cell["source"]) for cell in json.loads(NOTEBOOK.read_text())["cells"]]
    (cell,) = [source for source in sources if "def sessions(" in source]
    path = tmp_path_factory.mktemp("recipe") / "sessions_of_the_notebook.py"
    path.write_text("import headrace as hr\n\n" + cell)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def clicks(n, users, seed):
    """Pauses of each length near half an hour, to the microsecond, and short ones."""
    draw = np.random.default_rng(seed)
    kinds = draw.integers(0, 6, n)
    near = PAUSE + draw.choice([-MINUTE, -1, 0, 1, 30_000_000, MINUTE, 2 * MINUTE], n)
    pauses = np.where(kinds == 0, near, np.where(kinds == 1, draw.integers(0, 3 * PAUSE, n), draw.integers(0, 5 * MINUTE, n)))
    user = draw.integers(0, users, n)
    times = np.zeros(n, np.int64)
    for one in range(users):
        times[user == one] = np.cumsum(pauses[user == one])
    order = np.argsort(times, kind="stable")
    return pa.table({"ts": pa.array(times[order], pa.timestamp("us", "UTC")), "user": user[order]})


def found(table):
    """(user, begin, end, clicks) of each session, in order; each came when it was over, or up to two steps later."""
    ts, begin, end = (table[name].cast("int64").to_numpy() for name in ("ts", "begin", "end"))
    assert ((ts >= end + PAUSE) & (ts <= end + PAUSE + 2 * MINUTE)).all()
    return sorted(zip(table["user"].to_pylist(), begin.tolist(), end.tolist(), table["clicks"].to_pylist(), strict=True))


@pytest.mark.slow
def test_oracle_sessions_are_those_of_sql(recipe):
    table_of_clicks = clicks(20_000, users=300, seed=5)
    wanted = duckdb.execute(BY_SQL.replace("FROM clicks", "FROM table_of_clicks")).fetchall()
    assert len(wanted) > 2_000 and max(row[3] for row in wanted) > 5
    results = recipe.sessions(table_of_clicks).to_arrow(threads=2)
    assert found(results) == wanted
    with recipe.sessions(table_of_clicks).start(threads=1, max_threads=3, reconfigure=[(5_000, 3), (12_000, 2)]) as run:
        assert run.wait(HANG_S)
        assert run.to_arrow().equals(results)


STEPS = st.sampled_from([0, 1, MINUTE, PAUSE - 1, PAUSE, PAUSE + 1, PAUSE + MINUTE, 3 * PAUSE])


@given(st.lists(st.tuples(st.sampled_from("ab"), STEPS), max_size=12))
@example([("a", 50_000_000), ("a", PAUSE + 5_000_000)])
def test_oracle_each_pause_is_measured_to_the_microsecond(recipe, steps):
    now, rows, wanted, last = 0, [], [], {}
    for user, pause in steps:
        now += pause
        rows.append((now, {"user": user}))
        if user in last and now - wanted[last[user]][2] <= PAUSE:
            wanted[last[user]][2:] = [now, wanted[last[user]][3] + 1]
        else:
            last[user] = len(wanted)
            wanted.append([user, now, now, 1])
    got = reference.operator(
        [[rows]], Window.parse("31min", "1min", "us"), lambda t: t["user"], instances="single",
        state={"clicks": 0, "begin": 0, "last": 0, "left": -(2**62)}, update=recipe.click, slide=recipe.moved, output=recipe.over,
    )  # fmt: skip
    assert sorted([row.key, *row.values.values()] for row in got) == sorted(wanted)
