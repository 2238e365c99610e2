"""A run's metrics for Prometheus: a text page on the loopback interface, off until it is asked for.

Nothing is counted twice: the page is made of `run.metrics()` when it is fetched. It can be read and nothing else, by
every user and program of this machine, for it has no token; a request under another name than those of loopback, as a
foreign page in a browser would send it, is refused.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from headrace.counters import OperatorMetrics
from headrace.errors import NotSupportedError, OutputError, ParameterError
from headrace.loopback import LOOPBACK, names_loopback

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_COUNTERS = (
    ("added", "added", "Tuples that entered the operator's gate."),
    ("processed", "processed", "Tuples that every active instance has passed."),
    ("results", "results", "Results given."),
    ("updates", "updates", "Updates of window instances; of a join: stored tuples gone over."),
    ("comparisons", "comparisons", "Pairs a join has looked at."),
    ("filtered", "filtered", "Rows that filters took out."),
    ("null_keys", "null_keys", "Null keys ignored by policy."),
    ("lost_wakeups", "lost_wakeups", "Sleeps that only the time-out ended although the wake-up was due; it should stay 0."),
)
_GAUGES = (
    ("threads", "threads", "Active instances."),
    ("in_flight", "in_flight", "Tuples in the gate."),
    ("depth_ms", "depth_milliseconds", "Work in the gate, for the slowest instance."),
    ("live_keys", "live_keys", "Keys in the dictionary."),
    ("live_windows", "live_windows", "Window instances; of a join: tuples it stores."),
    ("state_bytes", "state_bytes", "Estimated memory of the state."),
    ("imbalance_cv", "imbalance_cv", "Coefficient of variation of the instances' loads, a fraction."),
    ("imbalance_max_mean", "imbalance_max_mean", "Largest load over the mean of all instances."),
)


class Endpoint:
    """The page of one run, while it is served; also a context manager.

    Attributes
    ----------
    port : int
        Of the loopback interface.
    url : str
    """

    def __init__(self, server: Any, thread: threading.Thread):
        self._server, self._thread = server, thread
        self.port: int = server.server_port
        self.url = f"http://{LOOPBACK}:{self.port}/metrics"

    def close(self) -> None:
        """Stop serving; safe to call twice."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r})"


def serve(run: Any, port: int = 0) -> Endpoint:
    """Serve a run's metrics as text for Prometheus, on the loopback interface only, to whoever asks there.

    Parameters
    ----------
    run : Run
        It is served until `close`, also when it is over; a run that is dropped is no longer there.
    port : int
        0: any that is free.

    Raises
    ------
    NotSupportedError
        If `prometheus_client` is not installed.
    OutputError
        If the port is taken.

    Examples
    --------
    >>> import urllib.request
    >>> import headrace as hr, pyarrow as pa
    >>> table = pa.table({"ts": range(1000), "k": ["a", "b"] * 500})
    >>> with hr.stream(table, event_time="ts").key_by("k").window(10).aggregate("n", n=hr.count()).start() as run:
    ...     done = run.wait()
    ...     with serve(run) as endpoint:
    ...         text = urllib.request.urlopen(endpoint.url).read().decode()
    >>> [line for line in text.splitlines() if line.startswith("headrace_processed_total")]
    ['headrace_processed_total{operator="n"} 1000.0']
    """
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 1 << 16:
        raise ParameterError(f"port={port!r}: give a whole number from 0 (any that is free) to 65535")
    try:
        from prometheus_client import CollectorRegistry, make_wsgi_app
    except ImportError:
        raise NotSupportedError(
            "headrace.prometheus.serve() needs the package prometheus_client: pip install 'headrace[prometheus]'"
        ) from None
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(run))
    try:
        server = make_server(LOOPBACK, port, _checked(make_wsgi_app(registry)), _Server, _Handler)
    except OSError as error:
        raise OutputError(
            f"port={port}: cannot be served on {LOOPBACK} ({error.strerror}); give another, or 0 for any"
        ) from None
    thread = threading.Thread(target=server.serve_forever, name="headrace-prometheus", daemon=True)
    thread.start()
    return Endpoint(server, thread)


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        # WSGIServer's own asks the resolver for this machine's name.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = LOOPBACK, self.server_address[1]
        self.setup_environ()


class _Handler(WSGIRequestHandler):
    timeout = 30
    """Seconds: who connects and says nothing keeps a thread for no longer."""

    def log_message(self, format: str, *args: Any) -> None:
        return


def _checked(page: Callable[..., Any]) -> Callable[..., Any]:
    """Serve a page to requests whose ``Host`` names loopback."""

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        if names_loopback(environ.get("HTTP_HOST", "")):
            return page(environ, start_response)
        start_response("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"This page answers to the names of loopback only.\n"]

    return answer


class _Collector:
    """What `prometheus_client` asks for the metrics when the page is fetched; it keeps no run alive."""

    def __init__(self, run: Any):
        self._run = weakref.ref(run)

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        run = self._run()
        if run is None:
            return
        metrics = run.metrics()
        operators: list[OperatorMetrics] = list(metrics.operators.values())
        late = CounterMetricFamily("headrace_late_rows", "Rows that came too late.", labels=["policy"])
        late.add_metric(["drop"], metrics.dropped)
        late.add_metric(["side"], metrics.set_aside)
        yield late
        yield CounterMetricFamily("headrace_tuples_in", "Rows from the sources.", value=metrics.tuples_in)
        yield CounterMetricFamily("headrace_tuples_out", "Results of the query.", value=metrics.tuples_out)
        state = GaugeMetricFamily("headrace_running", "1 while the run goes on.", value=metrics.state == "running")
        yield state
        if metrics.rate is not None:
            yield GaugeMetricFamily("headrace_rate", "Tuples per second and source that are played.", value=metrics.rate)
        for field, name, text in _COUNTERS:
            yield _family(CounterMetricFamily, name, text, operators, field)
        for field, name, text in _GAUGES:
            yield _family(GaugeMetricFamily, name, text, operators, field)
        balance = GaugeMetricFamily("headrace_balance_holds", "1 if nothing is lost or doubled.", labels=["operator"])
        gap = GaugeMetricFamily(
            "headrace_watermark_gap", "Event time behind the furthest source.", labels=["operator", "source"]
        )
        latency = GaugeMetricFamily(
            "headrace_latency_milliseconds", "Of results, since the start.", labels=["operator", "quantile"]
        )
        spent = CounterMetricFamily(
            "headrace_worker_seconds", "What workers did while active.", labels=["operator", "worker", "state"]
        )
        load = CounterMetricFamily("headrace_worker_load", "Load of each worker.", labels=["operator", "worker"])
        for operator in operators:
            balance.add_metric([operator.name], operator.balance is None or operator.balance.holds)
            for source, behind in operator.watermark_gap.items():
                gap.add_metric([operator.name, source], behind)
            for quantile, value in operator.latency_ms.items():
                latency.add_metric([operator.name, quantile], value)
            for worker, amount in enumerate(operator.load):
                load.add_metric([operator.name, str(worker)], amount)
            for kind in ("busy", "idle", "blocked"):
                for worker, ns in enumerate(getattr(operator, f"{kind}_ns")):
                    spent.add_metric([operator.name, str(worker), kind], ns / 1e9)
        yield from (balance, gap, latency, load, spent)


def _family(kind: Any, name: str, text: str, operators: list[OperatorMetrics], field: str) -> Metric:
    family = kind(f"headrace_{name}", text, labels=["operator"])
    for operator in operators:
        family.add_metric([operator.name], getattr(operator, field))
    return family


__all__ = ["Endpoint", "serve"]
