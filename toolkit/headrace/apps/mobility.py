"""mobility: phones that are elsewhere sooner than they can have got there (Prasaad, Ramalingam and Rajan, Figure 1).

SL calls of the area; SL: the two ends of a call with their locations; PS by phone: the speed since its last location; SL:
speeds that are too high; SF: their number per hour.
"""

import math

import headrace as hr
from headrace.apps.app import TIME, App, Option
from headrace.apps.pipeline_options import BUCKETS, in_unit, width_of
from headrace.reference import ordering_apps as reference
from headrace.reference.ordering_apps import EARTH_KM


def build(calls: hr.Stream, size: str, speed: float, buckets: int, area: int | None = None) -> hr.Stream:
    width, hour = width_of(calls, size), in_unit(calls, "1h", "hour")
    everywhere, only = area is None, 0 if area is None else area
    limit = float(speed)

    def in_area(t):
        return (
            t.caller is not None and t.callee is not None and t.area is not None
            and t.caller_lat is not None and t.caller_lon is not None
            and t.callee_lat is not None and t.callee_lon is not None
            and (everywhere or t.area == only)
        )  # fmt: skip

    def ends(t, emit):
        emit(phone=t.caller, lat=t.caller_lat, lon=t.caller_lon)
        emit(phone=t.callee, lat=t.callee_lat, lon=t.callee_lon)

    def move(state, t, emit):
        if state.is_known:
            if t.ts != state.ts:
                km = haversine(state.lat, state.lon, t.lat, t.lon)
                emit(speed=km / (float(t.ts - state.ts) / float(hour)))
            elif t.lat == state.lat and t.lon == state.lon:
                emit(speed=0.0)
            else:
                emit(speed=math.inf)
        state.is_known = True
        state.ts = t.ts
        state.lat = t.lat
        state.lon = t.lon

    def too_fast(t):
        return t.speed > limit

    def per_hour(state, t, emit):
        at = t.ts // width
        if state.frauds > 0 and at != state.hour:
            emit(ts=(state.hour + 1) * width, frauds=state.frauds)
            state.frauds = 0
        state.hour = at
        state.frauds += 1

    def last_hour(state, emit):
        if state.frauds > 0:
            emit(ts=(state.hour + 1) * width, frauds=state.frauds)

    place = {"lat": "float64", "lon": "float64"}
    return (
        calls.ordered()
        .filter(in_area)
        .flat_map(ends, emits={"phone": "int64", **place})
        .partitioned(
            move,
            by="phone",
            state={"is_known": "bool", "ts": "int64", **place},
            emits={"speed": "float64"},
            buckets=buckets,
        )
        .filter(too_fast)
        .stateful(per_hour, state={"hour": "int64", "frauds": "int64"}, emits={"frauds": "int64"}, end=last_hour)
    )


def haversine(lat_1, lon_1, lat_2, lon_2):
    """Distance of two points in km; NaN where a coordinate, or how far two are apart, is no finite number."""
    if not (math.isfinite(lat_1) and math.isfinite(lon_1) and math.isfinite(lat_2) and math.isfinite(lon_2)):
        return math.nan
    if not math.isfinite(lon_2 - lon_1):
        return math.nan
    phi_1 = math.radians(lat_1)
    phi_2 = math.radians(lat_2)
    across = math.sin((phi_2 - phi_1) / 2.0)
    along = math.sin(math.radians(lon_2 - lon_1) / 2.0)
    half = across * across + math.cos(phi_1) * math.cos(phi_2) * along * along
    return 2.0 * EARTH_KM * math.asin(math.sqrt(min(max(half, 0.0), 1.0)))


def read_area(text: str) -> int:
    """Read an area's number, which may be negative."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 19 and -(2**63) <= int(text) < 2**63):
        raise ValueError("give the number of an area, within int64")
    return int(text)


def read_speed(text: str) -> float:
    """Read a speed in km/h, from 0 on."""
    try:
        speed = float(text)
    except ValueError:
        speed = math.nan
    if not 0 <= speed < math.inf:
        raise ValueError("give km/h, from 0 on")
    return speed


APP = App(
    name="mobility",
    help="count the phones that move impossibly fast, hour by hour",
    left=(
        TIME,
        *((name, "integer") for name in ("caller", "callee", "area")),
        *((name, "number") for name in ("caller_lat", "caller_lon", "callee_lat", "callee_lon")),
    ),
    build=build,
    reference=reference.mobility,
    size="1h",
    options=[
        Option("area", None, read_area, "only calls of this area (default all)"),
        Option("speed", 900.0, read_speed, "speed above which a move is impossible, in km/h (default 900)"),
        BUCKETS,
    ],
    stages="SL SL PS SL SF",
)
