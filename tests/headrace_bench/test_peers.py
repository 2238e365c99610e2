"""Peers on tiny inputs: the same result by its hash, failures as rows.

Property: the digest every contestant is held against is that of the rows that
`headrace.reference` gives, and what cannot run, fails or is wrong is a row that
says so. Oracle: `headrace.reference`, in plain Python. What this cannot see:
whether a rate is right, and Flink, which is downloaded only by a real run.
"""

import functools
import json
import math
import stat
import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import headrace_bench as bench
from headrace.reference import synchronization_apps
from headrace.reference.aggregates import aggregate as reference_aggregate
from headrace.reference.joins import join as reference_join
from headrace.reference.keys import column, each
from headrace.reference.ordering_apps import abandoned as reference_abandoned
from headrace.reference.stateless import forward as reference_forward
from headrace.reference.transaction_apps import sl as reference_sl
from headrace.windows import Window
from headrace_bench.digest import digest, mix, unsigned
from headrace_bench.peers import (
    band_join,
    contest,
    environment,
    ledger,
    on_duckdb,
    on_flink,
    on_polars,
    on_spark,
    ours,
    programs,
    rescale,
    sessions,
    summary,
    workloads,
)
from headrace_bench.peers.process import PeerProcess
from headrace_bench.rows import print_rows
from planted_mistakes import planted
from support.campaign import rarely

compete = functools.partial(contest.compete, least_s=0.0)
"""Each figure of one run, however short."""


def tweets(n=300, words=40, seed=3):
    """Few words, so that they repeat in windows; times over 10 minutes, gaps of more than a window among them."""
    rng = np.random.default_rng(seed)
    ts = np.sort(rng.choice([*range(0, 90_000, 7), *range(400_000, 600_000, 11)], n))
    lists = [sorted(set(rng.integers(0, words, 6).tolist())) for _ in range(n)]
    return pa.table({"ts": ts, "words": pa.array(lists, pa.list_(pa.int32()))})


def near_sides():
    """Values of both signs close together, as many cells as rows in a window, so that hundreds of pairs match."""
    left, right, size = band_join.sides(150, 850)
    rng = np.random.default_rng(4)
    left = left.drop_columns(["x", "y"])
    right = right.drop_columns(["a", "b"])
    values = rng.uniform(-200, 200, (4, 1000))
    left = left.append_column("x", [values[0].astype(np.int32)]).append_column(
        "y", [values[1].astype(np.float32)]
    )
    right = right.append_column("a", [values[2].astype(np.int32)]).append_column(
        "b", [values[3].astype(np.float32)]
    )
    return left, right, size


def poor(orders):
    """Few accounts, amounts that are often more than there is, negative ones, transfers to oneself."""
    few = {name: pc.bit_wise_and(orders[name], 7) for name in ledger.NUMBERS[:4]}
    rng = np.random.default_rng(6)
    most = np.where(pc.equal(orders["kind"], "transfer").to_numpy(), 6_000, 400)
    much = {name: pa.array(rng.integers(-50, most)) for name in ledger.NUMBERS[4:]}
    return pa.table({"ts": orders["ts"], "kind": orders["kind"], **few, **much})


@pytest.fixture(scope="module")
def works(tmp_path_factory):
    folder = tmp_path_factory.mktemp("works")
    return {
        "aggregate": workloads.aggregate(workloads.keyed_rows(2000, 50, 300), folder / "aggregate"),
        "word count": workloads.wordcount(tweets(), folder / "wordcount"),
        "pair count": workloads.paircount("L", workloads.pairs_of("L", 3_000), folder / "paircount"),
        "forward": workloads.forward(
            workloads.keyed_rows(900, 50, 30_000),
            workloads.keyed_rows(700, 50, 20_000, seed=8),
            folder / "forward",
        ),
        "band join": band_join.band(*near_sides(), folder / "band"),
        "event window": programs.event_window(
            programs.value_rows(2_000), programs.barrier_rows(2_000, between=15), folder / "window"
        ),
        "page-view join": programs.page_view_join(
            programs.view_rows(2_000), programs.update_rows(2_000, between=15), folder / "pageview"
        ),
        "sessions": sessions.sessions(sessions.clicks_of(20_000), folder / "sessions"),
        "ledger": ledger.ledger(poor(ledger.orders_of(3_000, 0.7)), folder / "ledger"),
        "deposits": ledger.ledger(poor(ledger.orders_of(3_000, 0.0)), folder / "deposits"),
    }


