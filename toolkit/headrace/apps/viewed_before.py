"""viewed_before: what an item's buyers had looked at before (TPCx-BB query 3; Table 1 of the paper).

SL complete views and buys; PS by user: at a buy, the items among the last views; PS by the item bought: how
often each was viewed, and its rank. A count only rises, so an item that falls out of the first `top` comes back only when it
is counted itself: only the first `top` are kept in order.
"""

import headrace as hr
from headrace.apps.app import TIME, App, Option
from headrace.apps.pipeline_options import BUCKETS, in_unit, whole_option
from headrace.reference import ordering_apps as reference


def build(clicks: hr.Stream, top: int, last: int, within: str, buckets: int) -> hr.Stream:
    span = in_unit(clicks, within, "within")

    def counts(t):
        is_whole = t.user is not None and t.item is not None and t.kind is not None
        return is_whole and (t.kind == "view" or t.kind == "buy")

    def recall(state, t, emit):
        # A view too old for this buy, or with too many after it, is so for all later buys.
        while len(state.times) > 0 and t.ts - state.times[0] > span:
            state.times.pop(0)
            state.items.pop(0)
        if t.kind == "view":
            if len(state.times) == last:
                state.times.pop(0)
                state.items.pop(0)
            state.times.append(t.ts)
            state.items.append(t.item)
            return
        before = t.item
        for viewed in sorted(state.items):
            if viewed != t.item and viewed != before:
                emit(item=t.item, viewed=viewed)
            before = viewed

    def rank(state, t, emit):
        views = state.counts.get(t.viewed, 0) + 1
        state.counts[t.viewed] = views
        size = len(state.views)
        new = size
        while new > 0 and (state.views[new - 1] < views or (state.views[new - 1] == views and state.items[new - 1] > t.viewed)):
            new -= 1
        if new == top:
            return
        old = new
        while old < size and state.items[old] != t.viewed:
            old += 1
        if old == size and size == top:
            old -= 1
        if old < size:
            state.items.pop(old)
            state.views.pop(old)
        state.items.insert(new, t.viewed)
        state.views.insert(new, views)
        emit(item=t.item, viewed=t.viewed, views=views, rank=new + 1)

    integers = hr.list_of("int64")
    return (
        clicks.ordered()
        .filter(counts)
        .partitioned(
            recall,
            by="user",
            state={"times": integers, "items": integers},
            emits={"item": "int64", "viewed": "int64"},
            buckets=buckets,
            forget=span,  # no view counts any more
        )
        .partitioned(
            rank,
            by="item",
            state={"counts": hr.map_of("int64", "int64"), "items": integers, "views": integers},
            emits={"item": "int64", "viewed": "int64", "views": "int64", "rank": "int64"},
            buckets=buckets,
        )
    )


APP = App(
    name="viewed_before",
    help="rank what the buyers of each item had viewed before",
    left=(TIME, ("user", "integer"), ("item", "integer"), ("kind", "text")),
    build=build,
    reference=reference.viewed_before,
    options=[
        whole_option("top", 30, "most viewed items listed for each item bought"),
        whole_option("last", 5, "how many of a user's latest views count"),
        Option("within", "10d", str, "longest time from a view to the purchase (default 10d)"),
        BUCKETS,
    ],
    stages="SL PS PS",
)
