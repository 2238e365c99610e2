"""The page for Prometheus, fetched over HTTP while a run goes on.

Property    it says what `run.metrics()` says, in a form Prometheus's own parser reads; it listens on loopback only,
            and not at all unless asked; closing it leaves no thread and no port
Oracle      the parser of prometheus_client, the run's metrics, the kernel's table of open ports
"""

import gc
import os
import socket
import sys
import threading
import urllib.error
import urllib.request

import numpy as np
import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families

import headrace as hr
from headrace.errors import NotSupportedError, OutputError, ParameterError
from headrace.prometheus import serve
from open_ports import open_ports
from support.workloads import Steered, eventually

TABLE = pa.table({"ts": np.arange(1000), "k": np.arange(1000) % 10})


def counting(source):
    return hr.stream(source, event_time="ts").key_by("k").window(100).aggregate("counts", n=hr.count())


def fetch(url):
    """Give {(name, labels)} -> value."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/plain")
        text = answer.read().decode()
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture(scope="module")
def endpoint():
    with counting(TABLE).start() as run:
        assert run.wait(180)
        with serve(run) as endpoint:
            yield endpoint


def test_example_a_run_that_goes_on():
    sources = [Steered(TABLE, [400]), Steered(TABLE, [700])]
    with counting(sources).start(threads=2, max_threads=3) as run, serve(run) as endpoint:
        try:
            for source in sources:
                source.let()
            eventually(lambda: run.metrics().operators["counts"].added == 1100, 180)
            eventually(lambda: run.metrics().operators["counts"].processed > 700, 180)
            page, operator = fetch(endpoint.url), run.metrics().operators["counts"]
            own = ("operator", "counts")
            assert page["headrace_added_total", own] == operator.added == 1100
            assert page["headrace_processed_total", own] == operator.processed
            assert page["headrace_in_flight", own] == operator.in_flight > 0
            assert page["headrace_threads", own] == 2 and page["headrace_balance_holds", own] == 1
            assert page["headrace_running",] == 1 and page["headrace_tuples_in_total",] == 1100
            behind = [page["headrace_watermark_gap", own, ("source", name)] for name in operator.watermark_gap]
            assert behind == list(operator.watermark_gap.values()) == [300, 0]
            spent = [
                page["headrace_worker_seconds_total", own, ("state", state), ("worker", "0")]
                for state in ("busy", "idle", "blocked")
            ]
            assert min(spent) >= 0 and sum(spent) > 0
        finally:
            for source in sources:
                source.let_all()
        assert run.wait(180)
        page = fetch(endpoint.url)
        assert page["headrace_processed_total", own] == 2000 and page["headrace_running",] == 0
        assert page["headrace_results_total", own] == run.metrics().tuples_out
        assert ("headrace_latency_milliseconds", own, ("quantile", "p99")) in page


@pytest.mark.logic
def test_example_help_says_what_parts_are_of():
    accounts = hr.table("accounts", columns={"balance": "int64"}, rows=10)

    def deposit(e, t):
        accounts[e.k].balance += 1

    with hr.stream(TABLE, event_time="ts").transact(deposit, name="ledger").start() as run:
        assert run.wait(180)
        with serve(run) as endpoint, urllib.request.urlopen(endpoint.url, timeout=30) as answer:
            text = answer.read().decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    parts = families["headrace_worker_breakdown_seconds"]
    assert parts.documentation.startswith("Time of each worker, by what it was for. useful: Running transactions. ")
    assert all(f" {sample.labels['state']}: " in parts.documentation for sample in parts.samples) and parts.samples
    assert families["headrace_worker_seconds"].documentation == "What workers did while active."


def test_example_loopback_only_and_gone_when_closed():
    before = set(threading.enumerate())
    with counting(TABLE).start() as run:
        run.wait(180)
        endpoint = serve(run)
        assert endpoint.port > 0 and str(endpoint.port) in endpoint.url
        inside, outside = open_ports(os.getpid())
        assert f"0100007F:{endpoint.port:04X}" in inside
        assert not [address for address in outside if address.endswith(f":{endpoint.port:04X}")]
        with pytest.raises(OutputError, match=f"port={endpoint.port}: cannot be served"):
            serve(run, endpoint.port)
        endpoint.close()
        endpoint.close()
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(endpoint.url, timeout=5)
        with serve(run, endpoint.port) as again:
            assert again.port == endpoint.port
    eventually(lambda: not set(threading.enumerate()) - before, 180)


@pytest.mark.parametrize(
    ("host", "status"),
    [(b"127.0.0.1:80", 200), (b"localhost", 200), (b"[::1]:9090", 200), (b"LOCALHOST.:1", 200), (b"evil.example", 403),
     (b"127.0.0.1.evil.example:80", 403), (b"evil.example@127.0.0.1", 403), (b"0.0.0.0", 403), (b"[", 403), (b"", 403)],
)  # fmt: skip
def test_example_only_by_the_names_of_loopback(endpoint, host, status):
    """A foreign page whose own name leads to 127.0.0.1 cannot read the metrics."""
    with socket.create_connection(("127.0.0.1", endpoint.port), timeout=30) as asking:
        asking.sendall(b"GET /metrics HTTP/1.0\r\nHost: " + host + b"\r\n\r\n")
        answer = asking.makefile("rb").read()
    assert answer.split()[1] == str(status).encode()
    assert (b"headrace_tuples_in" in answer) == (status == 200)


def test_example_hostile_names():
    """A name is a label's value, whatever it holds."""
    name = 'a"b\\\n# HELP x\nevil 1 <script>{}'
    stream = hr.stream(TABLE, event_time="ts", name=name).key_by("k").window(100)
    with stream.aggregate(name, n=hr.count()).start() as run:
        assert run.wait(180)
        with serve(run) as endpoint:
            page = fetch(endpoint.url)
    assert page["headrace_processed_total", ("operator", name)] == 1000
    assert page["headrace_watermark_gap", ("operator", name), ("source", name)] == 0
    assert not [key for key in page if not key[0].startswith("headrace_")]


def test_example_a_run_that_was_dropped():
    run = counting(TABLE).start()
    assert run.wait(180)
    with serve(run) as endpoint:
        del run

        def is_gone():
            gc.collect()
            return fetch(endpoint.url) == {}

        eventually(is_gone, 180)


@pytest.mark.parametrize("port", [-1, 1 << 16, True, "80"])
def test_example_wrong_ports(port):
    with pytest.raises(ParameterError, match=r"port=.*give a whole number"):
        serve(None, port)


def test_example_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(NotSupportedError, match=r"pip install 'headrace\[prometheus\]'"):
        serve(None)