def near(left, right):
    return abs(left["x"] - right["a"]) <= 10 and abs(left["y"] - right["b"]) <= 10


def reference_rows(work):
    if work.name == "forward":
        sources = [[(row["ts"], row) for row in table.to_pylist()] for table in work.tables]
        return [row for _, row in reference_forward(sources)]
    if work.name == "sessions":
        sources = [[(row["ts"], {"user": row["visitor"], "kind": row["kind"]}) for row in work.tables[0].to_pylist()]]
        rows = reference_abandoned(sources)
        return [{"ts": row["ts"], "sessions": n, "clicks": round(row["mean_pages"] * n)} for n, row in enumerate(rows, 1)]
    if work.name in LEDGERS:
        events = [(row["ts"], row) for row in work.tables[0].to_pylist()]
        nothing = {"balance": -1, "quantity": -1}
        return [row | nothing if row["rejected"] else row for row in reference_sl([events])[0]]
    if work.name == "band join":
        sources = [[(row["ts"], row) for row in table.to_pylist()] for table in work.tables]
        rows = reference_join(sources[:1], sources[1:], work.size, near)
        return [{"ts": row.ts, "left": row.left["left"], "right": row.right["right"]} for row in rows]
    if work.is_program:
        return program_rows(work)
    (table,) = work.tables
    source = [(row.pop("ts"), row) for row in table.to_pylist()]
    if work.name == "aggregate":
        wanted = {"sum": ("sum", "value"), "count": ("count", None)}
        rows = reference_aggregate([source], Window.parse("10s", "10s", "ms"), column("key"), wanted)
        return [{"ts": row.ts, "key": row.key, **row.values} for row in rows]
    key = work.columns[1]
    keys = each("pairs") if key == "pair" else lambda row: set(row["text"].split())
    rows = reference_aggregate([source], Window.parse("120s", "60s", "ms"), keys)
    return [{"ts": row.ts, key: row.key, **row.values} for row in rows]


def program_rows(work):
    left, right = ([(row["ts"], row) for row in table.to_pylist()] for table in work.tables)
    if work.name == "event window":
        values = [(ts, {"x": row["value"], "stream": 0}) for ts, row in left]
        return synchronization_apps.eventwindow([values], [[(ts, {}) for ts, _ in right]])
    views = [(ts, {"page": row["key"], "user": row["value"]}) for ts, row in left]
    updates = [(ts, {"page": row["key"], "info": -row["value"]}) for ts, row in right]
    found = synchronization_apps.pageview([views], [updates])
    return [{**row, "user": -1 if row["user"] is None else row["user"]} for row in found]


WINDOWED = ["aggregate", "word count", "pair count"]
STREAMED = [*WINDOWED, "band join"]
NAMES = [*WINDOWED, "forward", "band join"]
PROGRAMS = ["event window", "page-view join"]
LEDGERS = ["ledger", "deposits"]
ORDERED = ("forward", "sessions", *LEDGERS)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES, *PROGRAMS, "sessions", *LEDGERS])
def test_oracle_the_loop_gives_the_reference(works, name):
    work = works[name]
    rows = reference_rows(work)
    assert len(rows) == work.rows > 100
    assert work.digest_of(pa.Table.from_pylist(rows)) == work.digest
    changed = [*rows[:5], {**rows[5], work.columns[-1]: -1}, *rows[6:]]
    assert work.digest_of(pa.Table.from_pylist(changed)) != work.digest
    turned = work.digest_of(pa.Table.from_pylist([rows[1], rows[0], *rows[2:]]))
    assert (turned == work.digest) == (name not in ORDERED)  # only there the order is part of the result


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_agree_ours_and_batch(works, name):
    other = ours.Ours(2, index=False) if name == "band join" else ours.Ours(2, "sn")
    contestants = [ours.Loop(), ours.Ours(1), other, ours.Engine(1), on_duckdb.DuckDB(1), on_duckdb.DuckDB(2)]
    results = compete(works[name], contestants, 2)
    assert [result.failure for result in results] == [""] * 6
    assert all(len(result.seconds) == len(result.cpu_s) == 2 and result.cpu_ns > 0 for result in results)
    rows = contest.rows_of(works[name], results)
    assert all(row.value > 0 for row in rows) and rows[2].baseline_name.startswith("plain loop")
    assert rows[1].case.endswith("processor time") and rows[1].unit in ("ns/row", "ns/tweet") and rows[1].better == "lower"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["event window", *rarely("page-view join")])
