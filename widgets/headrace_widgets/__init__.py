"""The dashboard: watch a run of any engine and steer it from a notebook.

What is shown follows from the measures and controls that the operators of the run declare.

    columns  table  heat  feed measures and counters -> columns of numbers, counts of durations over time
    panels                     one file per plot; `lines` and `quantiles` draw any measure; `hover` serves all of them
    figures  markers  plots    all plots of an operator
    text_measures  units       text measures; numbers with units
    numbers_row                measures that are read rather than watched, in a row
    pressure                   lag, backlog, back-pressure, the bottleneck in a sentence
    graph  graph_widget        the operators of the run as a picture; its widget
    plan_panel  plan_tree      the tree of a program's plan: who owns what, and who waits for whom
    timeline  hot_keys         recent activity of each thread; the keys behind hot buckets
    page_model                 what a module on the page shows, received also while the page is busy
    live_plot  palette         Bokeh figures in a widget of their own; colours
    target  messages           what is steered; messages about it
    controls                   one file per kind of control, and the rate
    bucket_groups  mapping_panel   the heat map; a draft of the key mapping
    controller_panel           policies and their decisions
    changes_table  replay      the reconfigurations of a run; repeating them on another run
    history_controls  saved_page   pause, scrub; one HTML file to keep
    status                     state of the run, correctness badge
    layouts                    which plots, and how large: everything, one screen, a lecture hall
    operator_view              all of this, for one operator
    turns  watchdog  cells     parts that are updated in turns; no page open; the cell is run again
    connection                 whether the kernel listens, and what the page says if not
    live_view                  what keeps a view alive: its thread, its cell, its end
    dashboard                  puts it together
    pair  side_by_side         two runs steered as one; both drawn
    still  diagrams            Bokeh plots of a notebook itself; drawings of how the engines work
    serve                      the dashboard alone, as a page

Of a run it reads only `headrace.metrics` and public names.
"""

from headrace_widgets.dashboard import Dashboard
from headrace_widgets.replay import replay
from headrace_widgets.side_by_side import side_by_side
from headrace_widgets.still import show

__all__ = ["Dashboard", "replay", "show", "side_by_side"]
