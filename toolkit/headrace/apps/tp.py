"""tp, Toll Processing: three transactions an event, as one joint operator (TStream, sections V and VI-A).

Road Speed and Vehicle Cnt change the record of a segment, Toll Notification reads it.
"""

import headrace as hr
from headrace.apps.app import TIME, App
from headrace.apps.records import records_option
from headrace.reference import transaction_apps as reference

FREE_FROM, FREE_UP_TO = 40, 50
"""A segment is free if it is so fast, or has so few vehicles."""


def build(reports: hr.Stream, records: int) -> hr.Stream:
    columns = {"sum": "int64", "number": "int64", "vehicles": hr.set_of("int64")}
    segments = hr.table("segments", key="segment", columns=columns, rows=records)

    def road_speed(e, t):
        if e.vehicle is None or e.speed is None or e.speed < 0:
            t.reject()
        segments[e.segment].sum += e.speed
        segments[e.segment].number += 1

    def vehicle_cnt(e, t):
        if e.vehicle is None or e.speed is None:
            t.reject()
        segments[e.segment].vehicles.add(e.vehicle)

    def toll_notification(e, t):
        if e.vehicle is None or e.speed is None:
            t.reject()
        segment = segments[e.segment]
        vehicles = len(segment.vehicles)
        if segment.number == 0:
            t.emit(vehicles=vehicles, toll=0)
        else:
            average = segment.sum / segment.number
            toll = 0
            if average < FREE_FROM and vehicles > FREE_UP_TO:
                toll = 2 * (vehicles - FREE_UP_TO) ** 2
            t.emit(average=average, vehicles=vehicles, toll=toll)

    return reports.transact(
        road_speed, vehicle_cnt, toll_notification,
        emits={"average": "float64", "vehicles": "int64", "toll": "int64"}, carry=["vehicle", "segment"],
    )  # fmt: skip


APP = App(
    name="tp",
    help="charge vehicles by the speed and the vehicles of their segment",
    left=(TIME, ("vehicle", "integer"), ("segment", "integer"), ("speed", "integer")),
    build=build,
    reference=reference.tp,
    options=[records_option(reference.SEGMENTS)],
    tables=("segments",),
    not_speculative="as sets, such as the vehicles of a segment, have no versions",
)
