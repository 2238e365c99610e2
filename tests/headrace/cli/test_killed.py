"""Runs that are killed around a checkpoint and resumed: the output is, byte for byte, that of a run that nothing happened to.

Property    whatever the application, the point at which the process dies, the plan it had, and the plan, threads, leaves and
            heartbeat it goes on with, and whether threads and plan change before and afterwards: the same file, so nothing
            is lost and nothing is there twice
Method      real processes, killed by SIGKILL at named points (support.killed); what is left behind is what the disk would
            have, as long as the machine itself goes on
Oracle      the command without checkpoints; its rows are those of the reference (tests/headrace/apps)
Counted     6 applications, each at 13 points, and 3 before a first checkpoint: 81 kills; then up to 5 of one run, 6 times;
            and 6 of runs that change
Cannot see  a machine that loses power between a write and its fsync
"""

import itertools
import json
import signal
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headrace.checkpoints.folder import Folder
from support.killed import POINTS, REPLANNED, Killer
from support.program_applications import NAMES, nasty

ROWS = 6_000
EVERY = 1_000
PLANS = itertools.cycle([
    (["--plan", "auto", "--threads", 2, "--leaves", 2], ["--plan", "chain", "--threads", 1, "--leaves", 3]),
    (["--plan", "chain", "--threads", 2, "--leaves", 3], ["--plan", "flat", "--threads", 2, "--leaves", 4, "--heartbeat", 7]),
    (["--plan", "flat", "--threads", 1, "--leaves", 4, "--heartbeat", 10], ["--threads", 1, "--leaves", 1]),
])  # fmt: skip
"""Of the run that is killed, and of the one that goes on."""
CASES = [(name, point, *next(PLANS)) for name in NAMES for point in POINTS]
CHANGES = "1%:2,10%:1,20%:3,30%:2,40%:1,50%:3,60%:2,70%:1,80%:3,90%:2"
"""Threads while a run goes on; `support.killed` adds plans."""
BETWEEN = POINTS[:2]
"""These may be behind a later checkpoint than the first: results come when they come."""
TORN_BEFORE_ANY = {"the cut is taken", "the checkpoint is half written", "it is on disk"}


@pytest.fixture(scope="module")
def killer():
    found = Killer()
    yield found
    found.end()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory, killer):
    """Of each application: its flags for inputs, and what comes of them."""
    folder, made = tmp_path_factory.mktemp("inputs"), {}

    def make(name):
        if name not in made:
            tables = nasty(name, 3, rows=ROWS, has_stream=False)
            paths = [folder / f"{name}{side}.parquet" for side in range(len(tables))]
            for table, path in zip(tables, paths, strict=True):
                pq.write_table(table, path)
            flags = [part for flag, path in zip(("--in", "--right"), paths, strict=False) for part in (flag, path)]
            out = folder / f"{name}.out.parquet"
            # What is compiled here is compiled in all that are forked later on: also what checkpoints need.
            kept = ["--checkpoint", folder / f"{name}.checkpoints", "--every", EVERY]
            assert killer.run([name, *flags, "--out", out, "--leaves", 2, *kept], forked=False)[0] == 0
            plain = folder / f"{name}.plain.parquet"
            assert killer.run([name, *flags, "--out", plain], forked=False)[0] == 0
            assert out.read_bytes() == plain.read_bytes()
            made[name] = [name, *flags], plain.read_bytes()
        return made[name]

    return make


def kill(killer, command, point, number=2):
    """Run a command from the beginning until it dies at the point of its checkpoint of that number."""
    status, said = killer.run(command, point, number)
    assert status == -signal.SIGKILL, said


@pytest.mark.slow
@pytest.mark.parametrize(("name", "point", "before", "after"), CASES, ids=lambda value: value if isinstance(value, str) else "")
def test_property_a_run_that_was_killed_goes_on(folder, killer, inputs, name, point, before, after):
    command, expected = inputs(name)
    command = [*command, "--out", folder / "out.parquet"]
    kill(killer, [*command, *before, "--checkpoint", folder / "kept", "--every", EVERY], point)
    assert not Path("out.parquet").exists()
    newest = Folder("kept").numbers()[-1]
    if point not in BETWEEN:
        assert newest >= 2 if point in POINTS[POINTS.index("it has its name") :] else newest == 1
    status, said = killer.run([*command, *after, "--resume", folder / "kept"])
    assert (status, said) == (0, "")
    assert Path("out.parquet").read_bytes() == expected


@pytest.mark.slow
def test_property_one_whose_threads_and_plan_change_goes_on(folder, killer, inputs):
    """Both before it dies, and after it is resumed: an application at each of some points."""
    points = ("results are half written", "the cut is taken", "the checkpoint is half written", "it is on disk",
              "it has its name", "the next cut is taken")  # fmt: skip
    found = Counter()
    for number, (name, point) in enumerate(zip(NAMES, points, strict=True)):
        command, expected = inputs(name)
        out, kept = folder / f"{name}.parquet", folder / f"{name}.kept"
        changing = [*command, "--out", out, "--leaves", 3, "--reconfigure", CHANGES]
        status, said = killer.run([*changing, "--checkpoint", kept, "--every", EVERY], point, 3, plans=("chain", "flat"))
        assert status == -signal.SIGKILL, said
        found["before"] += said.count(REPLANNED)
        assert not out.exists() and Folder(str(kept)).numbers()
        report = folder / f"{name}.json"
        plans = ("flat", "auto", "chain") if number % 2 else ()
        status, said = killer.run([*changing, "--resume", kept, "--report", report], plans=plans)
        assert status == 0 and said.replace(f"{REPLANNED}\n", "") == ""
        found["after"] += said.count(REPLANNED)
        found["threads"] += len(json.loads(report.read_text())["reconfigurations"])
        assert out.read_bytes() == expected
    assert min(found.values()) > 0 and len(found) == 3, found


@pytest.mark.slow
@pytest.mark.parametrize("point", sorted(TORN_BEFORE_ANY))
def test_property_one_that_was_killed_before_its_first_checkpoint_begins_again(folder, killer, inputs, point):
    command, expected = inputs("eventwindow")
    command = [*command, "--out", folder / "out.parquet"]
    kill(killer, [*command, "--checkpoint", folder / "kept", "--every", EVERY], point, 1)
    status, said = killer.run([*command, "--resume", folder / "kept", "--every", EVERY])
    assert status == 0 and "before its first checkpoint" in said
    assert Path("out.parquet").read_bytes() == expected
    assert Folder("kept").numbers()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_property_one_that_is_killed_again_and_again_goes_on(folder, killer, inputs, name):
    command, expected = inputs(name)
    command, reached = [*command, "--out", folder / "out.parquet", "--every", EVERY, "--leaves", 2], []
    kill(killer, [*command, "--checkpoint", folder / "kept"], "the checkpoint is half written")
    for point in ("it is committed", "results are half written", "before it is on disk", "it has its name"):
        reached.append(Folder("kept").numbers()[-1])
        status, said = killer.run([*command, "--resume", folder / "kept"], point, 1)
        if status == 0:
            break
        assert status == -signal.SIGKILL, said
    if status != 0:
        status, said = killer.run([*command, "--resume", folder / "kept"])
    assert status == 0, said
    assert reached == sorted(reached) and (reached[-1] > reached[0] or len(reached) == 1)
    assert Path("out.parquet").read_bytes() == expected
