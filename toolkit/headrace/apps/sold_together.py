"""sold_together: which items are sold together, hour by hour (TPCx-BB query 1; Prasaad, Ramalingam and Rajan, Table 1).

SL complete rows; PS by ticket: pairs of its items, each once an hour; PS by item: counts; SF: the ranking of the
hour. `ranked_pairs` has the last two, and explains how they learn of the end of an hour.
"""

import headrace as hr
from headrace.apps.app import TIME, App
from headrace.apps.pipeline_options import BUCKETS, whole_option, width_of
from headrace.apps.ranked_pairs import ranked
from headrace.reference import ordering_apps as reference


def build(sales: hr.Stream, size: str, top: int, buckets: int) -> hr.Stream:
    width = width_of(sales, size)

    def whole(t):
        return t.ticket is not None and t.item is not None

    def pair(state, t, emit):
        hour = t.ts // width
        if hour != state.hour:
            state.hour = hour
            state.items.clear()
        if len(state.items) == 0:
            emit(a=t.item, b=t.item)
        if t.item not in state.items:
            for other in state.items:
                emit(a=min(other, t.item), b=max(other, t.item))
            state.items.add(t.item)

    pairs = sales.ordered().filter(whole).partitioned(
        pair,
        by="ticket",
        state={"hour": "int64", "items": hr.set_of("int64")},
        emits={"a": "int64", "b": "int64"},
        buckets=buckets,
        forget=width,  # an older entry is of another hour
    )
    return ranked(pairs, width, top, buckets)


APP = App(
    name="sold_together",
    help="rank the pairs of items that are on the same tickets, hour by hour",
    left=(TIME, ("ticket", "integer"), ("item", "integer")),
    build=build,
    reference=reference.sold_together,
    size="1h",
    options=[whole_option("top", 100, "most pairs listed for each hour"), BUCKETS],
    stages="SL PS PS SF",
)
