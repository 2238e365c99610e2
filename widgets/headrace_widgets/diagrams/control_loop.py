"""From an observation to more threads: what a controller does, and what it leaves to the run."""

from __future__ import annotations

from headrace_widgets.diagrams.shapes import arrow, box, text
from headrace_widgets.diagrams.steps import Step, Steps

_PLACES = {
    "run": (250, 196, 180, 44), "observation": (20, 108, 150, 44), "controller": (20, 20, 150, 44),
    "request": (250, 20, 180, 44), "record": (510, 20, 150, 44), "epoch": (510, 108, 150, 44),
}  # fmt: skip
_NAMES = {
    "run": "the run, 1 thread", "observation": "observation", "controller": "controller",
    "request": "request: 2 threads", "record": "control record", "epoch": "epoch 1",
}  # fmt: skip
_ARROWS = (
    ("run", "observation", (248, 218, 95, 156)), ("observation", "controller", (95, 106, 95, 68)),
    ("controller", "request", (172, 42, 246, 42)), ("request", "record", (432, 42, 506, 42)),
    ("record", "epoch", (585, 66, 585, 104)), ("epoch", "run", (585, 156, 434, 218)),
)  # fmt: skip
_STEPS = (
    ("run", "A run has one thread, and the rate of its input rises. Nothing reacts yet."),
    ("observation",
        "The run is observed several times a second: how busy are the threads, how many tuples wait, and how fast does "
        "input come?",
    ),
    ("controller",
        "The controller compares the observation with its bounds. It has no clock and no threads of its own: it is a "
        "function that turns an observation into a wish, or into none.",
    ),
    ("request",
        "A wish that lasts becomes a request, here for two threads. Damping makes the wish wait, so that the number of "
        "threads does not flap.",
    ),
    ("record",
        "The run puts a control record into its stream, as it does for a change by hand. The controller's work is done.",
    ),
    ("epoch",
        "All threads switch at the record: epoch 1 begins, with two threads, and no state moves. The next observation "
        "shows the effect.",
    ),
)  # fmt: skip


def control_loop() -> Steps:
    """Draw the way from an observation to a change in the number of threads.

    Examples
    --------
    >>> from headrace_widgets import diagrams
    >>> len(diagrams.control_loop().steps)
    6
    """
    steps = [Step(_draw(i), said) for i, (_, said) in enumerate(_STEPS)]
    return Steps("Who changes the number of threads?", 256, steps)


def _draw(step):
    parts, names = [], list(_PLACES)
    reached = [name for name, _ in _STEPS[: step + 1]]
    for name in names:
        is_new = name == reached[-1]
        words = "the run, 2 threads" if name == "run" and step == len(_STEPS) - 1 else _NAMES[name]
        element = 0 if is_new else 4 if name in reached else None
        parts.append(box(*_PLACES[name], words, element, dashed=name not in reached, bold=is_new))
    for start, end, points in _ARROWS:
        if start in reached and (end in reached[1:] or (end == "run" and step == len(_STEPS) - 1)):
            parts.append(arrow(*points))
    parts.append(text(340, 128, "observe, decide, request, switch", "middle", soft=True))
    return "".join(parts)
