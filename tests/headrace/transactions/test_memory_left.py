"""What many runs of transactions leave in memory: no more than a few do.

Property    the process holds no more after fifty further runs of all schemes, with containers, strings, snapshots and runs
            that fail, than it did after the first ones: neither pages in use nor address space; the tables of a run that
            is over go with it, and those that were taken from it go on working
Oracle      the operating system's figures of the process, with room for noise; weak references
Cannot see  a leak of less than the noise, some hundred kilobytes a run
"""

import ctypes
import gc
import mmap
import sys
import time
import weakref

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import HeadraceError
from headrace.runtime.gated_section import GatedSection
from headrace.transactions.section import TransactionSection
from support.workloads import HANG_S, Steered

ROWS = 8_000
FEW, MANY = 12, 50
MOST = {"pages": 40 << 20, "space": 2 << 30}
"""Bytes that fifty runs may leave: less than a megabyte of pages each, and less address space than one of them reserves."""
COPIED = 4 << 20
"""Bytes of a planted copy: what 100,000 rows of `HELD` and 1,000 with containers take, about."""
SCHEMES = ("serial", "chains", "lock", "mvlk", "partition")
i = np.arange(ROWS)
EVENTS = pa.table({"ts": i, "a": i % 999, "c": i * 7 % 999, "x": i % 13, "name": [f"name {k % 50}" for k in range(ROWS)]})
HELD = hr.table("held", columns={"b": "int64", "who": "string"}, rows=100_000, first={"b": 1_000})
SEEN = hr.table("seen", columns={"s": hr.set_of("int64"), "l": hr.list_of("int64")}, rows=1_000)


def move(e, t):
    HELD[e.a].b -= e.x
    if HELD[e.a].b < 0:
        t.reject()
    HELD[e.c].b += e.x
    HELD[e.c].who = e.name
    t.emit(o=HELD[e.c].b)


def collect(e, t):
    mine = SEEN[e.a]
    mine.l.append(e.x)
    mine.s.add(e.ts)
    t.emit(o=len(mine.l))


def fail(e, t):
    HELD[e.a].b += e.x // (7_000 - e.ts)
    t.emit(o=0)


def ledger(function, source=EVENTS):
    return hr.stream(source, event_time="ts").transact(function, emits={"o": "int64"})


def one_run(number):
    """All kinds of runs by turns."""
    scheme, options = SCHEMES[number % len(SCHEMES)], {"threads": 1 + number % 2, "max_threads": 3, "punctuation": 300}
    if number % 6 == 5:
        with pytest.raises(HeadraceError, match="ZeroDivision"):
            ledger(fail).to_arrow(scheme=scheme, **options)
        return
    function = (move, collect)[number % 2]
    held_back = Steered(EVENTS, [ROWS // 2] * 2)
    with ledger(function, held_back).start(scheme=scheme, snapshot_every=2_000, **options) as run:
        held_back.let()
        run.reconfigure(threads=2, scheme=SCHEMES[number % 3])
        taken = run.snapshot()
        held_back.let_all()
        assert run.wait(HANG_S)
        assert run.to_arrow().num_rows == ROWS and len(run.snapshots) == 2
        name, rows = ("held", 100_000) if function is move else ("seen", 1_000)
        assert all(tables[name].to_arrow().num_rows == rows for tables in (taken, run.tables))


def held():
    """Without what is free: a heap that tests before this one have used would hide what a run leaves in its free pages."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        space, pages = (int(word) * 4096 for word in file.read().split()[:2])
    return {"pages": pages, "space": space}


def left_by_runs(many):
    """Bytes that the process holds more after many runs than after a few."""
    for number in range(FEW):
        one_run(number)
    before = held()
    for number in range(FEW, FEW + many):
        one_run(number)
    after = held()
    return {what: after[what] - before[what] for what in before}


def check(many=MANY):
    left = left_by_runs(many)
    too_much = {what: f"{much >> 20} MiB" for what, much in left.items() if much > MOST[what]}
    assert not too_much, f"{many} runs leave {too_much}"


linux = pytest.mark.skipif(sys.platform != "linux", reason="reads what the process holds from /proc")


@linux
@pytest.mark.slow
def test_property_many_runs_leave_no_more_than_a_few():
    check()


@linux
@pytest.mark.slow
@pytest.mark.parametrize(("leak", "many"), [("section", 8), ("tables", 30)])
def test_planted_leaks_are_found(leak, many, monkeypatch):
    """What a run has is kept by something that outlives it: all of it, or only a copy of the two tables' memory."""
    kept, made = [], TransactionSection.__init__

    def copy():
        """In pages of its own, all of them written."""
        pages = mmap.mmap(-1, COPIED)
        np.frombuffer(pages, dtype=np.int64)[:] = 1
        return pages

    def keep(self, *arguments):
        made(self, *arguments)
        kept.append(self if leak == "section" else copy())

    monkeypatch.setattr(TransactionSection, "__init__", keep)
    with pytest.raises(AssertionError, match="space" if leak == "section" else "pages"):
        check(many)
    assert len(kept) >= many
    kept.clear()
    gc.collect()


def what_is_left(scheme, patience_s=HANG_S):
    """Of a run that is over, whose tables somebody has: which of its parts are there, though nobody collects cycles."""
    gc.collect()
    gc.disable()
    try:
        run = ledger(move).start(threads=2, scheme=scheme, snapshot_every=2_000)
        run.wait()
        (section,) = run._execution.sections.values()
        parts = {"rows": section.compiled.memory.rows, "sets": section.arrays.sets, "section": section}
        refs = {name: weakref.ref(part) for name, part in parts.items()}
        tables = run.tables
        wanted = tables["held"].to_arrow()
        del section, parts, run
        end = time.monotonic() + patience_s
        while any(ref() is not None for ref in refs.values()) and time.monotonic() < end:  # its last threads end
            time.sleep(0.01)
        assert tables["held"].to_arrow().equals(wanted)
        return [name for name, ref in refs.items() if ref() is not None]
    finally:
        gc.enable()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_property_memory_goes_with_the_run(scheme):
    assert not what_is_left(scheme)


def test_planted_circle_is_found(monkeypatch):
    monkeypatch.setattr(TransactionSection, "let_go", GatedSection.let_go)
    assert what_is_left("chains", 1.0) == ["rows", "sets", "section"]
