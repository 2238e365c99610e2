"""What an epoch is, and why no state moves: all threads switch at the same place in the stream."""

from __future__ import annotations

from headrace_widgets.diagrams.shapes import box, diamond, dot, pointer, text
from headrace_widgets.diagrams.steps import Step, Steps

STREAM = ("a", "c", "b", "d", "a", "b", "d", "c")
BEFORE, AFTER = {"a": 0, "b": 0, "c": 1, "d": 1}, {"a": 0, "b": 2, "c": 2, "d": 1}
CUT = 4  # tuples before the control record
_LEFT, _CELL = 130, 58

# Tuples read by threads 0, 1, 2 (None: does not take part), whether the record is in the stream, the epoch, the caption.
STEPS = (
    ((3, 1, None), False, 0,
        "Epoch 0. Two threads read the stream; thread 0 owns the keys a and b, thread 1 owns c and d. Three threads "
        "are requested.",
    ),
    ((3, 1, None), True, 0,
        "The request becomes a control record in the stream itself: the diamond. It says which thread owns which key "
        "from there on. Every tuple before it is still processed under the old mapping.",
    ),
    ((4, 2, None), True, 0,
        "Thread 0 has reached the record and waits there, at a barrier. Thread 1 is behind; it goes on with the old "
        "mapping, so no tuple is skipped.",
    ),
    ((4, 4, None), True, 0,
        "Thread 1 arrives last. Now all threads have processed every tuple before the record. The last thread to "
        "arrive puts the new mapping in force.",
    ),
    ((4, 4, 4), True, 1,
        "Epoch 1. Thread 2 joins, at the record. The keys b and c have a new owner; their counts stay in the cells "
        "where they are. No state moves, since all threads can reach all of it.",
    ),
    ((6, 8, 8), True, 1,
        "All threads go on, each at its own pace. Each key had exactly one owner at each place in the stream, so the "
        "result is the same as without the change.",
    ),
)  # fmt: skip


def reconfiguration() -> Steps:
    """Draw how two threads become three.

    Examples
    --------
    >>> from headrace_widgets import diagrams
    >>> "No state moves" in diagrams.reconfiguration().steps[4].caption
    True
    """
    return Steps("What is an epoch, and why does no state move?", 270, [Step(_draw(*step[:3]), step[3]) for step in STEPS])


def _x_of(place):
    """Return the left edge of a tuple's cell; room is left for the control record."""
    return _LEFT + _CELL * place + (36 if place >= CUT else 0)


def _draw(read, placed, epoch):
    parts = [text(20, 46, "one buffer", bold=True)]
    for place, key in enumerate(STREAM):
        parts.append(box(_x_of(place), 30, _CELL - 8, 32, key))
    at_record = _x_of(CUT) - 22
    if placed:
        parts += [diamond(at_record, 46), text(at_record, 14, "control record", "middle", soft=True)]
        parts.append(text(_LEFT, 14, "epoch 0", soft=True))
        parts.append(text(_x_of(len(STREAM)) - 8, 14, "epoch 1", "end", soft=True))
    places: dict[float, int] = {}
    for thread, count in enumerate(read):
        if count is None:
            continue
        waits = placed and count == CUT
        x = at_record if waits else _x_of(count - 1) + (_CELL - 8) / 2
        below, places[x] = places.get(x, 0), places.get(x, 0) + 1
        if below:
            parts += [text(x, 90 + 18 * below, f"thread {thread}", "middle", bold=True), dot(x - 44, 90 + 18 * below, thread)]
        else:
            parts.append(pointer(x, 68, f"thread {thread}", thread))
    owners = BEFORE if epoch == 0 else AFTER
    parts += [text(20, 186, "one state", bold=True), text(20, 204, "count of each key", soft=True)]
    for place, (key, owner) in enumerate(owners.items()):
        x = 170 + 122 * place
        # The old owner counts up to the record, the new one from there on; what was counted stays.
        count = sum(seen == key for seen in STREAM[: min(read[BEFORE[key]], CUT)])
        count += sum(seen == key for seen in STREAM[CUT : read[owner]]) if epoch else 0
        parts.append(box(x, 164, 100, 44, f"{key}: {count}", owner, bold=True))
        parts.append(text(x + 50, 222, f"thread {owner}", "middle", bold=epoch == 1 and owner != BEFORE[key]))
    parts.append(text(20, 252, f"in force: epoch {epoch}, {2 + epoch} threads", soft=True))
    return "".join(parts)
