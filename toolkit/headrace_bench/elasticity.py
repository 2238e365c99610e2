"""The picture at the top of README, from a real run: overload, the lag grows, a thread is added, the lag drains.

``python -m headrace_bench.elasticity FILE.svg``, a part of ``make pictures``. The rates follow from what one and two
threads sustain on this machine. The SVG stands alone and follows the viewer's light or dark colour scheme.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import headrace as hr
from headrace import lesson

CALM_S, OVERLOAD_S, AFTER_S = 4.0, 8.0, 14.0
"""Durations: at a rate that one thread sustains; at one that it does not sustain; then with two threads."""
CALM = 0.75
"""The calm rate, as a share of what one thread sustains."""
EVERY_S = 0.25
WORTH_IT = 1.4
"""Two threads that sustain less than this multiple of one thread's rate have no second core."""


@dataclass(frozen=True)
class Recorded:
    """Measurements of the run, one entry for each interval, and when the thread was added."""

    seconds: list[float]
    offered: list[float]
    processed: list[float]
    behind_s: list[float]
    added_at_s: float
    took_ms: float
    capacities: tuple[float, float]


def record() -> Recorded:
    """Play the stream and add a thread while it is overloaded."""
    one, two = lesson.capacity(1), lesson.capacity(2)
    high = math.sqrt(one * max(one, two))
    rate = hr.rates.phases([(CALM_S, CALM * one), (math.inf, high)])
    query = lesson.scored(lesson.posts())
    with query.start(threads=1, max_threads=2, rate=rate, sample_every=EVERY_S, sink=hr.discard()) as run:
        while run.metrics().operators["score"].processed == 0:
            run.wait(0.01)
        run.wait(CALM_S + OVERLOAD_S)
        change = run.reconfigure(threads=2).wait(10)
        run.wait(AFTER_S)
        seen = run.history.to_pandas()
        added_at_s = run.history.seconds_of(change.completed_ns)
    return Recorded(
        *(seen[name].to_list() for name in ("seconds", "rate", "tuples_per_s", "lag_s")),
        added_at_s=added_at_s,
        took_ms=change.ms,
        capacities=(one, two),
    )


# -- drawing

WIDTH, HEIGHT = 860, 374
LEFT, RIGHT = 66, 24
STRIPS = {"posts": (92, 110), "lag": (240, 80)}
"""Name of each strip -> its top and height."""
_STYLE = """
svg { --card: #ffffff; --text: #24292f; --soft: #6e7781; --line: #d0d7de; --done: #0060a8; --lag: #c2500a; }
@media (prefers-color-scheme: dark) {
  svg { --card: #0d1117; --text: #e6edf3; --soft: #9198a1; --line: #3d444d; --done: #58a6ff; --lag: #f0883e; }
}
text { font: 14px system-ui, sans-serif; fill: var(--text); }
.soft { fill: var(--soft); }
.title { font-size: 17px; font-weight: 600; }
.grid { stroke: var(--line); }
.due { stroke: var(--soft); stroke-width: 2; stroke-dasharray: 6 4; fill: none; }
.done { stroke: var(--done); stroke-width: 2.5; fill: none; }
.done-text { fill: var(--done); font-weight: 600; }
.lag { stroke: var(--lag); stroke-width: 2.5; fill: var(--lag); fill-opacity: .22; }
.lag-text { fill: var(--lag); font-weight: 600; }
.mark { stroke: var(--text); stroke-width: 2; }
"""


def draw(recorded: Recorded, note: str) -> str:
    """Draw the run as SVG: posts per second at the top, the lag below."""
    end = recorded.seconds[-1]
    top_rate = _round_up(max(*recorded.offered, *recorded.processed) * 1.05)
    top_lag = _round_up(max(recorded.behind_s) * 1.05)
    plus = _x(recorded.added_at_s, end)
    parts = [
        _text(LEFT, 28, "A thread is added while the stream runs", "title"),
        *_axis("posts", top_rate),
        *_axis("lag", top_lag),
        _path("due", "posts", recorded.seconds, recorded.offered, end, top_rate, is_step=True),
        _path("done", "posts", recorded.seconds, recorded.processed, end, top_rate),
        _path("lag", "lag", recorded.seconds, recorded.behind_s, end, top_lag, is_area=True),
        _text(LEFT, STRIPS["posts"][0] - 10, "posts a second: due (dashed), and done", "done-text"),
        _text(LEFT, STRIPS["lag"][0] - 10, "lag: how long posts wait, in seconds", "lag-text"),
        f'<line class="mark" x1="{plus:.1f}" x2="{plus:.1f}" y1="44" y2="{_bottom("lag")}"/>',
        _text(plus + 8, 56, f"run.reconfigure(threads=2): {recorded.took_ms:.1f} ms, no state is moved"),
        *(
            _text(_x(at, end), _bottom("lag") + 20, f"{at} s" if at else "0", "soft", "middle")
            for at in range(0, int(end) + 1, 5)
        ),
        _text(LEFT, HEIGHT - 12, note, "soft"),
    ]
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img">\n'
        f"<title>Posts per second and lag of a stream to which a thread is added</title>\n<style>{_STYLE}</style>\n"
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="var(--card)"/>\n{body}\n</svg>\n'
    )


def _x(seconds: float, end: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * seconds / end


def _y(strip: str, value: float, most: float) -> float:
    top, height = STRIPS[strip]
    return top + height * (1 - value / most)


def _bottom(strip: str) -> int:
    return sum(STRIPS[strip])


def _axis(strip: str, most: float) -> list[str]:
    parts = []
    for value in (0.0, most / 2, most):
        y = _y(strip, value, most)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(LEFT - 8, y + 5, f"{value:,.4g}" if most < 100 else f"{value:,.0f}", "soft", "end"))
    return parts


def _path(
    kind: str,
    strip: str,
    seconds: Sequence[float],
    values: Sequence[float],
    end: float,
    most: float,
    is_step: bool = False,
    is_area: bool = False,
) -> str:
    points = [(_x(at, end), _y(strip, value, most)) for at, value in zip(seconds, values, strict=True)]
    if is_step:
        points = [p for (x, y), (_, before) in zip(points, points[:1] + points, strict=False) for p in ((x, before), (x, y))]
    if is_area:
        points = [(points[0][0], float(_bottom(strip))), *points, (points[-1][0], float(_bottom(strip)))]
    return f'<path class="{kind}" d="M' + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + '"/>'


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _round_up(value: float) -> float:
    """Round up to 1, 2, 3, 4, 5, 6, 8 or 10 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return power * next(step for step in (1, 2, 3, 4, 5, 6, 8, 10) if step * power >= value)


def main(path: str) -> int:
    """Record and draw. Returns 1, and draws nothing, if no second core was free for the second thread."""
    recorded = record()
    one, two = recorded.capacities
    if two < WORTH_IT * one:
        print(f"no picture: two threads took {two:,.0f} posts/s, one {one:,.0f}; is the machine busy?", file=sys.stderr)
        return 1
    note = f"A recorded run on {os.cpu_count()} cores, {time.strftime('%d %B %Y').lstrip('0')}; made by make pictures."
    Path(path).write_text(draw(recorded, note))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
