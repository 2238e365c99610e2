"""A Spark session for one machine: quiet, on loopback, with Arrow.

With its own defaults PySpark listens on every network interface, runs the first ``python3`` on the PATH instead of
the calling one, logs to the notebook, and takes the machine's time zone. This session is not needed to use
headrace: a user's own session works everywhere, too.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.cores import usable_cores
from headrace.errors import NotSupportedError, ParameterError
from headrace.loopback import LOOPBACK
from headrace.spark.java import find_java, java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGGING = Path(__file__).with_name("log4j2.properties")
_MAKES_SECRETS = re.compile(r"local(\[.*\])?")
"""Masters for which Spark makes the secret that `spark.authenticate` needs; for any other the user must give one."""
_starting = threading.Lock()


def session(
    app_name: str = "headrace",
    *,
    master: str | None = None,
    memory: str | None = None,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark on this machine, or return the session that is already running.

    The driver, its block manager and, if requested, the web page listen on loopback only. On this machine
    the driver and its block manager accept clients that know the session's secret. Spark's web page lets everybody
    on this machine look, but not end jobs. Only errors are logged. Arrow carries data between Spark and Python;
    times are in UTC; Python functions inside Spark run under this Python.

    Parameters
    ----------
    app_name : str
        The name Spark shows.
    master : str, optional
        Where to run; by default ``"local[N]"``, N being the cores this process may use.
    memory : str, optional
        The heap of the Java virtual machine, such as ``"4g"``; by default half of the machine's memory,
        at most 4 GiB. Only the first session of a process can set it; later ones have the heap of the
        first.
    config : mapping, optional
        Spark settings, which override the ones made here: ``{"spark.ui.enabled": "true"}``.

    Returns
    -------
    SparkSession
        One for the process. A session that is already running, even the user's own, is returned as it is,
        with the requested settings applied. A session whose virtual machine has died is replaced by a new one.

    Raises
    ------
    NotSupportedError
        There is no Java 17 or later, or Spark does not start with it.
    ParameterError
        A running session cannot take a requested setting.

    Examples
    --------
    >>> spark = hr.spark.session()                                                      # doctest: +SKIP
    >>> spark.range(3).count()                                                          # doctest: +SKIP
    3
    """
    asked = {name: _text(value) for name, value in (config or {}).items()}
    if master is not None:
        asked["spark.master"] = master
    if memory is not None:
        asked["spark.driver.memory"] = memory

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with _starting:
        _expect_warnings()
        _forget_what_has_died()
        if SparkContext._active_spark_context is not None:
            return _adjusted(SparkSession.builder.getOrCreate(), asked)
        return _started(app_name, asked)


def has_died() -> bool:
    """Whether the virtual machine that this process started has ended: killed, or out of memory."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    return process is not None and process.poll() is not None


def _forget_what_has_died() -> None:
    """Let go of a session whose virtual machine has ended: PySpark would give it again for ever."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if not has_died():
        return
    gateway: Any = SparkContext._gateway
    with contextlib.suppress(Py4JError, OSError):
        gateway.shutdown()
    server = getattr(SparkContext._active_spark_context, "_accumulatorServer", None)
    if server is not None:
        server.shutdown()
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def _started(app_name: str, asked: Mapping[str, str]) -> SparkSession:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    java = find_java()
    builder = SparkSession.builder.appName(app_name)
    settings = _defaults() | asked
    if _MAKES_SECRETS.fullmatch(settings["spark.master"]):
        settings = {"spark.authenticate": "true"} | settings
    for name, value in settings.items():
        builder = builder.config(name, value)
    # Only the start of the virtual machine reads these; afterwards the environment is restored.
    with _environment(
        JAVA_HOME=str(java_home(java)),
        SPARK_LOCAL_IP=LOOPBACK,
        PYSPARK_PYTHON=os.environ.get("PYSPARK_PYTHON", sys.executable),
    ), _no_java_left():
        try:
            return builder.getOrCreate()
        except PySparkRuntimeError as error:
            raise NotSupportedError(
                f"Spark did not start with Java {java.version} at {java.executable} ({java.origin}): "
                f"{' '.join(str(error).split())}; its own messages are above"
            ) from error


def _defaults() -> dict[str, str]:
    cores = usable_cores()
    return {
        "spark.master": f"local[{cores}]",
        "spark.driver.memory": _half_of_memory(),
        "spark.driver.maxResultSize": "0",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.killEnabled": "false",  # the page has no token: any web page could end a job by a link to it
        # One machine does not need Spark's 200 shuffle partitions: each costs a task.
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }


def _adjusted(running: SparkSession, asked: Mapping[str, str]) -> SparkSession:
    for name, value in asked.items():
        present = running.conf.get(name, None)
        if present == value:
            continue
        if not running.conf.isModifiable(name):
            raise ParameterError(
                f"{name} = {value!r}: the Spark session that is running has {present!r} and cannot change "
                "it; stop it with spark.stop() first, or leave the setting out"
            )
        running.conf.set(name, value)
    return running


def _expect_warnings() -> None:
    """Silence what PySpark says about each new pandas; both work together (requirements.lock is tested)."""
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    warnings.filterwarnings("ignore", "The copy keyword is deprecated", DeprecationWarning)


def _half_of_memory() -> str:
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return "1g"
    return f"{max(1024, min(4096, total // 2**21))}m"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@contextlib.contextmanager
def _no_java_left() -> Iterator[None]:
    """End a virtual machine that is not connected yet when its start is interrupted: it would stay for ever."""
    from pyspark import SparkContext, java_gateway

    launcher: Any = java_gateway  # it starts the virtual machine by the name that it imported
    started: list[subprocess.Popen] = []
    start = launcher.Popen

    def noted(*arguments, **options) -> subprocess.Popen:
        started.append(start(*arguments, **options))
        return started[-1]

    launcher.Popen = noted
    try:
        yield
    except BaseException:
        if SparkContext._gateway is None:
            for process in started:
                process.kill()
                process.wait()
        raise
    finally:
        launcher.Popen = start


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
