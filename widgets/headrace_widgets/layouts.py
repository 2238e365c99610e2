"""How the page is laid out: everything, on one screen, or for a lecture hall.

What else of the page a layout shows, the style sheet says, by the class `headrace-NAME`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Layout:
    """Which plots are shown, and how large.

    Parameters
    ----------
    name : str
    title : str
        On its button.
    about : str
        What it is for.
    panels : tuple of str
        Keys of panels, the most wanted first; empty: all of them.
    most, most_beside_tree : int
        How many of them; and beside the tree of a program's plan, which is the picture then.
    look : dict
        Of `LivePlot.look`.
    """

    name: str
    title: str
    about: str
    panels: tuple[str, ...] = ()
    most: int = 4
    most_beside_tree: int = 4
    look: dict[str, Any] = field(default_factory=dict)

    def choose(self, there: Sequence[str], has_tree: bool = False) -> list[str]:
        """Of the panels that are there, in their order, those to show.

        Examples
        --------
        >>> LAYOUTS["present"].choose(["load", "latency", "throughput", "lag", "threads"], has_tree=True)
        ['throughput', 'lag']
        """
        if not self.panels:
            return list(there)
        wanted = [key for key in self.panels if key in there]
        wanted += [key for key in there if key not in wanted]
        return [key for key in there if key in wanted[: self.most_beside_tree if has_tree else self.most]]


LAYOUTS = {
    layout.name: layout
    for layout in (
        Layout("full", "All", "All plots and controls"),
        Layout(
            "compact", "Compact", "Threads, load and key mapping on one screen",
            ("threads", "load", "imbalance", "throughput", "shares_of_time"), look={"height": 116, "most": 320, "ticks": 3},
        ),
        Layout(
            "present", "Present", "Four large plots, or the plan of a program and two, to be read from the last row",
            ("throughput", "lag", "threads", "load", "latency", "shares_of_time"), most_beside_tree=2,
            look={"height": 0, "font": 18, "line": 1.8, "ticks": 4},
        ),
    )
}  # fmt: skip