def test_agree_programs_on_plans(works, name):
    results = compete(works[name], [ours.Loop(), ours.Planned(1), ours.Planned(2)], 1)
    assert [result.failure for result in results] == [""] * 3
    rows = contest.rows_of(works[name], results)
    assert all(row.value > 0 for row in rows) and rows[2].baseline_name.startswith("plain loop")
    (refused,) = compete(works[name], [on_flink.Flink(2, "expert", may_install=False)], 1)
    assert refused.failure == "not run: the sequential version is one subtask"


@pytest.mark.slow
def test_agree_sessions(works):
    """An ordered pipeline, and SQL over all rows."""
    contestants = [ours.Loop(), ours.Ordered(1), ours.Ordered(2), on_duckdb.DuckDB(1), on_duckdb.DuckDB(2)]
    results = compete(works["sessions"], contestants, 1)
    assert [result.failure for result in results] == [""] * 5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ledger", *rarely("deposits")])
def test_agree_ledgers(works, name, monkeypatch):
    """Schemes of transactions, and SQL in batches, within which verdicts depend on one another."""
    monkeypatch.setattr(on_duckdb, "BATCH", 700)
    contestants = [ours.Loop(), *(ours.Transacted(2, scheme) for scheme in ("serial", "chains")), on_duckdb.Batches(1)]
    results = compete(works[name], [*contestants, on_duckdb.Batches(2)], 1)
    assert [result.failure for result in results] == [""] * 5
    refused = compete(works[name], [on_flink.Flink(2, "expert", may_install=False)], 1)
    assert refused[0].failure == "not run: transactions that reach several keys are ordered by one subtask"


def test_example_sql_judges_until_no_verdict_changes(works):
    """One round takes every transfer for accepted, as those before it were: that is another result."""
    connection = pytest.importorskip("duckdb").connect()
    work = works["ledger"]
    assert work.digest_of(ledger.in_batches(connection, work.tables[0], 900)) == work.digest
    with planted(ledger, "while connection.execute(_DIFFER).fetchall() != [(0,)]:", "while False:"):
        assert work.digest_of(ledger.in_batches(connection, work.tables[0], 900)) != work.digest


@pytest.mark.campaign
def test_agree_sessions_of_spark(works, spark):
    (result,) = compete(works["sessions"], [on_spark.SparkBatch(2)], 1)
    assert result.failure == ""
    (other,) = compete(works["aggregate"], [on_spark.SparkBatch(2)], 1)
    assert "Structured Streaming" in other.failure


@pytest.mark.campaign  # a minute and a half
def test_agree_spark(works, spark, monkeypatch):
    """One process for all workloads: starting it is what takes long. `spark` only says that there is a Java."""
    peer = on_spark.Spark(2)
    peer.start()
    try:
        monkeypatch.setattr(peer, "start", lambda: None)
        monkeypatch.setattr(peer, "end", lambda: None)
        results = [compete(works[name], [peer], 0)[0] for name in STREAMED]
    finally:
        monkeypatch.undo()
        peer.end()
    assert [result.failure for result in results] == [""] * len(STREAMED)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "version", "threads"),
    [
        ("aggregate", "stock", 2),
        ("word count", "stock", 1),
        ("word count", "expert", 2),
        ("pair count", "expert", 2),
        ("forward", "stock", 1),
        ("forward", "expert", 1),
        ("band join", "stock", 2),
        ("band join", "expert", 1),
        ("band join", "expert", 2),
        ("event window", "stock", 1),
        ("event window", "stock", 2),
        ("event window", "expert", 1),
        ("page-view join", "stock", 2),
        ("page-view join", "expert", 1),
        ("sessions", "stock", 1),
        ("sessions", "stock", 2),
        ("ledger", "stock", 1),
        ("ledger", "expert", 1),
        ("deposits", "stock", 1),
        ("deposits", "stock", 2),
        ("deposits", "expert", 1),
    ],
)
def test_agree_flink_where_it_is_installed(works, name, version, threads):
    """Only after a real run has made its environment: nothing is downloaded here."""
    (result,) = compete(works[name], [on_flink.Flink(threads, version, may_install=False)], 1)
    if result.failure.startswith("not run: needs"):
        pytest.skip(result.failure)
    assert result.failure == ""
    assert [latency.p50 > 0 for latency in result.latencies] == [True] * works[name].is_paced


