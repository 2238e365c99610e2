"""Method: Spark's answer equals Python's, on batches of texts made of the characters where they could differ.

The definition is Python's own ``str.split()``; every code point that could be white space is tried. A text
with a lone surrogate is left out: it cannot be written as UTF-8, so Spark never holds one.
"""

import random

import pyarrow as pa
import pytest

from headrace.spark import hashtags, words

SPLITS = [chr(c) for c in range(0x110000) if chr(c).isspace()]
# Look like white space, or are to Java, to Unicode or to bytes.split(), and are none to str.split().
SPLITS_NOT = list("\u200b\u180e\ufeff\u2060\u200d\x00\x08\x0e\x1b\x7f\u0300")
LETTERS = [*"aZéß漢𝄞\U0010ffff'\\$[]&^-_.", "👩\u200d🚀"]


def python_hashtags(text):
    return [word[1:] for word in text.split() if word.startswith("#") and len(word) > 1]


def ask(spark, texts):
    frame = spark.createDataFrame(pa.table({"text": pa.array(texts, pa.string())}))
    answer = frame.select(words("text"), hashtags(frame.text)).toArrow()
    return answer["words"].to_pylist(), answer["hashtags"].to_pylist()


@pytest.mark.slow
def test_example_words_and_hashtags(spark):
    cases = [
        # text              words                 hashtags
        ("  two  words ", ["two", "words"], []),
        ("#tag", ["#tag"], ["tag"]),
        ("##tag", ["##tag"], ["#tag"]),
        ("a#b", ["a#b"], []),
        ("#", ["#"], []),
        ("# #", ["#", "#"], []),
        ("#a#b #a", ["#a#b", "#a"], ["a#b", "a"]),
        ("x\u3000#y\u00a0z", ["x", "#y", "z"], ["y"]),
        ("", [], []),
        (" ", [], []),
        (None, None, None),
    ]
    found, tags = ask(spark, [text for text, _, _ in cases])
    assert found == [expected for _, expected, _ in cases]
    assert tags == [expected for _, _, expected in cases]


def test_oracle_every_code_point(spark):
    """Each code point between two letters, and between a letter and a hashtag."""
    points = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and (c < 0x3100 or c % 97 == 0)]
    texts = [f"a{c}b{c}#c" for c in points] + SPLITS + SPLITS_NOT
    found, tags = ask(spark, texts)
    assert found == [text.split() for text in texts]
    assert tags == [python_hashtags(text) for text in texts]


def test_oracle_random_texts(spark):
    draw = random.Random(20)
    alphabet = SPLITS * 2 + SPLITS_NOT + LETTERS + ["#"] * 40 + [" "] * 10
    texts = ["".join(draw.choices(alphabet, k=draw.randrange(24))) for _ in range(20_000)]
    found, tags = ask(spark, texts)
    assert found == [text.split() for text in texts]
    assert tags == [python_hashtags(text) for text in texts]
    assert sum(map(len, tags)) > 10_000  # the drawing does reach what is tested
