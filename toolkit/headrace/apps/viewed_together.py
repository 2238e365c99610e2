"""viewed_together: which items are looked at in the same session, day by day (TPCx-BB query 2; Table 1 of the paper).

SL complete rows; PS by user: the session, and the items that each new item of it meets; SL: pairs in order; PS by item:
counts; SF: the ranking of the day. `ranked_pairs` has the last two, and explains how they learn of the end of a day.
"""

import headrace as hr
from headrace.apps.app import TIME, App
from headrace.apps.pipeline_options import BUCKETS, in_unit, timeout_option, whole_option, width_of
from headrace.apps.ranked_pairs import ranked
from headrace.reference import ordering_apps as reference


def build(clicks: hr.Stream, size: str, top: int, timeout: str, buckets: int) -> hr.Stream:
    width, longest = width_of(clicks, size), in_unit(clicks, timeout, "timeout")

    def whole(t):
        return t.user is not None and t.item is not None

    def meet(state, t, emit):
        day = t.ts // width
        if len(state.items) == 0 or day != state.day:
            emit(item=t.item, other=t.item)
        state.day = day
        if t.ts - state.last > longest:
            state.items.clear()
        state.last = t.ts
        if t.item not in state.items:
            for other in state.items:
                emit(item=t.item, other=other)
            state.items.add(t.item)

    def in_order(t, emit):
        emit(a=min(t.item, t.other), b=max(t.item, t.other))

    pairs = (
        clicks.ordered()
        .filter(whole)
        .partitioned(
            meet,
            by="user",
            state={"day": "int64", "last": "int64", "items": hr.set_of("int64")},
            emits={"item": "int64", "other": "int64"},
            buckets=buckets,
            forget=longest,  # the session is over then
        )
        .map(in_order, emits={"a": "int64", "b": "int64"})
    )
    return ranked(pairs, width, top, buckets)


APP = App(
    name="viewed_together",
    help="rank the pairs of items that are viewed in the same sessions, day by day",
    left=(TIME, ("user", "integer"), ("item", "integer")),
    build=build,
    reference=reference.viewed_together,
    size="1d",
    options=[whole_option("top", 30, "most pairs listed for each day"), timeout_option("60min"), BUCKETS],
    stages="SL PS SL PS SF",
)
