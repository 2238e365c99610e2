"""paircount: how many tuples contain each ordered pair of nearby words (STRETCH, Operator 14; query Q1).

f_MK = the pairs (W[i], W[j]) with i < j and j - i <= distance, each once; a word may pair with
itself. With distance inf a tuple of n words has up to n(n-1)/2 keys: the heaviest multi-key of them.
"""

import headrace as hr
from headrace.apps.app import TIME, App, Option, read_whole
from headrace.reference import apps as reference

MOST_WORDS = 2**31 - 1


def build(posts: hr.Stream, size: str, advance: str, distance: float) -> hr.Stream:
    return posts.key_by(hr.pairs("text", distance)).window(size, advance).aggregate(count=hr.count())


def read_distance(text: str) -> float:
    if text.strip().lower() == "inf":
        return float("inf")
    distance = read_whole(text.strip(), MOST_WORDS)
    if distance is None:
        raise ValueError(f"give a whole number of words from 1 to {MOST_WORDS}, or inf")
    return distance


APP = App(
    name="paircount",
    help="count the tuples that contain each ordered pair of words",
    left=(TIME, ("text", "text")),
    build=build,
    reference=reference.paircount,
    size="120s",
    advance="60s",
    options=(Option("distance", 3, read_distance, "largest distance between the two words: 3, 10, inf (default 3)"),),
)