def test_oracle_both_digests_are_one():
    rng = np.random.default_rng(5)
    table = pa.table({name: rng.integers(-(2**62), 2**62, 500) for name in "abcde"})
    mixed = sum(int(mix(*row.values())) for row in table.to_pylist())
    assert unsigned(mixed) == digest(table, list("abcde"))
    assert digest(table, list("abced")) != digest(table, list("abcde"))


class Planted(ours.Loop):
    """The loop, but for a mistake that depends on how often it ran."""

    def __init__(self, mistake, after=0):
        super().__init__()
        self.name, self.mistake, self.runs, self.after, self.ended = "planted", mistake, -after, after, False

    def run(self):
        answer = super().run()
        self.runs += 1
        return self.mistake(answer) if self.runs > 0 else answer

    def end(self):
        self.ended = True


def crash(answer):
    raise ZeroDivisionError("it broke\nand more")


@pytest.mark.parametrize(
    ("mistake", "after", "words"),
    [
        (lambda a: contest.Answer(a.seconds, a.digest ^ 1, a.rows), 0, "FAILED: ValueError: wrong result"),
        (lambda a: contest.Answer(a.seconds, a.digest, a.rows - 1), 2, "FAILED: ValueError: wrong result"),
        (crash, 0, "FAILED: ZeroDivisionError: it broke"),
    ],
)
def test_example_a_mistake_is_a_row(works, mistake, after, words):
    planted, loop = Planted(mistake, after), ours.Loop()
    results = compete(works["aggregate"], [planted, loop], 3)
    failed, fine, cost = contest.rows_of(works["aggregate"], results)
    assert cost.case == f"{fine.case}, processor time" and cost.value > 0
    assert failed.note.startswith(words) and math.isnan(failed.value) and failed.ratio is None
    assert fine.value > 0 and planted.ended
    fields = failed.to_dict()
    assert fields["value"] is None and "note" not in fields
    json.dumps(fields, allow_nan=False)
    lines = []
    print_rows([failed, fine], lines.append)
    assert lines[2].endswith(failed.note) and "nan" not in lines[2]


def test_example_a_failed_peer_is_nobody_s_measure(works):
    """Ours is compared with the best streaming peer that has a figure."""
    planted = Planted(crash)
    planted.kind = "streaming"
    slow, mine = ours.Loop(), ours.Loop()
    slow.name, slow.kind, mine.kind = "slow", "streaming", "ours"
    results = compete(works["aggregate"], [planted, slow, mine], 1)
    row = contest.rows_of(works["aggregate"], results)[3]
    assert row.baseline_name == "slow, 1 thread" and row.goal == 1.0 and row.goal_is_ratio


class Timed(ours.Loop):
    """The loop, but what a run takes is said beforehand."""

    def __init__(self, *takes, is_slow=False):
        super().__init__()
        self.takes, self.is_slow, self.runs = takes, is_slow, 0

    def run(self):
        answer = super().run()
        seconds = self.takes[min(self.runs, len(self.takes) - 1)]
        self.runs += 1
        return contest.Answer(seconds, answer.digest, answer.rows, 2 * seconds)


def test_example_a_figure_is_of_half_a_second_at_least(works):
    """Warm-up, then 0.2 + 0.2 + 0.3 s; a run that takes longer stands alone."""
    quick, slow = Timed(9.0, 0.2, 0.2, 0.3), Timed(9.0, 0.7)
    results = contest.compete(works["aggregate"], [quick, slow], 1)
    assert (quick.runs, slow.runs) == (4, 2)
    assert [result.seconds[0] for result in results] == pytest.approx([0.7 / 3, 0.7])
    assert [result.cpu_ns for result in results] == pytest.approx([1.4 / 3 / 2000 * 1e9, 1.4 / 2000 * 1e9])


def test_example_a_slow_one_gets_the_first_part(works, tmp_path):
    """Its rate is that of the rows it got, and its result is compared with theirs."""
    work = works["aggregate"]
    part = workloads.aggregate(work.tables[0].slice(0, 500), tmp_path / "part")
    results = compete(work, [Timed(0.5), Timed(0.5, is_slow=True)], 1, part)
    assert [result.failure for result in results] == ["", ""] and part.rows < work.rows
    whole, first = (row for row in contest.rows_of(work, results) if row.unit == "rows/s")
    assert (whole.value, first.value) == (4000.0, 1000.0)
    assert "the first 500 rows" in first.note and "first" not in whole.note


