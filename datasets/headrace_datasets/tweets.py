"""Short posts with hashtags: the text of the wordcount, paircount and longest-tweet-per-hashtag experiments.

STRETCH (Gulisano et al.), query Q1, reads 4.3 million tweets of two days of October 2018, about 30 a second.
Tweets must not be passed on, so these are made up, with the statistics that matter to an operator:

words      Zipf-Mandelbrot over 20,000 made-up words, 4 % unseen elsewhere; 11 +- 6 in a tweet, at most 40
hashtags   0.42 in a tweet, Zipf over 100,000; some trend for 10 to 60 minutes; 2 % of tweets have one twice
rate       varies with the time of day, with outbreaks up to two hundred times the mean: the shape of the tweet
           counts (AAPL) of the Numenta Anomaly Benchmark
users      Zipf over 100,000
oddities   3 % with emoji, Chinese, Japanese or Korean; 1 % empty; 0.1 % are 280 times ``#``; 0.1 % are texts
           that a tokeniser may get wrong
"""

import functools
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace_datasets.arrivals import Clock, autoregressive, milliseconds_as_us
from headrace_datasets.dataset import TIME, Dataset
from headrace_datasets.parameters import explains_arguments, rate_per_second, whole_number
from headrace_datasets.randomness import Choice, stream, zipf
from headrace_datasets.words import compounds, pseudo_words, random_letters

SCHEMA = pa.schema({"ts": TIME, "user": pa.string(), "text": pa.string()})

LONGEST_TEXT = 280  # code points
WORD_MEAN, WORD_SD, WORD_MOST = 11.0, 6.0, 40
HASHTAG_COUNTS = Choice(np.array([0.78, 0.12, 0.05, 0.025, *0.025 / 2.0 ** np.array([1, 2, 3, 4, 5, 5])]))
UNSEEN_SHARE, GLYPH_SHARE, EMPTY_SHARE, WALL_SHARE, ODD_SHARE = 0.04, 0.03, 0.01, 0.001, 0.001
TWICE_SHARE = 0.12  # of the tweets with two hashtags or more; chance adds the rest of the 2 %

USER_COUNT, WORD_COUNT, HASHTAG_COUNT = 100_000, 20_000, 100_000

START = np.datetime64("2018-10-01T00:00:00", "us").astype(np.int64)
BLOCK_ROWS = 16_384
BLOCKS, RATES, TRENDS = 0, 1, 2  # random streams

SIGNS = """
😀 😂 😍 😭 🙏 🔥 🎉 💯 👀 🤔 ✨ 🚀 🌍 🍕 ⚽ 🎶 ❤ 💔 👍 👏
👨‍👩‍👧‍👦 🏳️‍🌈 🇸🇪 👍🏽 ❤️
今日 東京 天気 ありがとう ニュース 中国 你好 经济 音乐 新闻 안녕 서울 사랑
"""
GLYPHS = tuple(SIGNS.split())  # second line: several code points that a reader sees as one character
"""3 % of the tweets contain one of these."""

ODD_TEXTS = (
    "#",
    "##",
    "# alone",
    "#a#b",
    "##double hash",
    "a#notatag b",
    "#same #same #same",
    "#Case #case #CASE",
    " leading and trailing ",
    "two  spaces\tand a tab",
    "lines\nof\r\ntext\x0b\x0c",
    "   ",
    "\u3000",
    "wide\u3000space no\u00a0break thin\u2009space",
    "line\u2028separator\u2029paragraph\u0085next",
    "control\x1cfile\x1dgroup\x1erecord\x1funit",
    "zero\u200bwidth \ufeffmark \u2060joiner",
    "#caf\u00e9 #cafe\u0301",
    "#\U0001f389 #\u6771\u4eac",
    "\u0130stanbul \u00df \ufb01 \u01c5",
    "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd",
    "nul\x00inside",
    "\U0010ffff \ue000 \ufffd",
    "\u0300combining first",
)
"""Texts on which a tokeniser may differ from Python's `str.split`, and some that only look like hashtags."""


