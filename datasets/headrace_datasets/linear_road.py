"""Cars on toll roads that report their position every 30 seconds: the stream of the Linear Road benchmark.

The Viper paper, section 4, runs two of the benchmark's operators: one that lets position reports pass, 99
of 100 tuples, and one that reports when a car enters a new segment, 34 of 100. These made-up streams have
the same shares, from the first minutes on:

roads       expressways of 100 segments of a mile, two directions, lanes 0 (entry), 1 to 3 (travel), 4 (exit)
cars        enter in a segment and leave in a later one; one in ten comes back 61 to 1,061 seconds later
speeds      about 40 miles an hour: normal (55, 10) for each driver, less where cars are many
accidents   one in 20 minutes on each expressway: two cars stop at one place, for 10 to 20 minutes; traffic is
            slow in the five segments up to there
queries     with one report in 99 the driver asks for the balance (type 2) or a day's expenditure (type 3)
rate        on each expressway, from 15 to 1,700 tuples a second within three hours, then steady
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace_datasets.dataset import TIME, Dataset
from headrace_datasets.parameters import explains_arguments, whole_number
from headrace_datasets.randomness import stream

NAMES = (
    "type", "time", "vid", "spd", "xway", "lane", "dir", "seg", "pos", "qid", "s_init", "s_end", "dow", "tod", "day",
)  # fmt: skip
SCHEMA = pa.schema([("ts", TIME), *((name, pa.int32()) for name in NAMES)])

REPORT, BALANCE, EXPENDITURE = 0, 2, 3
ENTRY, EXIT = 0, 4

SEGMENTS, SEGMENT_FEET = 100, 5_280
ROAD_FEET = SEGMENTS * SEGMENT_FEET
PERIOD_S = 30
FEET_PER_MPH = SEGMENT_FEET * PERIOD_S // 3_600  # in 30 seconds: 44, without a remainder
FASTEST_MPH = 100

FIRST_RATE, LAST_RATE, RAMP_S = 15.0, 1_700.0, 10_800.0  # rates in tuples a second of one expressway
MOST_ROWS = 100_000_000_000  # the numbers of cars stay below 2**31
MOST_EXPRESSWAYS = 1_000

START = np.datetime64("2004-08-31T00:00:00", "us").astype(np.int64)

Ints = NDArray[np.int32]


@explains_arguments
def linear_road(n: int = 1_000_000, seed: int = 7, expressways: int = 1) -> Dataset:
    """Position reports of cars on toll roads, and a few queries by their drivers.

    Parameters
    ----------
    n : int
        Rows. The three hours of one expressway have about 9.3 million.
    seed : int
        Another seed gives other cars.
    expressways : int
        The benchmark's L: it multiplies the rate and the number of cars.

    Returns
    -------
    Dataset
        ts, and the benchmark's 15 columns, int32, -1 where a type of tuple does not use one: type (0 position
        report, 2 account balance, 3 daily expenditure), time (seconds since the start, as ts), vid (car), spd
        (0 to 100 miles an hour, over the last 30 seconds), xway, lane, dir (0 towards higher positions), seg
        (0 to 99), pos (0 to 527,999 feet), qid (of a query), s_init, s_end, dow, tod (of travel time
        estimates, which are not made: always -1), day (1 to 69, of an expenditure).

    Notes
    -----
    Arasu et al., Linear Road: a stream data management benchmark, VLDB 2004. Rows of one second follow each
    other in no particular order; a query follows the report it came with.

    Raises
    ------
    ValueError
        A parameter is out of its range; the text names it and says what to give.

    Examples
    --------
    >>> from headrace_datasets import linear_road
    >>> road = linear_road(n=1_000, seed=7).to_arrow()
    >>> road.schema.names[:5], road["type"].to_pylist().count(0)
    (['ts', 'type', 'time', 'vid', 'spd'], 987)
    """
    generate(n, seed, expressways)  # checks the arguments now, not when rows are asked for
    name = f"linear_road(n={n}, seed={seed}, expressways={expressways})"
    return Dataset(name, SCHEMA, partial(generate, n, seed, expressways))


def generate(n: int, seed: int, expressways: int = 1) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows of `linear_road` in blocks: 30 seconds of all roads each."""
    n, seed = whole_number("n", n, minimum=0), whole_number("seed", seed, minimum=0)
    expressways = whole_number("expressways", expressways, minimum=1)
    if n > MOST_ROWS:
        raise ValueError(f"n is {n}: the cars would be too many to number; give at most {MOST_ROWS}")
    if expressways > MOST_EXPRESSWAYS:
        raise ValueError(f"expressways is {expressways}; give at most {MOST_EXPRESSWAYS}")
    return _blocks(n, seed, expressways)


