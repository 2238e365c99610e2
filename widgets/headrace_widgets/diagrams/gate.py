"""When a tuple is ready: sources deliver tuples, the gate hands them on in one order."""

from __future__ import annotations

from collections.abc import Sequence

from headrace_widgets.diagrams.shapes import WIDTH, arrow, box, disc, line, text
from headrace_widgets.diagrams.steps import Step, Steps

ARRIVALS = ((3, 0), (7, 0), (5, 1), (5, 1), (7, 1), (9, 0, "heartbeat"))
_LEFT, _LANE = 130, 64


def gate(arrivals: Sequence[tuple] = ARRIVALS, title: str = "When is a tuple ready?") -> Steps:
    """Draw what a gate passes on after each arrival.

    Parameters
    ----------
    arrivals : sequence of (time, source) or (time, source, "heartbeat")
        Sources are numbered from 0; the times of each source never fall. A heartbeat promises that nothing below its
        time follows from that source.
    title : str

    Returns
    -------
    Steps
        One for the start, and one for each arrival.

    Raises
    ------
    ValueError
        If a source's time falls.

    Examples
    --------
    >>> from headrace_widgets import diagrams
    >>> diagrams.gate([(5, 1), (3, 0), (7, 0)]).steps[-1].caption.partition(". ")[2]
    'Ready now, and handed on: 5 of source 1. The 7 of source 0 waits: source 1 may still deliver a time below 7.'
    """
    sources = 1 + max(source for _, source, *_ in arrivals)
    times = [time for time, *_ in arrivals]
    scale = (WIDTH - _LEFT - 70) / max(1, max(times) - min(times) + 1)
    state = _State(sources, lambda time: _LEFT + 34 + (time - min(times)) * scale)
    steps = [Step(state.draw(), "No source has delivered anything yet. Event time runs from left to right.")]
    for time, source, *kind in arrivals:
        said = state.heartbeat(time, source) if kind else state.add(time, source)
        steps.append(Step(state.draw(), said))
    return Steps(title, _LANE * sources + 120, steps)


class _State:
    """What the sources have delivered, what waits and what was handed on."""

    def __init__(self, sources, x_of):
        self.sources, self.x_of = sources, x_of
        self.watermarks: list[int | None] = [None] * sources
        self.brought: list[tuple[int, int, int]] = []  # (time, source, number within the source)
        self.delivered: list[tuple[int, int, int]] = []

    def add(self, time, source):
        self._move(time, source)
        self.brought.append((time, source, sum(s == source for _, s, _ in self.brought)))
        return f"Source {source} delivers {time}. {self._hand_on()}"

    def heartbeat(self, time, source):
        self._move(time, source)
        return (
            f"Source {source} sends a heartbeat: nothing below {time} will follow from it. {self._hand_on()}"
        )

    def _move(self, time, source):
        before = self.watermarks[source]
        if before is not None and time < before:
            raise ValueError(f"time {time} of source {source}: below {before}; a source's times must not fall")
        self.watermarks[source] = time

    def _waiting(self):
        return sorted(set(self.brought) - set(self.delivered))

    def _hand_on(self):
        silent = [source for source, watermark in enumerate(self.watermarks) if watermark is None]
        if silent:
            return f"Source {silent[0]} has delivered nothing yet and may deliver any time, so nothing is ready."
        bound = min((time, source) for source, time in enumerate(self.watermarks))
        ready = [each for each in self._waiting() if each[:2] <= bound]
        self.delivered += ready
        said = f"Ready now, and handed on: {_names(ready)}." if ready else "Nothing new is ready."
        rest = self._waiting()
        if rest:
            time, source, _ = rest[0]
            holder = bound[1]
            # At equal times the source with the smaller number comes first, so it must have moved past that time.
            may = (
                f"another {time}, which comes first"
                if bound[0] == time and holder < source
                else f"a time below {time}"
            )
            said += f" The {time} of source {source} waits: source {holder} may still deliver {may}."
        return said

    def draw(self):
        parts = [text(WIDTH - 20, 12, "event time →", "end", soft=True)]
        handed = set(self.delivered)
        bottom = 28 + _LANE * self.sources
        for source, watermark in enumerate(self.watermarks):
            y = 28 + _LANE * source + _LANE / 2
            parts += [text(20, y, f"source {source}", bold=True), line(_LEFT, y, WIDTH - 20, y)]
            at: dict[int, int] = {}
            for time, whose, number in self.brought:
                if whose != source:
                    continue
                beside, at[time] = at.get(time, 0), at.get(time, 0) + 1
                parts.append(f'<circle class="hrd-paper" cx="{self.x_of(time) + 25 * beside:g}" cy="{y:g}" r="14"/>')
                waits = (time, whose, number) not in handed
                parts.append(disc(self.x_of(time) + 25 * beside, y, time, source, hollow=waits))
            if watermark is not None:
                x = self.x_of(watermark)
                parts.append(line(x - 18, y - 24, x - 18, y + 24, source))
                parts.append(text(x - 12, y - 24, f"from {watermark} on", soft=True))
        y = bottom + 44
        parts.append(text(20, y - 9, "handed on,", bold=True))
        parts.append(text(20, y + 9, "to all threads", bold=True))
        parts.append(arrow(_LEFT, y, _LEFT + 24, y))
        for place, (time, source, _) in enumerate(self.delivered):
            parts.append(box(_LEFT + 34 + 42 * place, y - 16, 36, 32, time, source))
        parts.append(text(20, bottom + 82, "dashed: waits · filled: handed on · bar: the source's watermark", soft=True))
        return "".join(parts)


def _names(tuples):
    return ", then ".join(f"{time} of source {source}" for time, source, _ in tuples)