@explains_arguments
def tweets(n: int = 1_000_000, seed: int = 7, rate: float = 30.0) -> Dataset:
    """Made-up tweets with hashtags, Zipf words and bursts.

    Parameters
    ----------
    n : int
        Rows.
    seed : int
        Another seed gives other rows, from the same vocabulary.
    rate : float
        Tweets a second in the long run. Most of the time there are about half as many; outbreaks of some
        minutes make up for it, so that a stream of a few hours may be far from that mean.

    Returns
    -------
    Dataset
        ts, user, text. Event times are whole milliseconds, from 2018-10-01 on, so that some are equal; no text
        is longer than 280 code points.

    Raises
    ------
    ValueError
        A parameter is out of its range; the text names it and says what to give.

    Examples
    --------
    >>> from headrace_datasets import tweets
    >>> tweets(n=1_000, seed=7).to_arrow().schema.names
    ['ts', 'user', 'text']
    """
    generate(n, seed, rate)  # checks the arguments now, not when rows are asked for
    return Dataset(f"tweets(n={n}, seed={seed}, rate={rate})", SCHEMA, partial(generate, n, seed, rate))


def generate(n: int, seed: int, rate: float = 30.0) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows of `tweets` in blocks."""
    n, seed = whole_number("n", n, minimum=0), whole_number("seed", seed, minimum=0)
    return _blocks(n, seed, rate_per_second("rate", rate, n))


def _blocks(n: int, seed: int, rate: float) -> Iterator[pa.RecordBatch]:
    clock = Clock((60.0 * rate * day for day in rate_shape(seed)), slot_s=60.0)
    trends = _Trends(stream(seed, TRENDS))
    tokens = _vocabulary()
    users = zipf(USER_COUNT, 0.8)
    for block, first in enumerate(range(0, n, BLOCK_ROWS)):
        # whole blocks are drawn and then cut, so that a smaller n gives the beginning of the same stream
        rng = stream(seed, BLOCKS, block)
        seconds = clock.after(rng.standard_exponential(BLOCK_ROWS))
        ts = pa.array(START + milliseconds_as_us(seconds)).cast(TIME)
        user = _user_names().take(pa.array(users.draw(rng, BLOCK_ROWS)))
        text = _texts(rng, seconds, trends, tokens)
        yield pa.RecordBatch.from_arrays([ts, user, text], schema=SCHEMA).slice(0, n - first)


# -- rate -----------------------------------------------------------------------------------------------

OUTBREAKS_PER_DAY, OUTBREAK_DECAY = 4.5, float(np.exp(-1 / 6.5))  # decay per minute
OUTBREAK_LEAST, OUTBREAK_MOST, OUTBREAK_TAIL = (
    6.0,
    330.0,
    1.1,
)  # first minute, relative to the quiet mean; Pareto exponent
MOOD_SD, MOOD_DECAY = 0.55, float(np.exp(-1 / 60))  # of the logarithm; per minute


def rate_shape(seed: int) -> Iterator[NDArray[np.float64]]:
    """Iterate over days of 1,440 minutes, the rate in each relative to the long-run mean.

    A daily wave times a wandering mood, plus outbreaks that start suddenly and die down in minutes. The
    constants are fitted to 15,902 five-minute counts of tweets: quantiles 1, 10, 50, 90, 99 % at 0.11, 0.22,
    0.55, 1.5, 7.6 of the mean; maximum 158.
    """
    rng = stream(seed, RATES)
    wave = 1.0 + 0.6 * np.cos(2 * np.pi * (np.arange(1440) / 1440 - 0.75))  # highest at 18:00 UTC
    tail, least, most = OUTBREAK_TAIL, OUTBREAK_LEAST, OUTBREAK_MOST
    mean_height = least + least**tail * (most ** (1 - tail) - least ** (1 - tail)) / (1 - tail)
    mean = 1.0 + OUTBREAKS_PER_DAY / 1440 * mean_height / (1 - OUTBREAK_DECAY)
    mood, outbreak = MOOD_SD * float(rng.standard_normal()), 0.0
    while True:
        steps = MOOD_SD * np.sqrt(1 - MOOD_DECAY**2) * rng.standard_normal(1440)
        moods = autoregressive(steps, MOOD_DECAY, mood)
        heights = np.minimum(least * (1.0 - rng.random(1440)) ** (-1 / tail), most)
        starts = rng.random(1440) < OUTBREAKS_PER_DAY / 1440
        outbreaks = autoregressive(np.where(starts, heights, 0.0), OUTBREAK_DECAY, outbreak)
        mood, outbreak = float(moods[-1]), float(outbreaks[-1])
        yield (wave * np.exp(moods - MOOD_SD**2 / 2) + outbreaks) / mean


# -- text -----------------------------------------------------------------------------------------------


class _Vocabulary(NamedTuple):
    """All strings that texts are made of, and the index at which each kind begins; words begin at 0."""

    strings: pa.StringArray
    hashtags: int
    glyphs: int
    wall: int
    odd: int
    unseen: int  # one past the end: each block appends its own


@functools.cache
def _vocabulary() -> _Vocabulary:
    words = pseudo_words(WORD_COUNT)
    hashtags = pc.binary_join_element_wise(
        "#", compounds(words.slice(0, 5_000), HASHTAG_COUNT), ""
    ).to_pylist()
    for rank in range(50, HASHTAG_COUNT, 97):  # hashtags are not all ASCII
        hashtags[rank] = f"#{GLYPHS[rank % len(GLYPHS)]}{rank}"
    parts = [words, pa.array(hashtags), pa.array(GLYPHS), pa.array(["#" * LONGEST_TEXT]), pa.array(ODD_TEXTS)]
    begins = np.cumsum([len(part) for part in parts]).tolist()
    return _Vocabulary(pa.concat_arrays(parts), *begins)


@functools.cache
def _user_names() -> pa.StringArray:
    numbers = pa.array(np.arange(USER_COUNT)).cast(pa.string())
    return pc.binary_join_element_wise("u", numbers, "")


def _texts(
    rng: np.random.Generator, seconds: NDArray[np.float64], trends: "_Trends", vocabulary: _Vocabulary
) -> pa.StringArray:
    """Return one text for each arrival: first the numbers of tokens are drawn, last all strings are built at once."""
    rows = len(seconds)

    # 1. how many tokens and how many hashtags among them
    spread = WORD_MEAN**2 / (WORD_SD**2 - WORD_MEAN)  # negative binomial with that mean and standard deviation
    counts = rng.negative_binomial(spread, spread / (spread + WORD_MEAN), rows).clip(1, WORD_MOST)
    hashtag_counts = HASHTAG_COUNTS.draw(rng, rows)
    np.maximum(counts, hashtag_counts, out=counts)
    kind = rng.random(rows)
    empty = kind < EMPTY_SHARE
    whole = ~empty & (kind < EMPTY_SHARE + WALL_SHARE + ODD_SHARE)  # the text is one single token
    wall = whole & (kind < EMPTY_SHARE + WALL_SHARE)
    counts[empty], counts[whole] = 0, 1
    hashtag_counts[empty | whole] = 0
    offsets = np.zeros(rows + 1, dtype=np.int32)
    np.cumsum(counts, out=offsets[1:])
    starts = offsets[:-1]

    # 2. which token
    token = zipf(WORD_COUNT, 1.0, 2.7).draw(rng, int(offsets[-1]))
    unseen = np.flatnonzero(rng.random(len(token)) < UNSEEN_SHARE)
    token[unseen] = vocabulary.unseen + np.arange(len(unseen), dtype=np.int32)
    glyph = np.flatnonzero((rng.random(rows) < GLYPH_SHARE) & (counts > 0))
    place = starts[glyph] + (rng.random(len(glyph)) * counts[glyph]).astype(np.int32)
    token[place] = vocabulary.glyphs + rng.integers(0, len(GLYPHS), len(glyph), dtype=np.int32)
    _write_hashtags(rng, token, starts, counts, hashtag_counts, seconds, trends, vocabulary.hashtags)
    token[starts[wall]] = vocabulary.wall
    odd = np.flatnonzero(whole & ~wall)
    token[starts[odd]] = vocabulary.odd + rng.integers(0, len(ODD_TEXTS), len(odd), dtype=np.int32)

    # 3. the strings
    letters = random_letters(rng, rng.integers(3, 8, len(unseen), dtype=np.int32))
    strings = pa.concat_arrays([vocabulary.strings, letters]).take(pa.array(token))
    texts = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), strings), " ")
    return pc.utf8_slice_codeunits(texts, 0, LONGEST_TEXT)


def _write_hashtags(
    rng: np.random.Generator,
    token: NDArray[np.int32],
    starts: NDArray[np.int32],
    counts: NDArray[np.int64],
    hashtag_counts: NDArray[np.int32],
    seconds: NDArray[np.float64],
    trends: "_Trends",
    first_hashtag: int,
) -> None:
    """Replace some adjacent tokens of some tweets by hashtags. Writes `token`."""
    tagged = np.flatnonzero(hashtag_counts)
    many = hashtag_counts[tagged]
    lead = starts[tagged] + (rng.random(len(tagged)) * (counts[tagged] - many + 1)).astype(np.int32)
    ends = np.cumsum(many)
    nth = np.arange(int(ends[-1]) if len(ends) else 0, dtype=np.int32) - np.repeat(ends - many, many)
    hashtag = zipf(HASHTAG_COUNT, 1.05).draw(rng, len(nth))
    trends.write(rng, hashtag, np.repeat(seconds[tagged], many))
    twice = np.repeat((many >= 2) & (rng.random(len(tagged)) < TWICE_SHARE), many) & (nth == 1)
    second = np.flatnonzero(twice)
    hashtag[second] = hashtag[second - 1]
    token[np.repeat(lead, many) + nth] = first_hashtag + hashtag


class _Trends:
    """Hashtags that, for 10 to 60 minutes, occur fifty times as often as usual; about two at any time.

    Parameters
    ----------
    rng : numpy.random.Generator
        Draws the trends, in the order of their starts, as time goes on; nothing else may use it.
    """

    MEAN_GAP_S = 1_200.0
    SHORTEST_S, LONGEST_S = 600.0, 3_600.0
    FACTOR = 50.0
    RANKS = 10, 500  # of the hashtags that can trend: known, but not the top ones

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._under_way: list[tuple[float, float, int]] = []  # start, end, hashtag
        self._next_start_s = self.MEAN_GAP_S * float(rng.standard_exponential())

    def write(
        self, rng: np.random.Generator, hashtag: NDArray[np.int32], seconds: NDArray[np.float64]
    ) -> None:
        """Replace some of the hashtags, drawn at sorted times, by those that trend at that time. Writes `hashtag`."""
        if not len(seconds):
            return
        self._catch_up(float(seconds[0]), float(seconds[-1]))
        probability = zipf(HASHTAG_COUNT, 1.05).probability
        weight = np.ones(len(hashtag))  # total weight of the hashtags that could have been drawn so far
        for start, end, which in self._under_way:
            span = slice(*np.searchsorted(seconds, (start, end)))
            extra = (self.FACTOR - 1) * probability[which]
            weight[span] += extra
            hashtag[span][rng.random(len(weight[span])) * weight[span] < extra] = which

    def _catch_up(self, first_s: float, last_s: float) -> None:
        lowest, highest = np.log(self.RANKS)
        while self._next_start_s <= last_s:
            start = self._next_start_s
            end = start + float(self._rng.uniform(self.SHORTEST_S, self.LONGEST_S))
            which = int(np.exp(self._rng.uniform(lowest, highest)))
            self._under_way.append((start, end, which))
            self._next_start_s += self.MEAN_GAP_S * float(self._rng.standard_exponential())
        self._under_way = [trend for trend in self._under_way if trend[1] > first_s]
