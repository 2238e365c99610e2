"""The layouts of the page: everything, one screen, or for a lecture hall.

The style sheet determines which other parts of the page a layout shows, by the class `headrace-NAME`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Layout:
    """A layout: which plots are shown, and how large.

    Parameters
    ----------
    name : str
    title : str
        Text of its button.
    about : str
        Its purpose.
    panels : tuple of str
        Keys of panels, the most wanted first; empty: all of them.
    most, most_beside_tree : int
        Maximum number of them, alone and beside the tree of a program's plan.
    look : dict
        For `LivePlot.look`.
    """

    name: str
    title: str
    about: str
    panels: tuple[str, ...] = ()
    most: int = 4
    most_beside_tree: int = 4
    look: dict[str, Any] = field(default_factory=dict)

    def choose(self, there: Sequence[str], has_tree: bool = False) -> list[str]:
        """Return the panels to show, of those that exist, in their order.

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
            ("threads", "load", "imbalance", "throughput", "shares_of_time"), look={"height": 116, "most": 480, "ticks": 3},
        ),
        Layout(
            "present", "Present", "Four large plots, or the plan of a program and two, to be read from the last row",
            ("throughput", "lag", "threads", "load", "latency", "shares_of_time"), most_beside_tree=2,
            look={"height": 0, "font": 18, "line": 1.8, "ticks": 4},
        ),
    )
}  # fmt: skip
