"""Reports of runs as one HTML file that needs no network: tables, and plots by Bokeh.

==========  ================================================================
``record``  a finished run, and its figures as text
``plots``   its plots, over the same time axis and with the same markers
``page``    the file: tables of figures and of changes, and the plots
==========  ================================================================
"""

from headrace.report.page import STYLE, about, write_html
from headrace.report.record import Record, describe, figures_of

__all__ = ["STYLE", "Record", "about", "describe", "figures_of", "write_html"]
