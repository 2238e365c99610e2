"""The few shapes the drawings are made of, as SVG text.

Colours of threads and sources are those of the dashboard, as a pale fill with a strong edge, which is legible on a
light and on a dark page. Ink and paper follow JupyterLab's theme, and are black on white elsewhere.
"""

from __future__ import annotations

from html import escape

from headrace_widgets.palette import element_colour

WIDTH = 680
"""Width of every drawing, in its own units; on the page it takes the width that there is."""

STYLE = """
.hrd-ink{fill:var(--jp-content-font-color1,#1a1a1a)}
.hrd-edge{stroke:var(--jp-content-font-color1,#1a1a1a);fill:none;stroke-width:1.5}
.hrd-paper{fill:var(--jp-layout-color0,#fff)}
.hrd-t{font-family:system-ui,sans-serif;font-size:14px}
.hrd-soft{opacity:.72}
""".strip()


def text(
    x: float, y: float, words: object, anchor: str = "start", *, bold: bool = False, soft: bool = False
) -> str:
    """Write words; `y` is the middle of their height."""
    weight = ' font-weight="600"' if bold else ""
    kind = "hrd-t hrd-ink hrd-soft" if soft else "hrd-t hrd-ink"
    return f'<text class="{kind}" x="{x:g}" y="{y + 5:g}" text-anchor="{anchor}"{weight}>{escape(str(words))}</text>'


def box(
    x: float, y: float, width: float, height: float, words: object = "", element: int | None = None,
    *, dashed: bool = False, bold: bool = False,
) -> str:  # fmt: skip
    """Draw a box with words in its middle, in the colour of a thread or source, or in ink."""
    colour = (
        'class="hrd-edge"'
        if element is None
        else f'fill="{element_colour(element)}" fill-opacity=".24" stroke="{element_colour(element)}" stroke-width="2"'
    )
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    drawn = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" {colour}{dash}/>'
    return drawn + (text(x + width / 2, y + height / 2, words, "middle", bold=bold) if words != "" else "")


def disc(x: float, y: float, words: object, element: int, *, hollow: bool = False) -> str:
    """Draw a tuple: a disc in the colour of its source; hollow while it waits."""
    colour = element_colour(element)
    edge = f'stroke="{colour}" stroke-width="2"' + (' stroke-dasharray="4 3"' if hollow else "")
    fill = 'fill="none"' if hollow else f'fill="{colour}" fill-opacity=".24"'
    return f'<circle cx="{x:g}" cy="{y:g}" r="14" {fill} {edge}/>' + text(x, y, words, "middle")


def diamond(x: float, y: float) -> str:
    """Draw a control record."""
    return f'<path class="hrd-ink" d="M{x:g} {y - 13:g}l11 13l-11 13l-11 -13z"/>'


def dot(x: float, y: float, element: int) -> str:
    """Draw a small mark in the colour of a thread, beside its name."""
    return f'<circle cx="{x:g}" cy="{y:g}" r="5" fill="{element_colour(element)}"/>'


def pointer(x: float, y: float, words: object, element: int) -> str:
    """Draw a thread below the tuple it is at: a triangle that points up, and the thread's name."""
    colour = element_colour(element)
    drawn = f'<path d="M{x:g} {y:g}l8 12h-16z" fill="{colour}"/>'
    return drawn + text(x, y + 22, words, "middle", bold=True)


def line(
    x1: float, y1: float, x2: float, y2: float, element: int | None = None, *, dashed: bool = False
) -> str:
    """Draw a line."""
    colour = (
        'class="hrd-edge"' if element is None else f'stroke="{element_colour(element)}" stroke-width="2.5"'
    )
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" {colour}{dash}/>'


def arrow(
    x1: float, y1: float, x2: float, y2: float, element: int | None = None, *, dashed: bool = False
) -> str:
    """Draw a line with a head at its end."""
    length = max(1e-9, ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5)
    ux, uy = (x2 - x1) / length, (y2 - y1) / length
    left = (x2 - 10 * ux - 5 * uy, y2 - 10 * uy + 5 * ux)
    right = (x2 - 10 * ux + 5 * uy, y2 - 10 * uy - 5 * ux)
    fill = 'class="hrd-ink"' if element is None else f'fill="{element_colour(element)}"'
    head = f'<path d="M{x2:g} {y2:g}L{left[0]:.1f} {left[1]:.1f}L{right[0]:.1f} {right[1]:.1f}z" {fill}/>'
    return line(x1, y1, x2 - 8 * ux, y2 - 8 * uy, element, dashed=dashed) + head
