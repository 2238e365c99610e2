"""Tweets: the statistics that an operator on text feels.

Property    Moments within 10 %, slopes of Zipf's law within 0.1, shares of the oddities; the rate has bursts.
Oracle      The parameters they were made with, and the duplication (pairs of words per tweet) that follows
            from them: 27, 61 and 73 within distances 3, 10 and any. For the rate, quantiles of real counts.
Blind spot  Meaning. Whether hashtags and outbreaks belong together, as they do in the real thing.
"""

import importlib
import os
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace_datasets import tweets
from headrace_datasets.tweets import ODD_TEXTS, rate_shape

N = 200_000


@pytest.fixture(scope="module")
def table():
    return tweets(n=N, seed=11).to_arrow()


@pytest.fixture(scope="module")
def texts(table):
    return table["text"].to_pylist()


@pytest.fixture(scope="module")
def words(texts):
    return [text.split() for text in texts]


@pytest.fixture(scope="module")
def hashtags(words):
    return [[word for word in tweet if word[0] == "#" and len(word) > 1] for tweet in words]


def zipf_slope(counts: Counter, first: int, last: int, shift: float = 0.0) -> float:
    frequency = np.array(sorted(counts.values(), reverse=True)[first - 1 : last])
    rank = np.arange(first, last + 1) + shift
    return np.polyfit(np.log(rank), np.log(frequency), 1)[0]


def test_words_per_tweet(words):
    count = np.array([len(tweet) for tweet in words])
    assert count.mean() == pytest.approx(11, rel=0.1)
    assert count.std() == pytest.approx(6, rel=0.1)
    assert count.max() == 40


@pytest.mark.parametrize("distance, pairs", [(3, 27), (10, 61), (40, 73)])
def test_pairs_per_tweet(words, distance, pairs):
    # word j pairs with the min(j, distance) words before it
    per_count = np.cumsum(np.minimum(np.arange(41), distance)) - np.minimum(np.arange(41), distance)
    measured = np.mean([per_count[len(tweet)] for tweet in words])
    assert measured == pytest.approx(pairs, rel=0.1)


def test_words_follow_zipf_and_mandelbrot(words):
    plain = [word for tweet in words for word in tweet if word.isascii() and word.isalpha()]
    counts = Counter(plain)
    assert zipf_slope(counts, 1, 1_000, shift=2.7) == pytest.approx(-1, abs=0.1)
    assert counts.most_common(1)[0][1] / len(plain) == pytest.approx(0.96 / 3.7 / 8.9, rel=0.1)
    assert np.mean([len(word) for word in plain]) == pytest.approx(4.55, rel=0.1)
    assert len(counts) > 20_000  # the vocabulary, and words never seen before


def test_hashtags_per_tweet(hashtags):
    count = np.bincount([len(tags) for tags in hashtags], minlength=5)
    share = np.append(count[:4], count[4:].sum()) / N
    assert share == pytest.approx([0.78, 0.12, 0.05, 0.025, 0.025], rel=0.1)


def test_hashtags_follow_zipf_and_heaps(hashtags):
    flat = [tag for tags in hashtags for tag in tags]
    assert zipf_slope(Counter(flat), 1, 500) == pytest.approx(-1.05, abs=0.1)
    # new ones keep coming, ever more slowly: about n ** 0.7
    distinct = [len(set(flat[:n])) for n in (1_000, 10_000, 80_000)]
    growth = np.polyfit(np.log([1_000, 10_000, 80_000]), np.log(distinct), 1)[0]
    assert growth == pytest.approx(0.75, abs=0.1)


def test_a_hashtag_may_occur_twice_in_a_tweet(hashtags):
    assert np.mean([len(set(tags)) < len(tags) for tags in hashtags]) == pytest.approx(0.02, rel=0.15)


