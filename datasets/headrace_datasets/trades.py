"""Trades of ten stocks, bursty: the stream of the hedge self-join.

STRETCH (Gulisano et al.), section 8.6, query Q6, reads the trades of the ten biggest companies on one day, 0
to 8,000 a second with abrupt changes. These are made up. The rate has the shape of one real day of four
symbols: busy at the opening and the close, with calm and bursty seconds. Most of the stocks follow the market,
one runs against it (the other half of a hedge), and one ignores it.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace_datasets.arrivals import Clock, autoregressive, milliseconds_as_us
from headrace_datasets.dataset import TIME, Dataset
from headrace_datasets.parameters import explains_arguments, rate_per_second, whole_number
from headrace_datasets.randomness import Choice, stream

SCHEMA = pa.schema({"ts": TIME, "id": pa.int32(), "price": pa.int64(), "average": pa.int64()})

PRICE_UNIT = 10_000  # price 10_000 is one dollar
TICK = 100  # one cent

FIRST_DAY = np.datetime64("2018-07-30")
OPENING = np.timedelta64(13 * 60 + 30, "m")  # UTC; 9:30 in New York
SESSION_S = 23_400  # six and a half hours
BLOCK_ROWS = 65_536
BLOCKS, RATES, PRICES = 0, 1, 2  # random streams


@explains_arguments
def trades(n: int = 1_000_000, seed: int = 7, peak: float = 8_000.0) -> Dataset:
    """Made-up trades of ten stocks at a rate that changes abruptly.

    Parameters
    ----------
    n : int
        Rows. At the default `peak` a trading day has about 3.9 million.
    seed : int
        Another seed gives other days.
    peak : float
        The rate of the busiest second, in trades a second. The mean is near a fiftieth of it.

    Returns
    -------
    Dataset
        ts, id (1 to 10), price and average (of the day before) in ten-thousandths of a dollar. Event times
        are whole milliseconds, more than half of them equal to the one before; trading days follow each other
        without weekends. In one row of 10,000 the average is unknown, and given as 0.

    Raises
    ------
    ValueError
        A parameter is out of its range; the text names it and says what to give.

    Examples
    --------
    >>> from headrace_datasets import trades
    >>> trades(n=1_000, seed=7).to_arrow().schema.names
    ['ts', 'id', 'price', 'average']
    """
    generate(n, seed, peak)  # checks the arguments now, not when rows are asked for
    return Dataset(f"trades(n={n}, seed={seed}, peak={peak})", SCHEMA, partial(generate, n, seed, peak))


def generate(n: int, seed: int, peak: float = 8_000.0) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows of `trades` in blocks."""
    n, seed = whole_number("n", n, minimum=0), whole_number("seed", seed, minimum=0)
    calendar_per_trading = 86_400 / SESSION_S
    rate_per_second("peak", peak, round(n * calendar_per_trading / MEAN_OF_PEAK), lowest=1.0)
    return _blocks(n, seed, float(peak))


def _blocks(n: int, seed: int, peak: float) -> Iterator[pa.RecordBatch]:
    clock = Clock((peak * day for day in rate_shape(seed)), slot_s=1.0)
    market = _Market(stream(seed, PRICES), MEAN_OF_PEAK * peak * SESSION_S)
    for block, first in enumerate(range(0, n, BLOCK_ROWS)):
        # whole blocks are drawn and then cut, so that a smaller n gives the beginning of the same stream
        rng = stream(seed, BLOCKS, block)
        # an order that meets several others trades several times at once: clusters of two on average, mean gap one
        gaps = 2.0 * rng.standard_exponential(BLOCK_ROWS)
        gaps[rng.random(BLOCK_ROWS) < 0.5] = 0.0
        day, second = np.divmod(clock.after(gaps), SESSION_S)
        opening = (FIRST_DAY + day.astype(np.int64) + OPENING).astype("datetime64[us]").astype(np.int64)
        stock = STOCKS.draw(rng, BLOCK_ROWS)
        price, average = market.prices(rng, day, stock)
        average[rng.random(BLOCK_ROWS) < 1e-4] = 0
        columns = [
            pa.array(opening + milliseconds_as_us(second)).cast(TIME),
            pa.array(stock + 1),
            *map(pa.array, (price, average)),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA).slice(0, n - first)


# -- rate -----------------------------------------------------------------------------------------------

HALF_HOURS = np.array(
    [15.4, 11.7, 7.2, 7.2, 5.9, 3.7, 4.7, 5.0, 4.0, 6.1, 4.6, 6.5, 18.0]
)  # % of the day's trades
MEASURED_PEAK = 765.0  # trades in the busiest second of the measured day; its median second had 5
LOG_MEDIAN, LOG_SD = 1.98, 1.24
FAST_SHARE, FAST_DECAY = 0.37, float(np.exp(-1 / 2))  # of the variance; per second
SLOW_SHARE, SLOW_DECAY = 0.13, float(np.exp(-1 / 300))
MEAN_OF_PEAK = 0.0202


