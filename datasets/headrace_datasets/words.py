"""Made-up words: pronounceable, distinct, the frequent ones short. They are the same in every stream.

No list of real words is shipped. What a benchmark of text needs from a language is its statistics: the
lengths of frequent and rare words, and how often each occurs (see `randomness.zipf`).
"""

import functools
import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

CONSONANTS = "ttttnnnnsssrrrhhldddlccmmfpgwbyvkjxqz"
VOWELS = "eeeeaaaoooiiiu"

LONGEST = 14
"""Characters of the longest word."""


@functools.lru_cache(maxsize=2)
def pseudo_words(count: int) -> pa.StringArray:
    """Return `count` distinct lower-case words, the most frequent first.

    Their lengths grow with the logarithm of the rank and scatter around it, such that 20,000 words have a
    mean length of 6.4, and of 4.5 when weighted by ``1 / (rank + 2.7)``, as a list of frequent English words has.
    """
    dice = random.Random(20_181_001)
    wanted = np.log(np.arange(count) + 1.5) * 0.51 + 1.6
    words: dict[str, None] = {}
    for typical in wanted.tolist():
        length = min(max(round(dice.gauss(typical, 1.5)), 1), LONGEST)
        tries = 0
        word = _word(dice, length)
        while word in words:
            tries += 1
            word = _word(dice, length + tries // 4)  # there are few short words, and they run out
        words[word] = None
    return pa.array(words, pa.string())


def _word(dice: random.Random, length: int) -> str:
    throw = dice.random  # `choice` would take most of the time of building a vocabulary
    vowel = throw() < 0.4
    letters = []
    for _ in range(length):
        alphabet = VOWELS if vowel else CONSONANTS
        letters.append(alphabet[int(throw() * len(alphabet))])
        vowel = not vowel
    return "".join(letters)


def compounds(words: pa.StringArray, count: int) -> pa.StringArray:
    """Return `count` distinct names made of two of the words, as ``oneTwo``."""
    number = np.arange(count)
    second, first = np.divmod(number, len(words))
    # the capital marks where the second word begins, so different pairs give different names
    return pc.binary_join_element_wise(
        words.take(pa.array(first)),
        pc.utf8_capitalize(words.take(pa.array((second + 7 * first + 1) % len(words)))),
        "",
    )


def random_letters(rng: np.random.Generator, lengths: NDArray[np.int32]) -> pa.StringArray:
    """Return one string of random letters for each of `lengths`."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    letters = rng.integers(ord("a"), ord("z"), int(offsets[-1]), dtype=np.uint8, endpoint=True)
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(letters))