def test_example_the_table_for_readme(works):
    """A line for each contestant, its threads side by side; nothing where there is no figure."""
    one, two, half, failed = Timed(0.5), Timed(0.25), Timed(0.25), Planted(crash)
    one.name = two.name = "ours"
    two.threads = 2
    half.name = failed.name = "other"
    found = [
        (works["aggregate"], compete(works["aggregate"], [one, two, failed], 1)),
        (works["word count"], compete(works["word count"], [one, two, half, failed], 1)),
    ]
    assert summary.markdown(found).splitlines() == [
        "|  | aggregate, k rows/s (ns/row) | word count, k tweets/s (ns/tweet) |",
        "| --- | --- | --- |",
        "| ours | 4 (500,000) / 8 (250,000) | 0.6 (3,330,000) / 1.2 (1,670,000) |",
        "| other |  | 1.2 (1,670,000) / – |",
    ]


@pytest.mark.campaign  # each of its parts runs by itself every day
def test_example_tiny_run_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "cache_folder", lambda make=False: tmp_path / "nothing")
    finished = bench.experiment("peers", tiny=True)
    rows = {row.case: row for row in finished.rows}
    programs, sessions, latencies, rescaling = 2 * 7, 9 + 2 * 9, 4 * 2, 2 + 4
    assert len(rows) == len(finished.rows) == 5 * (8 + 6) + programs + sessions + latencies + rescaling
    assert len(finished.figures) == 5 + 2 + 1 + 2
    missing = [row for row in finished.rows if math.isnan(row.value)]
    names = [row.case.split(": ")[1].split()[0].rstrip(",") for row in missing]
    assert names == ["Polars", "Flink", "Flink", "Flink", *["Polars", "Flink"] * 4, *["Flink"] * (2 + 1 + 2 + 2)]
    assert all(row.note.startswith(("not run: needs ", "not run: no job is written")) for row in missing)
    assert all(figure.lines for figure in finished.figures)
    assert not (tmp_path / "nothing").exists()


# -- what peers need


def test_example_flink_without_javac_is_a_row(works, monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(environment, "cache_folder", lambda make=False: tmp_path / "nothing")
    results = compete(works["aggregate"], [on_flink.Flink(1, "stock")], 1)
    rows = contest.rows_of(works["aggregate"], results)
    assert len(rows) == 3 and all(row.note.startswith("not run: needs javac") for row in rows)
    assert not (tmp_path / "nothing").exists()  # nothing is downloaded in vain


def test_example_flink_s_jobs_that_do_not_compile_are_a_row(monkeypatch, tmp_path):
    """A compiler that refuses them; that it is asked with the real sources is seen by what it writes down."""
    refusing = tmp_path / "javac"
    refusing.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\necho "Jobs.java:1: error: no" >&2\nexit 1\n'
    )
    refusing.chmod(refusing.stat().st_mode | stat.S_IXUSR)
    python = tmp_path / "bin" / "python"
    (tmp_path / "lib" / "python3" / "site-packages" / "pyflink" / "lib").mkdir(parents=True)
    monkeypatch.setattr(on_flink, "cache_folder", lambda make=False: tmp_path)
    monkeypatch.setattr(on_flink, "version_of", lambda javac: "javac 17")
    with pytest.raises(contest.NotRun, match="do not compile: Jobs.java:1: error: no"):
        on_flink.command(refusing, python)
    assert "Peer.java" in (tmp_path / "asked").read_text()