def _blocks(n: int, seed: int, expressways: int) -> Iterator[pa.RecordBatch]:
    roads = _Roads(stream(seed), expressways)
    made = 0
    while made < n:
        block = roads.next_period().slice(0, n - made)
        made += block.num_rows
        yield block


# -- traffic --------------------------------------------------------------------------------------------

DESIRED_MPH, DESIRED_SD = 55.0, 10.0
NOISE_MPH = 3.0
CROWDING = 0.29  # how much a segment with the mean number of cars slows them
BEHIND_ACCIDENT, BEHIND_SEGMENTS = 0.4, 4
ACCIDENT_EVERY_S, SHORTEST_STOP_S, LONGEST_STOP_S = 1_200, 600, 1_200
LANE_CHANGES = 0.05  # of the reports
QUERY_SHARE = 1 / 99  # of the reports, so that 99 % of all rows are reports
BALANCE_SHARE = 5 / 6  # of the queries: the benchmark's 50 % against 10 %; the rest are travel times
RETURN_SHARE, SHORTEST_BREAK_S, LONGEST_BREAK_S = 0.1, 61, 1_061

CAR = {
    "phase": np.uint8,  # seconds within each period at which it reports; cars are sorted by it
    "vid": np.int32,
    "road": np.int32,  # 2 * expressway + direction
    "at": np.int32,  # feet from the beginning of its direction
    "leave_at": np.int32,  # its first report at or beyond this place is its last
    "desired": np.float32,  # miles an hour on a free road
    "spd": np.int32,
    "lane": np.int8,  # travel lane
    "ramp": np.int8,  # reports still to be made from the entry lane
    "stopped_until": np.int32,  # seconds since the start; 0 = it drives
}


