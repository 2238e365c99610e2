"""What the transactions engine measures: the declarations from which metrics, history, report and dashboard are made."""

from __future__ import annotations

from headrace.metrics.by_worker import load_variation
from headrace.metrics.measures import (
    ADDED,
    HOLDS_BACK,
    LATENCY,
    LOST_WAKEUPS,
    PROCESSED,
    RESULTS,
    SYNCHRONIZATION,
    WATERMARK_GAP,
    WORKER_TIME,
    Measure,
)
from headrace.metrics.snapshot import OperatorMetrics


def _versions_held(now: OperatorMetrics, then: OperatorMetrics | None) -> float:
    versions, batches = (now.values[name] - (then.values[name] if then is not None else 0) for name in ("versions", "batches"))
    return versions / batches if batches > 0 else 0.0


TRANSACTIONS = Measure(
    "transactions", "transactions", "State transactions executed: one for each event and function.", "counter",
    rate="transactions_per_s", shown="plot",
)  # fmt: skip
REJECTED = Measure(
    "rejected", "events", "Events of which a transaction was rejected.", "counter", rate="rejected_per_s", shown="plot"
)
LOAD = Measure("load", "microseconds of work", "Work of each executor.", "counter", by="worker", exported="worker_load")
OPERATIONS = Measure(
    "operations", "operations", "Rows that transactions named as theirs; none where no keys are needed.", "counter",
    rate="operations_per_s", shown="column",
)  # fmt: skip
COMBINED = Measure(
    "combined", "operations", "Operations of a batch left out: a later one overwrites them, or they are added up.", "counter",
    rate="combined_per_s", shown="column",
)  # fmt: skip
EXECUTIONS = Measure(
    "executions", "executions", "Events executed on versions of rows, repeated executions included.", "counter",
    rate="executions_per_s", shown="column",
)  # fmt: skip
VALIDATIONS = Measure(
    "validations", "validations", "How often the reads of an execution were validated by looking them up again.", "counter",
    rate="validations_per_s", shown="column",
)  # fmt: skip
ABORTS = Measure(
    "aborts", "executions", "Executions that were not valid, since something they had read was written afterwards.", "counter",
    rate="aborts_per_s", shown="column",
)  # fmt: skip
ALONE = Measure(
    "alone", "events", "Events executed by one thread, in batches with too many invalid executions or no room.",
    "counter", rate="alone_per_s", shown="column",
)  # fmt: skip
BATCHES = Measure("batches", "batches", "Punctuations so far.", "counter", rate="batches_per_s", shown="column")
PUNCTUATION = Measure("punctuation", "events", "Events between two punctuations, at most.", shown="column")
IMBALANCE = Measure(
    "imbalance_cv", "fraction", "Coefficient of variation of the executors' working time.", label="imbalance (cv)",
    shown="figure", between=load_variation,
)  # fmt: skip
CHAINS = Measure(
    "chains", "chains", "Rows by their number of operations in one batch: 1, 2 to 3, 4 to 7, ...", "counter", by="size",
    label="chain_length",
)  # fmt: skip
"""TStream, section IV-C: an operation chain is what one batch does to one row. Counted where operations are linked."""
VERSIONS = Measure(
    "versions", "versions", "Versions of rows that transactions began, where the scheme has versions.", "counter",
    rate="versions_per_s", shown="column",
)  # fmt: skip
VERSIONS_HELD = Measure(
    "versions_held", "versions", "Versions of rows held until the end of a batch, on average.",
    between=_versions_held, label="versions held",
)  # fmt: skip
"""TStream, section IV-C: N * m of the N * m * s bytes; `explain()` gives s."""
STATE_BYTES = Measure("state_bytes", "bytes", "Memory of the tables' rows.", shown="column")

USEFUL = Measure(
    "useful_ns", "ns", "Running transactions.", "counter", by="worker", part_of="breakdown", label="useful", shown="plot"
)
LOCK = Measure(
    "lock_ns", "ns", "Waiting for other transactions: for a lock, a turn, a version.", "counter", by="worker",
    part_of="breakdown", label="lock", shown="plot",
)  # fmt: skip
OTHER = Measure(
    "other_ns", "ns", "Naming keys, building chains, giving results.", "counter", by="worker", part_of="breakdown",
    label="other", shown="plot",
)  # fmt: skip
BREAKDOWN = (USEFUL, SYNCHRONIZATION, LOCK, OTHER)
"""After TStream, section VI-D and figure 9. Waiting for input is in none of them. Access to remote memory, which the paper counts
separately, cannot be told apart on one socket: it is in `USEFUL`. Differs: the paper's Sync includes blocking before a lock may
be inserted (the turn of LOCK, the versions of MVLK, the partitions of PAT), and its Lock is the insertion of locks. Here `LOCK`
is all waiting for other transactions. What a scheme does itself between two transactions (draw places, copy versions, count
down) is in `USEFUL`, and so is looking up rows while transactions run, which the paper has under Others."""

MEASURES = (
    PROCESSED, LATENCY, ADDED, RESULTS, TRANSACTIONS, REJECTED, OPERATIONS, COMBINED, EXECUTIONS, VALIDATIONS, ABORTS, ALONE,
    BATCHES, PUNCTUATION, IMBALANCE, STATE_BYTES, VERSIONS, VERSIONS_HELD, LOST_WAKEUPS, HOLDS_BACK, WATERMARK_GAP, LOAD,
    *WORKER_TIME, *BREAKDOWN, CHAINS,
)  # fmt: skip
"""In the order in which histories show them."""