def rate_shape(seed: int) -> Iterator[NDArray[np.float64]]:
    """Iterate over trading days of 23,400 seconds, the rate in each relative to the peak.

    Lognormal: the share of the half hour, times a factor that lasts seconds, one that lasts minutes, and one that
    is new each second. Fitted to 388,417 trades of four symbols on one day: mean 16 a second, quantiles 25, 50,
    75, 90, 99 % of the counts per second at 1, 5, 17, 42, 151; autocorrelation at 1, 10, 60, 300 seconds .24, .14,
    .10, .09.
    """
    rng = stream(seed, RATES)
    of_day = np.repeat(HALF_HOURS / HALF_HOURS.mean(), SESSION_S // len(HALF_HOURS))
    fast, slow = (float(x) for x in rng.standard_normal(2))
    while True:
        fasts = autoregressive(np.sqrt(1 - FAST_DECAY**2) * rng.standard_normal(SESSION_S), FAST_DECAY, fast)
        slows = autoregressive(np.sqrt(1 - SLOW_DECAY**2) * rng.standard_normal(SESSION_S), SLOW_DECAY, slow)
        fast, slow = float(fasts[-1]), float(slows[-1])
        new = np.sqrt(1 - FAST_SHARE - SLOW_SHARE) * rng.standard_normal(SESSION_S)
        mood = np.sqrt(FAST_SHARE) * fasts + np.sqrt(SLOW_SHARE) * slows + new
        yield np.minimum(of_day * np.exp(LOG_MEDIAN + LOG_SD * mood) / MEASURED_PEAK, 1.0)


# -- prices ---------------------------------------------------------------------------------------------

WEIGHTS = np.array([*1.0 / np.arange(1, 10), 0.006])  # how often a stock is traded
STOCKS = Choice(WEIGHTS)
FOLLOWS_MARKET = np.array(
    [1.0, 0.9, 1.1, 0.7, 0.0, 1.3, 0.95, 1.2, 0.5, -1.0]
)  # the last, rarely traded, is the hedge


class _Market:
    """Prices: each day opens at a distance from the day before; then prices wander, with a bounce of a tick.

    Parameters
    ----------
    rng : numpy.random.Generator
        Draws each day's market; nothing else may use it.
    trades_per_day : float
        The expected number, over all stocks. With it, how far a stock wanders in a day does not depend on how often it trades.
    """

    def __init__(self, rng: np.random.Generator, trades_per_day: float) -> None:
        self._rng = rng
        self._day = -1
        ticks = PRICE_UNIT // TICK
        self._average = rng.integers(10 * ticks, 300 * ticks, len(WEIGHTS)) * TICK  # of the day before
        self._sum = np.zeros(len(WEIGHTS), dtype=np.int64)  # of today's prices
        self._count = np.zeros(len(WEIGHTS), dtype=np.int64)
        self._now = self._average.astype(np.float64)
        self._step = 0.003 / np.sqrt(
            np.maximum(STOCKS.probability * trades_per_day, 1.0)
        )  # relative, per trade

    def prices(
        self, rng: np.random.Generator, day: NDArray[np.float64], stock: NDArray[np.int32]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return prices and the averages of the day before, for trades in order of time."""
        price, average = np.empty(len(stock), dtype=np.int64), np.empty(len(stock), dtype=np.int64)
        steps = rng.standard_normal(len(stock))
        bounce = TICK * rng.integers(-1, 1, len(stock), endpoint=True)
        days, begins = np.unique(day, return_index=True)
        for today, begin, end in zip(days, begins, [*begins[1:], len(stock)], strict=True):
            while self._day < today:
                self._open()
            for i in range(len(WEIGHTS)):
                rows = begin + np.flatnonzero(stock[begin:end] == i)
                if not len(rows):
                    continue
                walk = self._now[i] + self._step[i] * self._average[i] * np.cumsum(steps[rows])
                self._now[i] = walk[-1]
                paid = np.maximum(np.rint(walk / TICK).astype(np.int64) * TICK + bounce[rows], TICK)
                price[rows], average[rows] = paid, self._average[i]
                self._sum[i] += paid.sum()
                self._count[i] += len(rows)
        return price, average

    def _open(self) -> None:
        """Begin the next day."""
        self._day += 1
        traded = self._count > 0
        self._average[traded] = self._sum[traded] // self._count[traded]
        self._sum[:], self._count[:] = 0, 0
        market = float(self._rng.choice((-1.0, 1.0)) * self._rng.uniform(0.005, 0.015))
        own = 0.0006 * self._rng.standard_normal(len(WEIGHTS))
        self._now = self._average * (1.0 + FOLLOWS_MARKET * market + own)