def test_example_no_javac(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(contest.NotRun, match="needs javac of Java 17"):
        environment.find_javac()
    old = tmp_path / "javac"
    old.write_text("#!/bin/sh\necho javac 11.0.2\n")
    old.chmod(old.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(contest.NotRun, match="needs javac of Java 17"):
        environment.find_javac()
    old.write_text("#!/bin/sh\necho javac 21.0.2\n")
    assert environment.find_javac() == old


@pytest.mark.slow
def test_example_an_environment_that_cannot_be_made(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(contest.NotRun, match="its environment could not be made: .*nosuch"):
        environment.environment("none", ["nosuch-headrace==1.0"], may_install=True)
    assert list((tmp_path / "headrace" / "peers").iterdir()) == []
    assert stat.S_IMODE((tmp_path / "headrace" / "peers").stat().st_mode) == 0o700


@pytest.mark.parametrize("open_one", [".", "headrace", "headrace/peers"])
def test_example_an_environment_that_others_can_change_is_not_used(monkeypatch, tmp_path, open_one):
    """A python that somebody planted there would be executed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    planted = tmp_path / "headrace" / "peers" / "polars-polars-1.0"
    (planted / "bin").mkdir(parents=True)
    (planted / "ready").touch()
    (tmp_path / open_one).chmod(0o777)
    for may_install in (False, True):
        with pytest.raises(contest.NotRun, match="others could change its programs in .*can be written by others"):
            environment.environment("polars", ["polars==1.0"], may_install)
    (tmp_path / open_one).chmod(0o700)
    assert environment.environment("polars", ["polars==1.0"], False) == planted / "bin" / "python"


def test_example_an_environment_behind_a_link_or_a_relative_path_is_not_used(monkeypatch, tmp_path):
    foreign = tmp_path / "foreign" / "polars-polars-1.0"
    foreign.mkdir(parents=True)
    (foreign / "ready").touch()
    (tmp_path / "headrace").mkdir()
    (tmp_path / "headrace" / "peers").symlink_to(tmp_path / "foreign")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(contest.NotRun, match="is not a directory"):
        environment.environment("polars", ["polars==1.0"], False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", ".")
    assert not environment.cache_folder().is_relative_to(tmp_path) and environment.cache_folder().is_absolute()


def test_example_polars_without_its_environment(works, monkeypatch, tmp_path):
    monkeypatch.setattr(environment, "cache_folder", lambda make=False: tmp_path)
    (result,) = compete(works["aggregate"], [on_polars.Polars(1, may_install=False)], 1)
    assert result.failure.startswith("not run: needs an environment")


# -- asking another process

ECHO = """
import sys
print("noise"); print("@ok", flush=True)
for line in sys.stdin:
    words = line.split()
    if words[0] == "end": print("SomeError: it was too much"); sys.exit(3)
    print("noise"); print("@error bad" if words[0] == "bad" else "@ok " + words[1], flush=True)
"""


def test_example_a_process_answers_fails_and_ends():
    process = PeerProcess([sys.executable, "-c", ECHO])
    try:
        assert process.ask("echo", 5) == ["5"]
        with pytest.raises(RuntimeError, match="^bad$"):
            process.ask("bad", 1)
        assert process.ask("echo", 6) == ["6"]
        with pytest.raises(RuntimeError, match="ended.*SomeError: it was too much"):
            process.ask("end", 1)
        with pytest.raises(RuntimeError, match="ended"):
            process.ask("echo", 7)
    finally:
        process.close()


def test_example_a_process_that_says_nothing_is_ended():
    process = PeerProcess([sys.executable, "-c", "print('@ok', flush=True); import time; time.sleep(600)"])
    with pytest.raises(RuntimeError, match="no answer within"):
        process.ask("echo", 1, timeout_s=0.1)
    assert process._process.poll() is not None


def test_example_a_program_that_is_not_there():
    with pytest.raises(contest.NotRun, match="cannot be started"):
        PeerProcess(["/nowhere/peer"])


# -- changing the parallelism of a running job


def test_example_a_change_of_ours_is_followed_by_results():
    complete, first = rescale.ours("vsn", 2)
    assert len(complete) == len(first) == 2
    assert all(0 < done < came for done, came in zip(complete, first, strict=True))


def test_example_an_arrival_before_the_moment_does_not_count(monkeypatch):
    arrivals = rescale._Arrivals()
    arrivals.write(pa.record_batch({"ts": [1]}))
    assert arrivals.await_after(0.0) == arrivals.last_s
    monkeypatch.setattr(rescale, "PATIENCE_S", 0.05)
    with pytest.raises(RuntimeError, match="no result within"):
        arrivals.await_after(arrivals.last_s)


def test_example_a_peer_that_cannot_change_is_a_row(monkeypatch):
    def broken(*arguments):
        raise RuntimeError("it does not move")

    monkeypatch.setattr(rescale, "flink", broken)
    monkeypatch.setattr(rescale, "ours", lambda mode, repetitions: ([1.0, 3.0, 2.0], [5.0, 4.0, 6.0]))
    rows = rescale.measure(1, tiny=True)
    assert [row.note.startswith("FAILED: RuntimeError: it does not move") for row in rows] == [True] * 2 + [
        False
    ] * 4
    assert [row.value for row in rows[2:]] == [2.0, 5.0] * 2 and rows[3].baseline is None
    monkeypatch.setattr(rescale, "flink", lambda *arguments: [700.0, 500.0, 600.0])
    row = rescale.measure(1, tiny=True)[3]
    assert row.baseline == 600.0 and row.reached and row.baseline_name == "Flink, adaptive scheduler, tuned"


@pytest.mark.campaign
def test_example_spark_goes_on_with_more_cores(spark):
    assert rescale.spark(1)[0] > 0
