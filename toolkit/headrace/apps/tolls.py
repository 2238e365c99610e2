"""tolls: what a segment of a toll road costs, by the vehicles that came or went (Viper, Figure 1; Linear Road).

A1 keeps each vehicle's previous segment; F passes vehicles that have entered, left or changed a segment; A2
counts the vehicles of each segment that they came to or went from; M computes the toll. A1 and A2 have instances of their
own; F and M keep no state and are applied to the results of the operator before them. The number of threads holds for A1 and
for A2 each; a planned change of it takes place at each after that many tuples of its own input, if it gets as many.
"""

import headrace as hr
from headrace.apps.app import TIME, App, Option, read_whole
from headrace.apps.pipeline_options import MOST, in_unit
from headrace.errors import ParameterError
from headrace.reference import apps as reference
from headrace.reference.apps import EXIT_LANE, POSITION_REPORT, TOLL_COLUMNS

STEP = "1s"
"""The advance of A1's windows: what it says of a report comes when they move on."""
LONGEST = "1d"
"""Where the input ends, A1's windows move on until they have left all behind: a time-out later, step by step."""


def build(reports: hr.Stream, size: str, advance: str, free: int, timeout: str) -> hr.Stream:
    longest, step = in_unit(reports, timeout, "timeout"), in_unit(reports, STEP, "step")
    if longest > in_unit(reports, LONGEST, "longest"):
        raise ParameterError(f"timeout = {timeout!r}: no vehicle is silent for so long; give at most {LONGEST}")

    def follow(state, t, emit):
        is_known = state.is_on_road and t.ts - state.last <= longest  # it is kept for up to two steps more
        before = state.seg if is_known else t.seg
        emit(seg=t.seg, before=before, has_moved=not is_known or t.lane == EXIT_LANE or before != t.seg)
        state.is_on_road = t.lane != EXIT_LANE
        state.last = t.ts
        state.seg = t.seg

    def toll(t):
        above = t.vehicles - free
        return 2 * above * above if above > 0 else 0

    is_report = hr.col("type") == POSITION_REPORT
    for name in TOLL_COLUMNS[1:]:
        is_report = is_report & hr.col(name).is_not_null()
    last_seen = hr.operator(
        state={"is_on_road": "bool", "last": "int64", "seg": "int64"},
        emits={"seg": "int64", "before": "int64", "has_moved": "bool"},
        update=follow,
    )
    return (
        reports.filter(is_report)
        .key_by("vid", "xway", "dir")
        .window((-(-longest // step) + 1) * step, step, instances="single")
        .apply(last_seen, name="before")
        .filter(hr.col("has_moved"))
        .key_by("xway", "dir", seg=("before", "seg"))
        .window(size, advance)
        .aggregate("vehicles", vehicles=hr.count_distinct("vid"))
        .map(toll, toll="int64")
    )


def read_free(text: str) -> int:
    """Read a number of vehicles, from 0 on."""
    number = 0 if text == "0" else read_whole(text, MOST)
    if number is None:
        raise ValueError(f"give a whole number from 0 to {MOST}")
    return number


APP = App(
    name="tolls",
    help="charge each segment of a road by the vehicles that came or went",
    left=(TIME, *((name, "integer") for name in TOLL_COLUMNS)),
    build=build,
    reference=reference.tolls,
    size="5min",
    advance="1min",
    options=[
        Option("free", 50, read_free, "most vehicles with which a segment is free (default 50)"),
        Option("timeout", "60s", str, "longest pause between two reports of a vehicle on the road (default 60s)"),
    ],
)
