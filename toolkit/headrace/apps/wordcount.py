"""wordcount: how many tuples contain each word (STRETCH, Operator 14; query Q1).

f_MK = the words of the text, as ``str.split()`` has them, each once; S = a count; f_U adds one.
"""

import headrace as hr
from headrace.apps.app import TIME, App
from headrace.reference import apps as reference


def build(posts: hr.Stream, size: str, advance: str) -> hr.Stream:
    return posts.key_by(word=hr.words("text")).window(size, advance).aggregate(count=hr.count())


APP = App(
    name="wordcount",
    help="count the tuples that contain each word",
    left=(TIME, ("text", "text")),
    build=build,
    reference=reference.wordcount,
    size="120s",
    advance="60s",
)
