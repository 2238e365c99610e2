"""Shared-nothing (SN) beside virtual shared-nothing (VSN): a tuple with two keys, and a key that moves."""

from __future__ import annotations

from headrace_widgets.diagrams.shapes import arrow, box, line, text
from headrace_widgets.diagrams.steps import Step, Steps

_RIGHT = 350
_STEPS = (
    "A post with two hashtags has two keys, red and blue. Thread 0 owns red, thread 1 owns blue. Left: "
    "shared-nothing (SN). Right: virtual shared-nothing (VSN).",
    "Under SN each thread has a queue of its own, so the post must be copied, once for each key, and the copies routed "
    "to the queues. Under VSN it is written once, into the buffer that all threads read.",
    "Each thread updates its keys. Under SN the state is private: red lies in thread 0's memory, blue in thread "
    "1's. Under VSN there is one state, and each cell has one owner.",
    "Now red is given to thread 1. Under SN its state is packed, sent and unpacked, and the tuples of red wait "
    "meanwhile: the more state, the longer. Under VSN only the owner changes; the cell stays where it is.",
)  # fmt: skip


def copies() -> Steps:
    """Draw the two ways to give a tuple with several keys to several threads.

    Examples
    --------
    >>> from headrace_widgets import diagrams
    >>> len(diagrams.copies().steps)
    4
    """
    steps = [Step(_shared_nothing(i) + _virtual(i), said) for i, said in enumerate(_STEPS)]
    return Steps("Copy for each thread, or share?", 300, steps)


def _shared_nothing(step):
    parts = [text(165, 14, "SN: shared-nothing", "middle", bold=True), box(105, 32, 120, 32, "#red #blue")]
    for thread, key in enumerate(("red", "blue")):
        x = 20 + 160 * thread
        parts.append(box(x, 110, 130, 32, "", thread, dashed=True))
        parts.append(text(x + 65, 98, f"queue of thread {thread}", "middle", soft=True))
        if step >= 1:
            parts += [box(x + 25, 113, 80, 26, f"copy: {key}", thread), arrow(165, 66, x + 65, 88)]
        parts.append(box(x, 186, 130, 84, "", thread, dashed=True))
        parts.append(text(x + 65, 284, f"thread {thread}'s own state", "middle", soft=True))
        if step >= 2 and not (step == 3 and thread == 0):
            parts.append(box(x + 25, 194, 80, 30, f"{key}: 1", thread))
            parts.append(arrow(x + 65, 144, x + 65, 184, thread) if step == 2 else "")
    if step == 3:
        parts += [box(45, 194, 80, 30, "red: 1", 0, dashed=True), box(205, 234, 80, 30, "red: 1", 1), arrow(128, 216, 200, 246)]
        parts.append(text(165, 170, "state moves", "middle", bold=True))
    return "".join(parts) + line(_RIGHT - 10, 20, _RIGHT - 10, 286, dashed=True)


def _virtual(step):
    middle = _RIGHT + 165
    parts = [text(middle, 14, "VSN: virtual shared-nothing", "middle", bold=True)]
    parts.append(box(middle - 60, 32, 120, 32, "#red #blue"))
    parts += [box(_RIGHT + 20, 110, 290, 32, "", dashed=True), text(_RIGHT + 70, 98, "one buffer", "middle", soft=True)]
    if step >= 1:
        parts += [box(middle - 60, 113, 120, 26, "#red #blue"), arrow(middle, 66, middle, 108)]
    parts += [box(_RIGHT + 20, 186, 290, 84, "", dashed=True), text(middle, 284, "one state", "middle", soft=True)]
    if step >= 2:
        owners = (1 if step == 3 else 0, 1)
        for place, (key, owner) in enumerate(zip(("red", "blue"), owners, strict=True)):
            x = _RIGHT + 60 + 130 * place
            parts += [box(x, 194, 80, 30, f"{key}: 1", owner), text(x + 40, 242, f"thread {owner}", "middle")]
            parts.append(arrow(middle - 30 + 60 * place, 144, x + 40, 190, owner) if step == 2 else "")
    if step == 3:
        parts.append(text(middle, 170, "only the owner changes", "middle", bold=True))
    return "".join(parts)
