"""Drawings of how the engine works, to step through in a notebook; for lessons, not for a run.

A drawing is a list of steps. A notebook shows one step at a time, by HTML and CSS alone, so that an exported page can be
stepped through as well, without a kernel and without a network. `python -m headrace_widgets.diagrams FOLDER` writes all
steps of each drawing as one SVG file, for viewers that show no cell outputs.

    gate             when a tuple is ready
    sharing          one buffer, one state, and a thread for each key
    copies           shared-nothing beside virtual shared-nothing
    reconfiguration  what an epoch is, and why no state moves
    control_loop     from an observation to more threads
    chains           one batch of transactions on two threads
    reorder_buffer   outputs come in any order and leave in the order of their inputs
    delegation       two threads at a partitioned stage, neither of which waits
    steps            a drawing in steps: as HTML, as one SVG
    shapes           boxes, marks, arrows, text
"""

from headrace_widgets.diagrams.chains import chains
from headrace_widgets.diagrams.control_loop import control_loop
from headrace_widgets.diagrams.copies import copies
from headrace_widgets.diagrams.delegation import delegation
from headrace_widgets.diagrams.gate import gate
from headrace_widgets.diagrams.reconfiguration import reconfiguration
from headrace_widgets.diagrams.reorder_buffer import reorder_buffer
from headrace_widgets.diagrams.sharing import sharing
from headrace_widgets.diagrams.steps import Step, Steps

ALL = {
    "gate": gate,
    "sharing": sharing,
    "copies": copies,
    "reconfiguration": reconfiguration,
    "control_loop": control_loop,
    "chains": chains,
    "reorder_buffer": reorder_buffer,
    "delegation": delegation,
}
"""The drawings that the lessons show, by the names of their files."""

__all__ = [
    "ALL",
    "Step",
    "Steps",
    "chains",
    "control_loop",
    "copies",
    "delegation",
    "gate",
    "reconfiguration",
    "reorder_buffer",
    "sharing",
]
