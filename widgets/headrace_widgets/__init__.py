"""The dashboard room: watch a run and steer it from a notebook.

    table  feed                counters -> columns of numbers over time
    live_plot  palette         Bokeh figures in a widget of their own; colours
    panels  plots              one file per plot; all plots of an operator
    target  messages           what is steered; what is said about it
    controls                   threads, rate
    bucket_groups  mapping_panel   the heat map; a draft of the key mapping
    controller_panel           policies and their decisions
    changes_table  replay      what was reconfigured; making it again on another run
    history_controls  saved_page   pause, scrub; one HTML file to keep
    status                     state of the run, correctness badge
    watchdog  cells            nobody looks; the cell is run again
    dashboard                  puts it together and keeps it alive

It reads `headrace.counters` and the public methods of a run, nothing else.
"""

from headrace_widgets.dashboard import Dashboard
from headrace_widgets.replay import replay

__all__ = ["Dashboard", "replay"]
