"""A drawing in steps: one at a time in a notebook, all of them in one SVG file."""

from __future__ import annotations

import textwrap
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from headrace_widgets.diagrams.shapes import STYLE, WIDTH, text

_LINE, _LETTERS = 20, 88
"""Height of a caption line in the SVG file, and how many letters fit into it."""

_DARK = "@media (prefers-color-scheme:dark){svg{--jp-content-font-color1:#e0e0e0;--jp-layout-color0:#111}}"
"""In the SVG file, which a page shows as an image: that has the scheme of its `<img>`, and nothing else of the page."""

_PAGE_STYLE = """
body[data-jp-theme-light=false] .jp-RenderedMarkdown img[src*=".svg"]{color-scheme:dark}
.jp-RenderedMarkdown details+p{margin-top:1em}
.hrd{max-width:860px;margin:4px 0 12px;padding:10px 14px;border:1px solid rgba(128,128,128,.5);border-radius:6px;
 background:var(--jp-layout-color0,#fff);color:var(--jp-content-font-color1,#1a1a1a);font:15px/1.45 system-ui,sans-serif}
.hrd>b{display:block;margin-bottom:4px}
.hrd label{cursor:pointer;white-space:nowrap;margin:0 8px 0 2px;font-size:15px}
.hrd input{cursor:pointer;margin:0 2px;vertical-align:middle}
.hrd section{display:none;margin-top:8px}
.hrd section svg{display:block;width:100%;height:auto}
.hrd section p{margin:6px 0 8px;min-height:4.2em}
.hrd nav{display:flex;gap:8px;align-items:center}
.hrd nav label,.hrd nav i{padding:3px 16px;border:1px solid rgba(128,128,128,.7);border-radius:4px;font-style:normal;margin:0}
.hrd nav label:hover{background:rgba(128,128,128,.2)}
.hrd nav i{opacity:.35}
@media print{.hrd section{display:block!important;break-inside:avoid}.hrd nav,.hrd>input,.hrd>label{display:none}}
"""


@dataclass(frozen=True)
class Step:
    """One picture and its caption.

    Parameters
    ----------
    drawing : str
        SVG elements, `shapes.WIDTH` wide.
    caption : str
        Says in words all that the picture shows: it is also the picture's alternative text.
    """

    drawing: str
    caption: str


@dataclass(frozen=True)
class Steps:
    """A drawing in steps. As the last value of a cell it is shown with *Prev*, *Next* and *all steps*.

    Parameters
    ----------
    title : str
    height : float
        Height of each picture.
    steps : sequence of Step

    Examples
    --------
    >>> from headrace_widgets import diagrams
    >>> drawing = diagrams.gate([(3, 0), (7, 0), (5, 1)])
    >>> len(drawing.steps), drawing.steps[-1].caption.split(".")[0]
    (4, 'Source 1 delivers 5')
    """

    title: str
    height: float
    steps: Sequence[Step]

    def _repr_html_(self) -> str:
        # The page itself does the stepping: a radio button for each step shows its section. So stepping works while
        # the kernel is busy, and in a page without a kernel.
        group, count = f"hrd-{uuid.uuid4().hex[:8]}", len(self.steps)
        names = [f"{group}-{number}" for number in range(1, count + 1)]
        shown = ",".join(
            f"#{name}:checked~div>section:nth-child({i})" for i, name in enumerate(names, start=1)
        )
        radio = f'<input type="radio" name="{group}" id="{{0}}"{{1}}/><label for="{{0}}">{{2}}</label>'
        first = ' checked="checked"'
        inputs = "".join(radio.format(name, first * (i == 1), i) for i, name in enumerate(names, start=1))
        every = radio.format(f"{group}-all", "", "all steps")
        sections = "".join(self._section(i, names) for i in range(count))
        # data-lm-suppress-shortcuts: arrow keys choose a step here, and do not move through JupyterLab's cells.
        return (
            f"<style>{STYLE}{_PAGE_STYLE}{shown},#{group}-all:checked~div>section{{display:block}}</style>"
            f'<div class="hrd" role="group" aria-label="{escape(self.title)}" data-lm-suppress-shortcuts="true">'
            f"<b>{escape(self.title)}</b>{inputs}{every}<div>{sections}</div></div>"
        )

    def _section(self, index: int, names: Sequence[str]) -> str:
        step, count = self.steps[index], len(self.steps)
        back = f'<label for="{names[index - 1]}">Prev</label>' if index else "<i>Prev</i>"
        on = f'<label for="{names[index + 1]}">Next</label>' if index + 1 < count else "<i>Next</i>"
        picture = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height:g}" role="img"'
            f' aria-label="{escape(f"{self.title}, step {index + 1} of {count}: {step.caption}")}">{step.drawing}</svg>'
        )
        nav = f"<nav>{back}{on}<span>step {index + 1} of {count}</span></nav>"
        return f"<section>{nav}{picture}<p>{escape(step.caption)}</p></section>"

    def to_svg(self) -> str:
        """Return all steps, one below the other, as one SVG document with its own background."""
        parts, y = [], 12.0
        for index, step in enumerate(self.steps, start=1):
            lines = textwrap.wrap(f"{index}. {step.caption}", _LETTERS)
            parts.append(f'<g transform="translate(0 {y:g})">{step.drawing}</g>')
            y += self.height + 8
            parts += [text(20, y + _LINE * i, words) for i, words in enumerate(lines)]
            y += _LINE * len(lines) + 12
            if index < len(self.steps):
                parts.append(
                    f'<line x1="20" y1="{y - 6:g}" x2="{WIDTH - 20}" y2="{y - 6:g}" stroke="#888" stroke-width="0.5"/>'
                )
        said = " ".join(f"{i}. {step.caption}" for i, step in enumerate(self.steps, start=1))
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:g}" width="{WIDTH}" height="{y:g}" role="img">'
            f"<title>{escape(self.title)}</title><desc>{escape(said)}</desc><style>{STYLE}{_DARK}</style>"
            f'<rect class="hrd-paper" width="100%" height="100%"/>{"".join(parts)}</svg>\n'
        )

    def save(self, path: str | Path) -> Path:
        """Write `to_svg` into a file, and return its path."""
        Path(path).write_text(self.to_svg(), encoding="utf-8")
        return Path(path)
