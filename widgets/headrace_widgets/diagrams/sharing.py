"""How threads share one state without locks: each thread reads every tuple, and writes only the keys it owns."""

from __future__ import annotations

from headrace_widgets.diagrams.shapes import arrow, box, pointer, text
from headrace_widgets.diagrams.steps import Step, Steps

KEYS = {"EWR": 0, "JFK": 1, "LGA": 1}
"""The key mapping: which thread owns which key."""
STREAM = ("EWR", "JFK", "EWR", "LGA", "JFK", "EWR")
_LEFT, _CELL = 130, 84

# How many tuples each thread has read, and the caption.
STEPS = (
    ((0, 0),
        "Six flights lie in one buffer, in event-time order. Thread 0 owns the key EWR, thread 1 owns JFK and LGA. "
        "Neither thread has read anything yet.",
    ),
    ((1, 1), "Both threads read the first flight. EWR belongs to thread 0, which counts the flight. Thread 1 skips it."),
    ((2, 2), "Both read the second flight. JFK belongs to thread 1: now thread 1 counts and thread 0 skips."),
    ((2, 5),
        "Neither thread waits for the other. Thread 1 has read five flights, thread 0 only two: the third, from EWR, "
        "is not counted yet.",
    ),
    ((6, 6),
        "In the end each thread has read every flight, and each key was updated by its owner, in the order of the "
        "buffer. No two threads ever wrote the same cell, so no lock was needed.",
    ),
    ((6, 6),
        "When the window ends, each thread emits the results of its keys. They are sorted by time and key: EWR 3, JFK "
        "2, LGA 1, whichever thread was faster.",
    ),
)  # fmt: skip


def sharing() -> Steps:
    """Draw two threads that read one buffer and update one state.

    Examples
    --------
    >>> from headrace_widgets import diagrams
    >>> diagrams.sharing().title
    'How do threads share one state without locks?'
    """
    last = len(STEPS) - 1
    steps = [Step(_draw(read, i == last), said) for i, (read, said) in enumerate(STEPS)]
    return Steps("How do threads share one state without locks?", 290, steps)


def _draw(read, emitted):
    parts = [text(20, 40, "one buffer", bold=True)]
    for place, key in enumerate(STREAM):
        parts.append(box(_LEFT + _CELL * place, 24, _CELL - 8, 32, key))
    together = read[0] == read[1]
    for thread, count in enumerate(read):
        x = _LEFT + _CELL * count - _CELL / 2 - 4 if count else _LEFT - 22
        x += (thread - 0.5) * (74 if count else 0) * together
        parts.append(pointer(x, 62 + 40 * (together and not count) * thread, f"thread {thread}", thread))
    parts += [text(20, 170, "one state", bold=True), text(20, 188, "count of each key", soft=True)]
    for place, (key, owner) in enumerate(KEYS.items()):
        x = 170 + 170 * place
        count = sum(seen == key for seen in STREAM[: read[owner]])
        parts.append(box(x, 150, 130, 44, f"{key}: {count}", owner, bold=True))
        parts.append(text(x + 65, 208, f"owner: thread {owner}", "middle", soft=True))
        if read[owner] and STREAM[read[owner] - 1] == key and not emitted:
            start = _LEFT + _CELL * (read[owner] - 0.5) - 4 + (owner - 0.5) * 74 * together
            parts.append(arrow(start, 96, x + 65, 146, owner))
        if emitted:
            parts += [arrow(x + 65, 220, x + 65, 242, owner), box(x + 15, 244, 100, 32, f"{key} {count}", owner)]
    if emitted:
        parts.append(text(20, 260, "results, in order", bold=True))
    return "".join(parts)
