"""Record which strings a state holds, so that their ids are not recycled (`headrace.ingress.ordered_texts`).

State       held[id]    the latest event time at which an instance's state holds the string; only grows while the id is live
Ordering    the load is relaxed, since compare_exchange decides: of several times the latest stays. Why a reader sees what it
            needs is in `ordered_texts`
Progress    A compare_exchange fails only if another instance has recorded a time meanwhile.
Checked     tests/headrace/elastic/test_texts.py
"""

from headrace.kernel import kernel
from headrace.memory.arena import COUNT, FIRST
from headrace.memory.atomics import compare_exchange, load_relaxed


@kernel
def hold_text(held, text, ts):
    """Record that a state holds this string at `ts`; instances ahead of this one may have recorded a later time."""
    while True:
        before = load_relaxed(held, text)
        if before >= ts or compare_exchange(held, text, before, ts):
            return


@kernel
def hold_words(held, words, first, step, count, ts):
    """Record that a state holds the strings of `count` words: the word at `first`, and every `step`-th one after it."""
    for i in range(count):
        hold_text(held, words[first + i * step], ts)


@kernel
def hold_entries(held, arena, heads, at, word, stride, ts):
    """Record that a state holds the strings in this word of each element or entry of a container."""
    hold_words(held, arena, heads[at + FIRST] + word, stride, heads[at + COUNT], ts)


__all__ = ["hold_entries", "hold_text", "hold_words"]
