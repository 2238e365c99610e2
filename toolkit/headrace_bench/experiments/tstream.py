"""TStream, Figure 1 and section VI, Figures 8 to 14: schemes over threads, skew, reads, partitions, punctuation, sharing; aborts.

Throughput is of executors alone (`headrace_bench.executed`). Latency is of whole runs, from the 20th to the 80th percentile of
the events. All runs of an application have the same rate: half of the slowest run's rate at full speed, or a quarter or an eighth
if one of them does not keep up with half. Operations take `COST_NS` more than the application's own work, about as much as an
operation takes in the paper; other costs are in `bench gs | sl | ob | tp`. Rows and tables of each run, except those of `none`,
are compared by hash with those of `serial`.

Differences from the paper:

- There is one partition per executor, so here two: transactions that access four or six of the paper's 40 partitions access
  both of ours. So Figure 10b cannot vary the number of partitions; it varies the number of operations.
- The keys of Figures 8, 9 and 12 to 14 are in any partition. Nearly all events of gs, all of ob's but the bids, and two thirds of
  sl's access both partitions, and PAT runs them one after another. Figure 8 also shows PAT as in section VI-B, with a quarter of
  the transactions in several partitions (`MIX`). Figure 11 has half of them there, as the paper has for PAT.
- A single executor runs events in their order, whatever the scheme: Figure 8 on one thread, and three writes, do not include the
  schemes' own costs. Figures 1 and 9 are drawn over the cost of an operation instead of the cores.
- Chains are chains of operations where no operation depends on another one's read (gs, ob, tp). Those of sl are whole
  transactions that count what they wait for, since the paper's rounds stop at cycles; they share everything, not nothing,
  unless stated otherwise.
- tp has one table, with the sum of speeds and the set of vehicles in a segment's row, where the paper has two tables. So there
  are at most 100 chains a batch instead of 200, three costly operations an event instead of four, and an event accesses one
  partition, where the paper's Toll Notification accesses two. Figure 1, and an additional PAT in Figure 8, have the two tables,
  in which the records of a segment belong to different partitions (`APART`).
- Stealing is part of sharing: every kind of sharing but "nothing" steals. Executors are not pinned.
- Figure 9 has the parts of `headrace.transactions.measures.BREAKDOWN`: "lock" is all waiting for other transactions. The paper
  counts it as Sync as long as a lock may not be inserted yet.
- Figure 11a leaves the sum in: it is one addition for each operation of 175 ns.

Figures beyond this machine's cores are predictions: the cost of a batch on one and on two threads is split into a part that is
divided among the threads and a part that is not (`scaling.predict`).

Two executors need two cores. When other work took one of the two, they waited for each other half of the time (useful 44 %,
synchronization 51 %, other 5 % of ob's and tp's time; 41, 51 and 7 % of sl's) and reached 0.8 to 0.96 times the rate of serial,
in the best of 20 runs, whatever they share. So where rows of one configuration differ (Figures 8, 12a and 14 have three for
chains on two threads), the difference shows other work on the machine. Preparing and giving results is a tenth (ob, tp) of the
executors' work, and 17 to 27 % of their time for sl: two cores of their own allow 1.8 and 1.45 to 1.65 times serial, before
batches divide unevenly (1.04). Two executors are measured while their cores are near each other (`machine.Patience`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.control.mapping import Mapping as Owners
from headrace.references import BUCKETS
from headrace.summary import counted
from headrace.transactions.configuration import SCHEMES
from headrace_bench import gs, ob, sl, tp
from headrace_bench.costly import SEGMENTS, TWO_TABLES, WORKLOADS, with_rounds
from headrace_bench.costly import gs as grep_and_sum
from headrace_bench.executed import Executed
from headrace_bench.experiments.experiment import Experiment, Paper
from headrace_bench.experiments.figure import Figure, Line
from headrace_bench.experiments.scaling import predict
from headrace_bench.machine import patience_for
from headrace_bench.marked import Markers, marked, middle
from headrace_bench.rows import Row, median, repeated
from headrace_bench.taken import Watch
from headrace_bench.transacting import PUNCTUATION, Case, ratio_at, rounds_of, split_evenly

PAPER = Paper(
    "TStream, Figure 1 and section VI, Figures 8 to 14",
    "4 x Intel Xeon E7-4820 at 1.9 GHz, 40 cores, 128 GB; Java",
    (
        "On 40 cores TStream does 3.8 times the events a second of the next best scheme for GS, 1.7 for SL, 3.3 for OB, "
        "4.8 for TP; without locks, and wrong, more yet.",
        "With more cores, what PAT does about locks soon takes most of the time of TP (Figure 1).",
        "Synchronization takes most of the time of every scheme that keeps the order, also of TStream's for SL.",
        "More transactions in several partitions, or longer ones, slow PAT down; TStream does not mind.",
        "Skew slows LOCK, MVLK and PAT down, TStream hardly.",
        "Punctuation 500: the 99th percentile of the latency is 0.23 to 0.63 ms. Longer batches help TP the most.",
        "Sharing nothing is the best configuration for all four applications.",
        "On one core TP spends 39 % of its time in compute mode, SL 29 %, OB 22 %, GS 13 %.",
        "Three writes an event on one core (S-Store's micro-benchmark): PAT does 11,700 events a second, S-Store 3,600.",
    ),
)
ASSUMPTIONS = (
    "There are as many cores as threads, each as fast as one of this machine, and memory keeps up.",
    "Work that is not divided between two threads is not divided among more; barriers cost as much as here.",
    "A batch has work for all threads; 500 events do not, with 40 threads on 100 records.",
    "For lock, mvlk and partition: more threads wait for each other no longer than two do, which is optimistic.",
)
SETUPS = {**WORKLOADS, "tp in two tables": TWO_TABLES}
COST_NS = 175
FAR = (2, 4, 8, 16, 40)
THREADS = (1, 2)
PARTS = ("useful", "synchronization", "lock", "other")
SHARINGS = ("nothing", "everything", "socket")
RECORD_BYTES = (8, 64, 128, 512)
MIX: Mapping[str, Any] = {"multi_share": 0.25, "multi_length": 2, "partitions": 2}
"""Section VI-B's default: a quarter of the transactions reach several partitions, here both; the others reach one."""
HALF: Mapping[str, Any] = {**MIX, "multi_share": 0.5}
"""The mix of section VI-E, from Figure 10b on."""
SKIP_LISTS = "chains in skip lists"
"""Chains as the paper builds them."""
IN_MIX, IN_TWO = "partition, a quarter in both", "partition, two tables"
"""PAT with events of `MIX`, and PAT with tp, where each event reaches both partitions."""
APART = Owners(np.array([(record + record // SEGMENTS) % 2 for record in range(BUCKETS)]))
"""Owners of tp's records in two tables: a segment's two records belong to different executors."""
GOALS = {name: ratio_at(COST_NS, bench.GOALS) for name, bench in (("gs", gs), ("sl", sl), ("ob", ob), ("tp", tp))}
"""Application -> the goal of its own benchmark: the rate of chains on two threads, as a multiple of the rate of serial."""
LATENCY = (
    "From the arrival of an event to its row, of each application at one rate: half of what its slowest run does at full speed "
    "or, where one does not keep up with that, 1/4 or 1/8; the table says which. A batch waits 10 ms at most."
)
_SECONDS = 1.0
"""Duration of a run at a given rate."""
_KEEPS_UP = 0.97


class _Experiment:
    """What is measured, and how much of it."""

    def __init__(self, full: bool, tiny: bool):
        self.run_ns, self.repetitions = (0.0, 1) if tiny else ((200e6, 7) if full else (40e6, 5))
        self.tiny = tiny
        self.patience = patience_for(self.repetitions)
        self.correct = [scheme for scheme in SCHEMES if scheme not in ("serial", "none", "speculative")]
        """Schemes that run on several threads and keep the order; `headrace bench speculative` has another paper's scheme."""
        self.rows: list[Row] = []
        self.figures: list[Figure] = []

    def some(self, values: Sequence[Any]) -> Sequence[Any]:
        """All of a sweep's values, or only the ends of it."""
        return (values[0], values[-1]) if self.tiny else values

    def case(self, name: str, **events: Any) -> Case:
        """Events of an application."""
        return Case(SETUPS[name], COST_NS, self.run_ns, **events)

    def medians(self, case: Case, variants: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
        """K events/s of each variant, in turns, and of `serial`."""
        rates: dict[str, list[float]] = {}
        for counts in repeated(self.repetitions):
            for name, options in {"serial": {"scheme": "serial"}, **variants}.items():
                self.patience.await_near(options.get("threads", 1))
                rate = case.run(**options).per_second / 1e3
                if counts:
                    rates.setdefault(name, []).append(rate)
        return {name: median(values) for name, values in rates.items()}

    def sweep(
        self, figure: str, title: str, x_label: str, values: Iterable[Any], cases: Any, options: Mapping[str, Any] | None = None,
        schemes: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """All schemes, or these, on two threads, over something of the events."""
        lines: dict[str, list[float]] = {}
        values, schemes = list(values), schemes or self.correct
        for value in values:
            case = cases(value)
            variants = {s: {"scheme": s, "threads": 2, **(options or {})} for s in schemes}
            for name, rate in self.medians(case, variants).items():
                lines.setdefault(name, []).append(rate)
        for i, value in enumerate(values):
            for name in schemes:
                self.row(f"{figure}, {x_label} {value:g}, {name}", lines[name][i], lines["serial"][i])
        drawn = [Line(name, values, rates) for name, rates in lines.items()]
        self.figures.append(Figure(f"{figure}: {title}", x_label, "K events/s", drawn))

    def row(self, case: str, rate: float, serial: float | None = None, goal: float | None = None) -> None:
        """A rate, beside the serial loop's; the goal is of times serial."""
        name = None if serial is None else "serial"
        has_goal = goal is not None
        self.rows.append(
            Row("tstream", case, rate, "K events/s", goal=goal, baseline=serial, baseline_name=name, goal_is_ratio=has_goal)
        )


def measure(full: bool, tiny: bool = False) -> Experiment:
    """Throughput of all schemes over the paper's parameters; latency over the punctuation; time breakdown."""
    of = _Experiment(full, tiny)
    names = ("gs",) if tiny else tuple(WORKLOADS)
    peaks = _overall(of, names)
    _breakdown(of, "Fig. 1", "gs" if tiny else "tp in two tables", ["partition"], mapping=APART)
    _breakdown(of, "Fig. 9", "gs" if tiny else "sl", [*of.correct, "none"])
    _partitions(of)
    _reads_and_skew(of)
    of.sweep("Aborts", "SL, transfers of more than there is", "share of the events that are rejected",
             of.some((0.0, 0.01, 0.1, 0.25, 0.5, 1.0)), _with_aborts(of), schemes=[*of.correct, "speculative"])  # fmt: skip
    of.sweep("Records", "GS, bytes of a record", "bytes of a record", of.some(RECORD_BYTES), partial(_with_bytes, of))
    _compute_mode(of, names)
    _three_writes(of)
    _punctuation(of, names)
    _latency(of, peaks)
    _sharing(of, names)
    return Experiment(
        "tstream",
        "Many threads, shared tables, the result of one event after another: what does that cost?",
        f"The four applications of the paper, each operation taking {COST_NS} ns more than it does by itself, punctuation "
        f"{PUNCTUATION}, on 2 threads unless stated otherwise. Serial is one thread of the same engine without any of its "
        "machinery. Chains is TStream, with chains made by sorting, or in skip lists as in the paper; for SL, whose operations "
        "depend on each other, whole transactions that count what they wait for. Lock, mvlk and partition are LOCK, "
        "MVLK and PAT; none takes no locks, keeps no order, and is wrong: the upper bound. Events are the paper's: bids, "
        "alterations and additions of OB 6 to 1 to 1 with lists of 20, segments of TP with Zipf's exponent 0.2. Two things "
        "differ: keys lie anywhere unless partitions, of which there are two, are mentioned; and records have 8 bytes unless "
        "another size is given, such as 128, which GS has in the paper.",
        PAPER, of.rows, of.figures, list(ASSUMPTIONS),
    )  # fmt: skip


def _overall(of: _Experiment, names: Iterable[str]) -> dict[str, dict[str, float]]:
    """Figure 8. Returns the rates on two threads by application and scheme."""
    peaks = {}
    for name in names:
        case = of.case(name)
        beside = [*of.correct, *(["none"] if "none" in case.schemes else [])]
        variants: dict[str, dict[str, Any]] = {f"{s}, {n}": {"scheme": s, "threads": n} for s in beside for n in THREADS}
        if case.can_split:  # on two threads only: one executor needs no chains
            variants[SKIP_LISTS] = {"scheme": "chains", "chains": "skiplist", "threads": THREADS[-1]}
        rates = of.medians(case, variants)
        lines = [Line(s, THREADS, [rates[f"{s}, {n}"] for n in THREADS]) for s in beside]
        for scheme in beside:
            for n in THREADS:
                case_name = f"Fig. 8, {name}, {scheme}, {counted(n, 'thread')}"
                goal = GOALS[name] if (scheme, n) == ("chains", 2) else None
                of.row(case_name, rates[f"{scheme}, {n}"], rates["serial"], goal)
        if case.can_split:
            of.row(f"Fig. 8, {name}, {SKIP_LISTS}, {THREADS[-1]} threads", rates[SKIP_LISTS], rates["serial"])
            lines.append(Line(SKIP_LISTS, THREADS[-1:], [rates[SKIP_LISTS]]))
        lines.append(_partitions_as_the_paper_has_them(of, name))
        for scheme in beside:
            model = _beyond(*(1e6 / rates[f"{scheme}, {n}"] for n in THREADS))
            lines.append(Line(scheme, FAR, [model(n) / 1e3 for n in FAR], predicted=True))
            of.rows.append(
                Row("tstream", f"Fig. 8, {name}, {scheme}, {FAR[-1]} threads, predicted", model(FAR[-1]) / 1e3, "K events/s",
                    note="a prediction: see the assumptions")
            )  # fmt: skip
        note = f"Serial: {rates['serial']:.4g} K events/s. Beyond 2 threads a prediction."
        of.figures.append(Figure(f"Fig. 8: {name}", "threads", "K events/s", lines, log_x=True, log_y=True, note=note))
        peaks[name] = {scheme: rates[f"{scheme}, 2"] for scheme in of.correct}
    return peaks


def _beyond(one_ns: float, two_ns: float) -> Callable[[int], float]:
    """Predict events a second on n threads from an event's time on one and on two; as on two where one is no slower."""
    shared_ns = min(two_ns, max(0.0, 2 * two_ns - one_ns))
    return predict(shared_ns, max(one_ns, shared_ns))


def _partitions_as_the_paper_has_them(of: _Experiment, name: str) -> Line:
    """Figure 8: PAT with as many multi-partition transactions as in the paper: a quarter, and all of tp's."""
    label, mapping = (IN_TWO, APART) if name == "tp" else (IN_MIX, split_evenly(2))
    case = of.case("tp in two tables") if name == "tp" else of.case(name, **MIX)
    rates = of.medians(case, {label: {"scheme": "partition", "threads": 2, "mapping": mapping}})
    of.row(f"Fig. 8, {name}, {label}, 2 threads", rates[label], rates["serial"])
    return Line(label, (2,), [rates[label]])


def _breakdown(of: _Experiment, figure: str, name: str, schemes: Sequence[str], **options: Any) -> None:
    """Figures 1 and 9: the breakdown of all executors' time, over the cost of an operation."""
    costs = of.some((0, 30, COST_NS))
    shares: dict[tuple[str, str], list[float]] = {}
    for cost_ns in costs:
        case = Case(SETUPS[name], cost_ns, of.run_ns)
        case.run("serial")
        for scheme in schemes:
            runs: list[Executed] = []
            for _ in range(of.repetitions):
                of.patience.await_near()
                runs.append(case.run(scheme, 2, **options))
            for part in PARTS:
                share = 100 * median([run.breakdown[part] for run in runs])
                shares.setdefault((scheme, part), []).append(share)
                row = Row("tstream", f"{figure}, {name}, {scheme}, {cost_ns} ns an operation, {part}", share, "%")
                row.better = "higher" if part == "useful" else "lower"
                of.rows.append(row)
    for scheme in schemes:
        lines = [Line(part, costs, shares[scheme, part]) for part in PARTS]
        of.figures.append(
            Figure(f"{figure}: time of {scheme}, {name}", "ns an operation more", "% of the executors' time", lines, y_max=100.0,
                   note="Lock is all waiting for other transactions, synchronization that between the phases of a batch.")
        )  # fmt: skip


def _partitions(of: _Experiment) -> None:
    """Figure 10: transactions that reach both partitions."""
    options = {"mapping": split_evenly(2)}
    of.sweep("Fig. 10a", "GS, transactions in both partitions", "share of the events", of.some((0.0, 0.25, 0.5, 0.75, 1.0)),
             lambda share: of.case("gs", **{**MIX, "multi_share": share}), options)  # fmt: skip
    of.sweep("Fig. 10b", "GS, half of them in both partitions", "operations of an event", of.some((2, 4, 10, 20)),
             lambda length: of.case("gs", operations=length, **HALF), options)  # fmt: skip


def _reads_and_skew(of: _Experiment) -> None:
    """Figure 11: half of the transactions reach both partitions, as PAT's do in the paper."""
    options = {"mapping": split_evenly(2)}
    of.sweep("Fig. 11a", "GS, reads, no skew, half in both partitions", "share of reads", of.some((0.0, 0.25, 0.5, 0.75, 1.0)),
             lambda share: of.case("gs", reads=share, skew=0.0, **HALF), options)  # fmt: skip
    of.sweep("Fig. 11b", "GS, writes only, skew, half in both partitions", "Zipf's exponent", of.some((0.0, 0.4, 0.8, 1.2)),
             lambda skew: of.case("gs", reads=0.0, skew=skew, **HALF), options)  # fmt: skip


def _with_aborts(of: _Experiment) -> Callable[[float], Case]:
    """Events of SL of which a share is rejected. Only transfers are rejected: they are half of all events, or that share if
    it is larger."""
    return lambda share: of.case("sl", rejected=share, transfers=max(0.5, share))


def _with_bytes(of: _Experiment, record_bytes: int) -> Case:
    """Events of GS whose records take so many bytes: their versions are copies."""
    return Case(replace(WORKLOADS["gs"], build=partial(grep_and_sum, record_bytes=record_bytes)), COST_NS, of.run_ns)


def _compute_mode(of: _Experiment, names: Iterable[str]) -> None:
    """Section VI-A: the share of processor time that whole runs with one executor spend outside the tables.

    Measured on the events by which one run is longer than another, which leaves out the start of a run.
    """
    few, many = (2_000, 10_000) if of.tiny else (50_000, 250_000)
    for name in names:
        events = with_rounds(WORKLOADS[name].table(many), 0)
        shares = []
        for counts in repeated(of.repetitions):
            (short, in_short), (long, in_long) = (_cpu_and_useful(name, events.slice(0, n)) for n in (few, many))
            if counts:
                shares.append(100 * max(0.0, 1 - (in_long - in_short) / max(1e-9, long - short)))
        note = "reading, checking and encoding the events is in it, and putting results in order"
        of.rows.append(Row("tstream", f"Compute mode, {name}, 1 thread", median(shares), "%", "lower", note=note))


def _cpu_and_useful(name: str, events: pa.Table) -> tuple[float, float]:
    """Processor seconds of a whole run, and those that its executor spent in the tables."""
    watch = Watch()
    stream = WORKLOADS[name].build(hr.stream(events, event_time="ts"))
    with stream.start(sink=hr.discard(), threads=1, scheme="chains", punctuation=PUNCTUATION) as run:
        run.wait()
    (operator,) = run.metrics().operators.values()
    return watch.taken().cpu_s, sum(operator.values["useful_ns"]) / 1e9


def _three_writes(of: _Experiment) -> None:
    """Section VI-G: what S-Store was compared with."""
    case = Case(WORKLOADS["gs"], 0, of.run_ns, operations=3, reads=0.0)
    rates = of.medians(case, {scheme: {"scheme": scheme, "threads": 1} for scheme in of.correct})
    for scheme in of.correct:
        of.row(f"Three writes an event, {scheme}, 1 thread", rates[scheme], rates["serial"])


def _punctuation(of: _Experiment, names: Iterable[str]) -> None:
    """Figure 12a: chains."""
    values = of.some((25, 100, 500, 2_500, 10_000))
    lines = []
    for name in names:
        case = of.case(name)
        variants = {str(p): {"scheme": "chains", "threads": 2, "punctuation": p} for p in values}
        rates = of.medians(case, variants)
        ratios = [rates[str(p)] / rates["serial"] for p in values]
        lines.append(Line(name, values, ratios))
        for p in values:
            of.row(f"Fig. 12a, {name}, chains, punctuation {p:,}", rates[str(p)], rates["serial"])
    of.figures.append(Figure("Fig. 12a: chains, throughput", "punctuation", "times serial", lines, log_x=True))


def _latency(of: _Experiment, peaks: Mapping[str, Mapping[str, float]]) -> None:
    """Figures 12b and 13: whole runs on two threads, all of an application at one rate."""
    values, lines = of.some((100, 500, 2_500)), []
    for name, rates in peaks.items():
        events = with_rounds(WORKLOADS[name].table(_events_of(of, max(rates.values()))), rounds_of(COST_NS))
        by_punctuation = [("chains", p) for p in values]
        by_scheme = [(scheme, PUNCTUATION) for scheme in of.correct]
        waits, note = _waits(of, name, events, list(dict.fromkeys([*by_punctuation, *by_scheme])))
        for scheme, p in by_punctuation:
            case = f"Fig. 12b, {name}, {scheme}, punctuation {p:,}, p99"
            of.rows.append(Row("tstream", case, waits[scheme, p].p99_ms, "ms", "lower", note=note))
        lines.append(Line(name, values, [waits[each].p99_ms for each in by_punctuation]))
        for scheme, p in by_scheme:
            for quantile, ms in (("p50", waits[scheme, p].p50_ms), ("p99", waits[scheme, p].p99_ms)):
                of.rows.append(Row("tstream", f"Fig. 13, {name}, {scheme}, {quantile}", ms, "ms", "lower", note=note))
    note = LATENCY
    of.figures.append(Figure("Fig. 12b: chains, latency", "punctuation", "p99 (ms)", lines, log_x=True, log_y=True, note=note))
    of.figures.append(_schemes_compared(of.rows))


def _schemes_compared(rows: Iterable[Row]) -> Figure:
    """Figure 13, from its rows: each scheme's 99th percentile for each application."""
    names: list[str] = []
    by_scheme: dict[str, list[float]] = {}
    for row in rows:
        if row.case.startswith("Fig. 13, ") and row.case.endswith(", p99"):
            _, name, scheme, _ = row.case.split(", ")
            if name not in names:
                names.append(name)
            by_scheme.setdefault(scheme, []).append(row.value)
    lines = [Line(scheme, range(1, len(names) + 1), waits) for scheme, waits in by_scheme.items()]
    return Figure("Fig. 13: latency by scheme", "application", "p99 (ms)", lines, note=LATENCY, x_names=names)


def _events_of(of: _Experiment, k_events_per_s: float) -> int:
    """Number of events of a run at the rate that executors alone reach: more than a whole run needs."""
    return max(5_000, int(k_events_per_s * 1e3 * (0.02 if of.tiny else _SECONDS / 2)))


def _waits(
    of: _Experiment, name: str, events: pa.Table, variants: Sequence[tuple[str, int]]
) -> tuple[dict[tuple[str, int], Markers], str]:
    """Latency of events by scheme and punctuation, between their 20th and 80th percentile: without the beginning and end of a
    run.

    Threads that pace the input take time from executors, and executors wait for each other at the barriers: with no more
    cores than executors, half of the full-speed rate may be more than a paced run can sustain. So all variants run at half
    of the slowest one's full-speed rate. If one of them does not keep up, the rate is halved again, at most twice; the rate
    is reported.

    Where that is far below what is possible, events wait for their batch to fill: for TP at 120,000 events/s, where a batch
    of 500 fills in 4 ms, p50 was 3.2 to 5.1 ms and p99 6 to 21 ms on two busy cores, and not 69 ms as at 610,000. There, each
    pause of a thread that reads, paces or collects leaves a backlog behind. Encoding 2,048 rows at a time instead of 65,536
    changed nothing.
    """
    times = (of.repetitions + 1) // 2

    def runs(variant: tuple[str, int], n: int, rate: float | None = None) -> Markers:
        stream = WORKLOADS[name].build(hr.stream(events.slice(0, n), event_time="ts"))
        options = {"waits": "latency", "threads": 2, "max_threads": 2, "scheme": variant[0], "punctuation": variant[1]}
        return middle([marked(stream, n, rate=rate, **options) for _ in range(times)])

    if not of.tiny:
        for variant in variants:
            runs(variant, events.num_rows // 10)  # compiles
    peak = min(runs(variant, events.num_rows).per_second for variant in variants)
    for share in (1 / 2, 1 / 4, 1 / 8):
        rate = peak * share
        found = {variant: runs(variant, min(events.num_rows, int(rate * _SECONDS)), rate) for variant in variants}
        if of.tiny or all(waited.per_second >= _KEEPS_UP * rate for waited in found.values()):
            break
    return found, f"{rate / 1e3:,.0f} K events/s, {share:g} of what the slowest of them does at full speed"


def _sharing(of: _Experiment, names: Iterable[str]) -> None:
    """Figure 14: what executors take each other's work from."""
    lines: dict[str, list[float]] = {sharing: [] for sharing in SHARINGS}
    names = list(names)
    for name in names:
        variants = {s: {"scheme": "chains", "threads": 2, "sharing": s} for s in SHARINGS}
        rates = of.medians(of.case(name), variants)
        for sharing in SHARINGS:
            lines[sharing].append(rates[sharing] / rates["serial"])
            of.row(f"Fig. 14, {name}, chains, sharing {sharing}", rates[sharing], rates["serial"])
    note = "Groups of executors are simulated: there is one socket."
    drawn = [Line(sharing, range(1, len(names) + 1), ratios) for sharing, ratios in lines.items()]
    of.figures.append(
        Figure("Fig. 14: sharing, chains", "application", "times serial", drawn, note=note, x_names=names)
    )
