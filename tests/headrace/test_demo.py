"""The demo, on its smaller inputs, as a user starts it; and that it would notice a wrong result.

Cannot see: the time it takes on the full inputs (under a minute once installed; run it).
"""

import re
import shutil
import sys

import pyarrow.parquet as pq
import pytest

from headrace import cli, demo
from headrace.apps import APPS
from headrace.reference import transaction_apps

PACED_S = 8.0
"""So long that a slow machine has made every change before the end."""

@pytest.mark.slow
def test_example_fast_demo(spark, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(demo, "FAST_PACED_S", PACED_S)
    assert cli.main(["demo", "--fast", "--out", str(tmp_path / "out")]) == 0
    printed = capfd.readouterr().out
    assert re.search(r"from 1 to 4 threads", printed) and re.search(r"from 4 to 2 threads", printed)
    lines = dict(re.split(r"  +", line, maxsplit=1) for line in printed.splitlines() if "  " in line[1:])
    assert lines["identical to the reference"].split() == ["yes", "yes"]
    assert lines["rows in"].split() == ["30,000", "20,000"]
    assert re.match(r"1→4: \d+\.\d\d, 4→2: \d+\.\d\d", lines["reconfigurations (ms)"])
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "flights.parquet", "longest.parquet", "report.html",
    ]  # fmt: skip
    assert pq.read_schema(tmp_path / "out" / "flights.parquet").names == ["ts", "airport", "flights", "worst_delay"]
    assert pq.read_metadata(tmp_path / "out" / "longest.parquet").num_rows > 1000
    page = (tmp_path / "out" / "report.html").read_text()
    assert "longest tweet of each hashtag" in page and "threads 4 → 2" in page
    assert printed.endswith(demo.others() + "\n")


def test_example_the_demo_names_what_else_there_is():
    """Every application once, with those of its engine."""
    first, *lines = demo.others().splitlines()
    assert f"lists {len(APPS)} applications" in first and max(map(len, lines)) < 120
    found = dict(re.split(r": +", line.strip(), maxsplit=1) for line in lines)
    assert sorted(name for names in found.values() for name in names.split()) == sorted(APPS)
    assert found["ordered pipelines"] == "sold_together viewed_together viewed_before abandoned declining mobility"


@pytest.mark.parametrize(("on_path", "call"), [("/bin/headrace", "headrace"), (None, ".venv/bin/headrace")])
def test_example_the_demo_names_a_command_that_is_there(monkeypatch, tmp_path, on_path, call):
    """`make demo` leaves those of the environment off the PATH."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv" / "bin" / "python"))
    monkeypatch.setattr(shutil, "which", lambda _: on_path)
    assert demo.others().startswith(f"more: `{call} run --help` lists")


@pytest.mark.slow
def test_example_a_wrong_result_is_noticed(spark, tmp_path, capfd, monkeypatch):
    """Plant a mistake: the reference of one application says something else in one place."""
    right = APPS["longest"].reference

    def wrong(*arguments, **named):
        rows = right(*arguments, **named)
        rows[len(rows) // 2]["chars"] += 1
        return rows

    changed = {**APPS, "longest": type(APPS["longest"])(**{**vars(APPS["longest"]), "reference": wrong})}
    monkeypatch.setattr(demo, "APPS", changed)
    monkeypatch.setattr(demo, "FAST_FLIGHTS", 3_000)
    monkeypatch.setattr(demo, "FAST_PACED_S", 0.3)
    assert cli.main(["demo", "--fast", "--out", str(tmp_path / "out")]) == 1
    printed = capfd.readouterr().out
    assert "WRONG: row" in printed and "column 'chars'" in printed
    assert re.search(r"identical to the reference +yes +NO: row", printed)


@pytest.mark.slow
def test_example_fast_demo_of_transactions(spark, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(demo, "FAST_PACED_S", PACED_S)
    out = tmp_path / "out"
    assert cli.main(["demo", "--transactions", "--fast", "--out", str(out)]) == 0
    printed = capfd.readouterr().out
    assert "from 1 to 2 threads, without stopping" in printed and "to the scheme 'lock', without stopping" in printed
    held = re.findall(r"(at the end|after [\d,]+ transfers), all accounts together hold ([\d,]+), all assets ([\d,]+)", printed)
    assert len(held) >= 2 and {each[1:] for each in held} == {("100,000,000", "100,000,000")}
    assert "identical to the reference, no money lost" in printed
    assert re.search(r"^versions held +none$", printed, re.M)  # neither chains nor lock has any
    assert sorted(path.name for path in out.iterdir()) == ["accounts.parquet", "ledger.parquet", "report.html"]
    assert pq.read_schema(out / "ledger.parquet").names == ["ts", "balance", "quantity", "rejected"]
    assert pq.read_table(out / "accounts.parquet")["id"].to_pylist() == list(range(10_000))
    assert "one transaction each" in (out / "report.html").read_text()

    # Plant a mistake: the reference has something else in one account.
    right = transaction_apps.sl

    def wrong(*arguments, **named):
        rows, tables = right(*arguments, **named)
        tables["accounts"][7]["balance"] += 1
        return rows, tables

    monkeypatch.setattr(demo, "FAST_TRANSFERS", 2_000)
    monkeypatch.setattr(demo, "FAST_PACED_S", 0.3)
    monkeypatch.setattr(transaction_apps, "sl", wrong)
    assert cli.main(["demo", "--transactions", "--fast", "--out", str(out)]) == 1
    assert "WRONG: the final balances of the accounts differ" in capfd.readouterr().out


@pytest.mark.parametrize("place", ["taken", "/proc/nowhere"])
def test_example_a_folder_that_cannot_be_made(tmp_path, monkeypatch, capfd, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("a file")
    assert cli.main(["demo", "--out", place]) == 2
    assert capfd.readouterr().err.startswith("headrace: folder ")
