"""longest: the longest text with each hashtag (STRETCH, Operator 9; the paper's running example).

f_MK = the hashtags of the text, each once; S = the longest length so far; f_U keeps the larger one;
f_O gives it. Lengths are code points of the whole text.
"""

import headrace as hr
from headrace.apps.app import TIME, App
from headrace.reference import apps as reference


def build(tweets: hr.Stream, size: str, advance: str) -> hr.Stream:
    measured = tweets.select("ts", "text", chars=hr.col("text").length())
    return measured.key_by(hashtag=hr.hashtags("text")).window(size, advance).aggregate(chars=hr.max("chars"))


APP = App(
    name="longest",
    help="find the longest text with each hashtag",
    left=(TIME, ("text", "text")),
    build=build,
    reference=reference.longest,
    size="1h",
    advance="30min",
)