class _Roads:
    """All cars on the roads, moved in steps of 30 seconds: each car reports once in each step.

    Parameters
    ----------
    rng : numpy.random.Generator
        Nothing else may use it.
    expressways : int
    """

    def __init__(self, rng: np.random.Generator, expressways: int) -> None:
        self._rng = rng
        self._expressways = expressways
        self._now_s = 0
        self._cars = {name: np.zeros(0, kind) for name, kind in CAR.items()}
        self._vehicles = 0  # numbered so far
        self._queries = 0
        self._away_vid, self._away_until = np.zeros(0, np.int32), np.zeros(0, np.int32)
        self._next_accident = rng.integers(0, ACCIDENT_EVERY_S, expressways)

    def next_period(self) -> pa.RecordBatch:
        """Return the rows of the next 30 seconds."""
        self._drive()
        self._enter()
        batch = self._report()
        self._leave()
        self._now_s += PERIOD_S
        return batch

    def _drive(self) -> None:
        """Move each car to the place of its next report."""
        cars, rng = self._cars, self._rng
        count = len(cars["vid"])
        if not count:
            return
        stop = cars["stopped_until"]
        stop[stop <= self._now_s] = 0
        standing = np.flatnonzero(stop)
        segment = cars["road"] * SEGMENTS + cars["at"] // SEGMENT_FEET
        speed = cars["desired"] * self._pace(segment, standing)[segment]
        speed += NOISE_MPH * rng.standard_normal(count, np.float32)
        np.clip(speed, 1.0, FASTEST_MPH, out=speed)
        speed[standing] = 0.0
        moved = np.rint(speed * FEET_PER_MPH).astype(np.int32)
        change = rng.random(count, np.float32) < LANE_CHANGES
        change[standing] = False
        cars["lane"][change] = cars["lane"][change] % 3 + 1
        np.maximum(cars["ramp"] - 1, 0, out=cars["ramp"])
        for expressway in np.flatnonzero(self._next_accident < self._now_s + PERIOD_S):
            self._collide(int(expressway), moved)
        cars["spd"] = np.rint(moved * np.float32(1 / FEET_PER_MPH)).astype(np.int32)
        cars["at"] += moved

    def _pace(self, segment: Ints, standing: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return what part of the desired speed each segment allows."""
        cells = 2 * self._expressways * SEGMENTS
        cars_there = np.bincount(segment, minlength=cells)
        # relative to the mean: the stream has the same mixture of speeds at any rate
        pace = (1.0 / (1.0 + CROWDING * cars_there * (cells / len(segment)))).astype(np.float32)
        blocked = np.unique(segment[standing])
        for behind in range(BEHIND_SEGMENTS + 1):
            slow = blocked[blocked % SEGMENTS >= behind] - behind
            pace[slow] = np.minimum(pace[slow], BEHIND_ACCIDENT * pace.mean())
        return pace

    def _collide(self, expressway: int, moved: Ints) -> None:
        """Stop two cars of an expressway where the first of them will be, if one is close behind; writes `moved`."""
        cars, rng = self._cars, self._rng
        free = (cars["road"] >> 1 == expressway) & (cars["stopped_until"] == 0) & (cars["ramp"] == 0)
        free &= cars["at"] + moved < cars["leave_at"]
        rows = np.flatnonzero(free)
        if not len(rows):
            return
        first = rows[int(rng.integers(len(rows)))]
        place = cars["at"][first] + moved[first]
        gap = place - cars["at"][rows]
        near = (gap >= FEET_PER_MPH) & (gap <= FASTEST_MPH * FEET_PER_MPH) & (rows != first)
        near &= (cars["road"][rows] == cars["road"][first]) & (place < cars["leave_at"][rows])
        if not near.any():
            return  # the next period tries again
        second = rows[near][int(np.argmin(gap[near]))]
        moved[second] = place - cars["at"][second]
        cars["lane"][second] = cars["lane"][first]
        until = self._now_s + int(rng.integers(SHORTEST_STOP_S, LONGEST_STOP_S, endpoint=True))
        cars["stopped_until"][[first, second]] = until
        interval = self._now_s // ACCIDENT_EVERY_S + 1
        self._next_accident[expressway] = interval * ACCIDENT_EVERY_S + int(rng.integers(ACCIDENT_EVERY_S))

    def _enter(self) -> None:
        """Let cars enter at ramps, until there are as many as the rate asks for."""
        cars, rng = self._cars, self._rng
        back = self._away_until < self._now_s + PERIOD_S
        vid, phase = self._away_vid[back], (self._away_until[back] - self._now_s).astype(np.uint8)
        self._away_vid, self._away_until = self._away_vid[~back], self._away_until[~back]
        ramp = min(1.0, self._now_s / RAMP_S)
        rate = self._expressways * (FIRST_RATE + (LAST_RATE - FIRST_RATE) * ramp) * (1.0 - QUERY_SHARE)
        new = int(rng.poisson(max(0.0, PERIOD_S * rate - len(cars["vid"]) - len(vid))))
        vid = np.concatenate([vid, np.arange(self._vehicles, self._vehicles + new, dtype=np.int32)])
        phase = np.concatenate([phase, rng.integers(0, PERIOD_S, new, dtype=np.uint8)])
        self._vehicles += new
        count = len(vid)
        entry = rng.integers(0, SEGMENTS - 1, count, dtype=np.int32)
        leave = entry + 1 + (rng.random(count) * (SEGMENTS - 1 - entry)).astype(np.int32)
        desired = np.clip(DESIRED_MPH + DESIRED_SD * rng.standard_normal(count, np.float32), 20.0, FASTEST_MPH)
        entering = {
            "phase": phase,
            "vid": vid,
            "road": rng.integers(0, 2 * self._expressways, count, dtype=np.int32),
            "at": entry * SEGMENT_FEET + rng.integers(0, 1_000, count, dtype=np.int32),
            "leave_at": leave * SEGMENT_FEET,
            "desired": desired,
            "spd": rng.integers(10, 30, count, dtype=np.int32),
            "lane": rng.integers(1, 3, count, dtype=np.int8, endpoint=True),
            "ramp": rng.integers(1, 3, count, dtype=np.int8, endpoint=True),
            "stopped_until": np.zeros(count, np.int32),
        }
        order = np.argsort(np.concatenate([cars["phase"], phase]), kind="stable")
        self._cars = {name: np.concatenate([cars[name], entering[name]])[order] for name in CAR}

    def _report(self) -> pa.RecordBatch:
        """Return one report of each car, with the queries among them."""
        cars, rng = self._cars, self._rng
        count = len(cars["vid"])
        asks = rng.random(count, np.float32) < QUERY_SHARE
        asking = np.flatnonzero(asks)
        rows = np.repeat(np.arange(count), asks + np.uint8(1))
        query = asking + 1 + np.arange(len(asking))  # the rows of the queries
        size = len(rows)

        direction = cars["road"] & 1
        pos = np.where(direction == 0, cars["at"], ROAD_FEET - 1 - cars["at"])
        lane = np.where(cars["ramp"] > 0, np.int8(ENTRY), cars["lane"])
        lane[self._leaving()] = EXIT
        time = (self._now_s + cars["phase"].astype(np.int32))[rows]
        values = {
            "type": np.zeros(size, np.int32),
            "time": time,
            "vid": cars["vid"][rows],
            "spd": cars["spd"][rows],
            "xway": (cars["road"] >> 1)[rows],
            "lane": lane[rows].astype(np.int32),
            "dir": direction[rows],
            "seg": (pos // SEGMENT_FEET)[rows],
            "pos": pos[rows],
            "qid": np.full(size, -1, np.int32),
            "day": np.full(size, -1, np.int32),
        }
        for name in ("spd", "xway", "lane", "dir", "seg", "pos"):
            values[name][query] = -1
        values["qid"][query] = np.arange(self._queries, self._queries + len(query))
        self._queries += len(query)
        kind = np.where(rng.random(len(query)) < BALANCE_SHARE, BALANCE, EXPENDITURE)
        values["type"][query] = kind
        expenditure = query[kind == EXPENDITURE]
        values["day"][expenditure] = rng.integers(1, 69, len(expenditure), endpoint=True)
        values["xway"][expenditure] = (cars["road"] >> 1)[asking[kind == EXPENDITURE]]
        unused = pa.array(np.full(size, -1, np.int32))
        columns = [pa.array(values[name]) if name in values else unused for name in NAMES]
        ts = pa.array(START + time * np.int64(1_000_000)).cast(TIME)
        return pa.RecordBatch.from_arrays([ts, *columns], schema=SCHEMA)

    def _leaving(self) -> NDArray[np.bool_]:
        return self._cars["at"] >= self._cars["leave_at"]

    def _leave(self) -> None:
        """Take the cars that have reported from the exit lane off the road; some come back."""
        leaving = self._leaving()
        gone = np.flatnonzero(leaving)
        back = gone[self._rng.random(len(gone)) < RETURN_SHARE]
        last_report = self._now_s + self._cars["phase"][back].astype(np.int32)
        wait = self._rng.integers(SHORTEST_BREAK_S, LONGEST_BREAK_S, len(back), dtype=np.int32, endpoint=True)
        self._away_vid = np.concatenate([self._away_vid, self._cars["vid"][back]])
        self._away_until = np.concatenate([self._away_until, last_report + wait])
        stay = ~leaving
        self._cars = {name: values[stay] for name, values in self._cars.items()}
