"""The made-up words: distinct, the same always, and as long as English ones.

Oracle      Lengths in a list of 10,000 frequent English words: mean 6.59, and 4.55 weighted by frequency.
Blind spot  Whether they please the ear.
"""

from itertools import pairwise

import numpy as np
import pytest

from headrace_datasets.randomness import stream, zipf
from headrace_datasets.words import compounds, pseudo_words, random_letters


def test_words_are_distinct_lower_case_and_short():
    words = pseudo_words(20_000).to_pylist()
    assert len(set(words)) == 20_000
    assert all(word.isascii() and word.isalpha() and word.islower() for word in words)
    lengths = np.array([len(word) for word in words])
    assert lengths.mean() == pytest.approx(6.59, rel=0.1)
    assert lengths @ zipf(20_000, 1.0, 2.7).probability == pytest.approx(4.55, rel=0.1)


def test_vowels_alternate_with_consonants():
    for word in pseudo_words(2_000).to_pylist():
        vowel = [letter in "aeiou" for letter in word]
        assert all(one != other for one, other in pairwise(vowel))


def test_fewer_words_are_the_first_of_more():
    assert pseudo_words(100).to_pylist() == pseudo_words(20_000).to_pylist()[:100]


def test_compounds_are_distinct():
    names = compounds(pseudo_words(500), 20_000).to_pylist()
    assert len(set(names)) == 20_000
    assert all(name.isalpha() and sum(letter.isupper() for letter in name) == 1 for name in names)


def test_random_letters_have_the_lengths_asked_for():
    lengths = np.array([3, 0, 7, 1], dtype=np.int32)
    strings = random_letters(stream(1), lengths)
    strings.validate(full=True)
    assert [len(text) for text in strings.to_pylist()] == lengths.tolist()
    assert random_letters(stream(1), lengths[:0]).to_pylist() == []