def test_some_hashtags_trend(table, hashtags):
    """Some hashtag is ten times as frequent in one quarter of an hour as in all the stream."""
    minute = (table["ts"].cast(pa.int64()).to_numpy() - table["ts"][0].value) // 60_000_000
    overall = Counter(tag for tags in hashtags for tag in tags)
    total = sum(overall.values())
    best = 0.0
    for quarter in range(int(minute[-1]) // 15):
        begin, end = np.searchsorted(minute, (15 * quarter, 15 * quarter + 15))
        here = Counter(tag for tags in hashtags[begin:end] for tag in tags)
        for tag, count in here.items():
            if count >= 30:
                best = max(best, count / sum(here.values()) / (overall[tag] / total))
    assert best > 10


def test_users_follow_zipf(table):
    users = Counter(table["user"].to_pylist())
    assert zipf_slope(users, 1, 1_000) == pytest.approx(-0.8, abs=0.1)
    assert all(user[0] == "u" and user[1:].isdigit() for user in users)


def test_oddities(texts):
    assert np.mean([text == "" for text in texts]) == pytest.approx(0.01, rel=0.15)
    assert np.mean([not text.isascii() for text in texts]) == pytest.approx(0.03, rel=0.15)
    assert np.mean([text == "#" * 280 for text in texts]) == pytest.approx(0.001, rel=0.25)
    assert set(ODD_TEXTS) <= set(texts)
    assert max(map(len, texts)) == 280


def test_text_is_cut_in_code_points(monkeypatch, texts):
    """Nearly no tweet reaches 280; with a limit of 50 half of them do, and some are cut beside an emoji."""
    monkeypatch.setattr(importlib.import_module("headrace_datasets.tweets"), "LONGEST_TEXT", 50)
    cut = tweets(n=20_000, seed=11).to_arrow()["text"].to_pylist()
    assert cut == [text[:50] for text in texts[:20_000]]
    assert any(len(text) == 50 and not text[49].isascii() for text in cut)


def test_event_times_are_milliseconds_and_repeat(table):
    ts = table["ts"].cast(pa.int64()).to_numpy()
    assert (ts % 1_000 == 0).all()
    assert 0.01 < (np.diff(ts) == 0).mean() < 0.5


# -- rate --------------------------------------------------------------------------------------------------

# mean 1; quantiles 1, 10, 50, 90, 99 % of 15,902 five-minute counts
MEASURED = [0.105, 0.222, 0.549, 1.48, 7.64]


@pytest.fixture(scope="module")
def five_minutes():
    return np.concatenate(list(islice(rate_shape(1), 550))).reshape(-1, 5).mean(axis=1)


def test_rate_has_the_measured_shape(five_minutes):
    assert five_minutes.mean() == pytest.approx(1, rel=0.1)
    assert np.quantile(five_minutes, [0.01, 0.1, 0.5, 0.9, 0.99]) == pytest.approx(MEASURED, rel=0.2)
    assert five_minutes.std() == pytest.approx(3.75, rel=0.2)
    assert 100 < five_minutes.max() < 400  # 158 in ten times fewer


def test_rate_sets_the_number_of_rows():
    """Where the shape is the same, ten times the rate gives ten times the tweets."""
    slow, fast = (
        tweets(n=n, seed=2, rate=rate).to_arrow()["ts"] for n, rate in ((20_000, 3.0), (200_000, 30.0))
    )
    spans = [(ts[-1].value - ts[0].value) / 1e6 for ts in (slow, fast)]
    assert spans[0] == pytest.approx(spans[1], rel=0.05)


def test_rows_come_in_bursts():
    ts = tweets(n=400_000, seed=4).to_arrow()["ts"].cast(pa.int64()).to_numpy()
    per_minute = np.bincount((ts - ts[0]) // 60_000_000)
    assert per_minute.max() > 10 * np.median(per_minute)


def test_rate_agrees_with_real_counts(five_minutes):
    folder = os.environ.get("HEADRACE_DATA")
    path = Path(folder or ".", "nab_tweet_volume_5min.parquet")
    if not path.is_file():
        pytest.skip("needs nab_tweet_volume_5min.parquet in the folder that HEADRACE_DATA names")
    series = pq.read_table(path, filters=[("ticker", "=", "AAPL")])["value"].to_numpy()
    real, ours = np.sort(series / series.mean()), np.sort(five_minutes / five_minutes.mean())
    at = np.concatenate([real, ours])
    distance = np.abs(
        np.searchsorted(real, at, side="right") / len(real)
        - np.searchsorted(ours, at, side="right") / len(ours)
    ).max()
    assert distance < 0.05  # Kolmogorov and Smirnov
