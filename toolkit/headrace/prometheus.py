"""A run's metrics for Prometheus: a text page on the loopback interface, off until it is asked for.

Nothing is counted twice: the page is made from `run.metrics()` when it is fetched. It is read-only, and every user and
program of this machine can read it, as it has no token. A request for a host name other than those of loopback, which a
foreign page in a browser could send, is refused.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Iterator
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from headrace.arguments import is_whole_number
from headrace.errors import NotSupportedError, OutputError, ParameterError
from headrace.loopback import LOOPBACK, names_loopback
from headrace.metrics.measures import Measure, keys_of
from headrace.metrics.snapshot import OperatorMetrics
from headrace.metrics.sources import SourceMetrics

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class Endpoint:
    """The page of one run, while it is served; also a context manager.

    Attributes
    ----------
    port : int
        Port on the loopback interface.
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
    """Serve a run's metrics as text for Prometheus, on the loopback interface only, to any client there.

    Parameters
    ----------
    run : Run
        It is served until `close`, even when it is over; a run that is dropped is no longer served.
    port : int
        0 for any free port.

    Raises
    ------
    NotSupportedError
        `prometheus_client` is not installed.
    OutputError
        The port is taken.

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
    if not is_whole_number(port) or not 0 <= port < 1 << 16:
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
        # WSGIServer's own method would ask the resolver for this machine's name.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = LOOPBACK, self.server_address[1]
        self.setup_environ()


class _Handler(WSGIRequestHandler):
    timeout = 30
    """Seconds: a client that connects and says nothing keeps a thread for no longer."""

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
            yield GaugeMetricFamily("headrace_rate", "Rate of each source, in tuples per second.", value=metrics.rate)
        yield from _of_sources(metrics.sources)
        yield from _families(operators)


def _of_sources(sources: list[SourceMetrics]) -> Iterator[Metric]:
    """Families of what every source has."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    labels = ["operator", "number"]
    rows = CounterMetricFamily("headrace_source_rows", "Rows read.", labels=labels)
    behind = GaugeMetricFamily("headrace_source_behind", "Rows that are due but not yet taken.", labels=labels)
    lag = GaugeMetricFamily("headrace_source_lag_seconds", "Time since the oldest due row became due.", labels=labels)
    spent = CounterMetricFamily(
        "headrace_source_seconds", "What the thread that feeds the source did.", labels=[*labels, "state"]
    )
    for number, source in enumerate(sources):
        key = [source.operator, str(number)]
        rows.add_metric(key, source.rows)
        behind.add_metric(key, source.behind)
        if not math.isnan(source.lag_s):
            lag.add_metric(key, source.lag_s)
        for state, ns in source.spent_ns.items():
            spent.add_metric([*key, state], ns / 1e9)
    yield from (rows, behind, lag, spent)


def _families(operators: list[OperatorMetrics]) -> Iterator[Metric]:
    """Families of what every operator has, and of what their engines measure, each with all operators."""
    from prometheus_client.core import GaugeMetricFamily

    for name, text, value_of in (
        ("threads", "Active instances.", lambda operator: operator.threads),
        ("in_flight", "Tuples in the gate.", lambda operator: operator.in_flight),
        (
            "balance_holds",
            "1 if nothing is lost or doubled.",
            lambda operator: operator.balance is None or operator.balance.holds,
        ),
    ):
        family = GaugeMetricFamily(f"headrace_{name}", text, labels=["operator"])
        for operator in operators:
            family.add_metric([operator.name], value_of(operator))
        yield family
    families: dict[str, Metric] = {}
    for operator in operators:
        for measure in operator.measures:
            if measure.by == "bucket" or not measure.goes_to("column"):
                continue  # a thousand numbers would be no metric family of use
            family = families.get(_name(measure))
            if family is None:
                family = families[_name(measure)] = _family(measure, operator)
            for labels, value in _numbers(operator, measure):
                family.add_metric([operator.name, *labels], value)
    yield from families.values()


def _name(measure: Measure) -> str:
    if measure.exported:
        return measure.exported
    if measure.kind == "histogram":
        return f"{measure.name}_milliseconds"
    if measure.part_of:  # parts of one whole are one metric family
        unit = "seconds" if measure.unit == "ns" else measure.unit
        return f"{measure.by}_{unit}" if measure.part_of == "time" else f"{measure.by}_{measure.part_of}_{unit}"
    return measure.name


def _family(measure: Measure, operator: OperatorMetrics) -> Metric:
    """The empty family of a measure, whose labels are those of `_numbers`; a whole says what its parts are."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    kind, text = CounterMetricFamily if measure.kind == "counter" else GaugeMetricFamily, measure.title
    labels = [] if measure.by is None else [measure.by]
    if measure.part_of:
        labels.append("state")
        text = f"What {measure.by}s did while active."
        if measure.part_of != "time":
            parts = [part for part in operator.measures if (part.part_of, part.by) == (measure.part_of, measure.by)]
            of = "Time" if measure.unit == "ns" else measure.unit.capitalize()
            text = f"{of} of each {measure.by}, by what it was for. {' '.join(f'{p.prefix}: {p.title}' for p in parts)}"
    elif measure.kind == "histogram":
        labels.append("quantile")
    elif measure.kind == "text":
        labels.append("value")
        text += " Always 1."
    return kind(f"headrace_{_name(measure)}", text, labels=["operator", *labels])


def _numbers(operator: OperatorMetrics, measure: Measure) -> Iterator[tuple[list[str], Any]]:
    """Give the numbers of a measure, each with its labels after the operator's name."""
    value = operator.values[measure.name]
    if measure.kind == "histogram":
        for quantile, milliseconds in getattr(operator, measure.derived).items():
            yield [quantile], milliseconds
        return
    keys: list[list[str]] = [[]] if measure.by is None else [[str(key)] for key in keys_of(value)]
    ones = [value] if measure.by is None else list(value.values() if isinstance(value, dict) else value)
    for labels, one in zip(keys, ones, strict=True):
        if measure.kind == "text":
            if one is not None:
                yield [*labels, one], 1
        elif measure.part_of:
            yield [*labels, measure.prefix], one / 1e9 if measure.unit == "ns" else one
        elif one is not None:
            yield labels, one


__all__ = ["Endpoint", "serve"]
