"""Property    a figure is one output, with its script; nothing that the figure says ends the script
Cannot see  the page: tests/browser/test_still.py
"""

import json
import re

from bokeh.layouts import column
from bokeh.plotting import figure

from headrace_widgets.still import output_of


def test_example_one_output_with_a_place_of_its_own():
    plot = figure(title="</script><script>alert(1)</script>", width=300, height=200)
    plot.line([1, 2], [3, 4])
    layout = column(plot)
    first, again = (output_of(layout)["text/html"] for _ in range(2))
    assert first.count("<script>") == first.count("</script>") == 1
    item = json.loads(re.search(r"const item = (.*);\n", first)[1])
    assert "</script><script>alert(1)</script>" in json.dumps(item)
    place = re.match(r'<div id="([\w-]+)"></div>', first)[1]
    assert item["target_id"] == place and place not in again


def test_example_a_legend_above_a_plot_takes_a_line_of_it():
    plot = figure(width=300, height=200)
    plot.line([1, 2], [3, 4], legend_label="a")
    plot.add_layout(plot.legend[0], "above")
    plot.legend.orientation = "horizontal"
    output_of(column(plot))
    assert (plot.legend.padding, plot.legend.margin, plot.legend.spacing) == (0, 2, 12)


def test_example_rows_of_a_legend_stay_close():
    plot = figure(width=300, height=200)
    plot.line([1, 2], [3, 4], legend_label="a")
    plot.legend.update(orientation="horizontal", ncols=2, spacing=2)
    output_of(plot)
    assert plot.legend.spacing == 2
