"""What every operator means: sequential, in plain Python. The specification and the oracle.

No kernel, no NumPy, no threads: dicts, lists, ints and floats, read one tuple
at a time. Whatever the engine does on however many threads must give what is
written here, value for value and in this order.

A source is a list of ``(ts, payload)``, sorted by ``ts``: an int, and a dict of
column name -> value with None for null. Several sources are merged in the order
(ts, source index, position in source).

========================  ============================================================
``order``                 merge; order of keys; reorder (lateness); watermark
``keys``                  key-by functions: the set of keys of a tuple
``values``                aggregate functions over the values of one window
``days``                  days of a time zone, for windows of them
``aggregates``            A and A+: windows of one stream, grouped by key
``joins``                 J and J+: pairs less than WS apart; band predicates
``operators``             O+, the generalized operator (Algorithm 2, corrected)
``containers``            lists, sets and maps of a state: keys in order, equal floats
``stateless``             forward, filter, map, flat_map; Corollary 1's Map
``apps``                  the applications of the command line
``transactions``          transactions over shared tables, one event after another
``transaction_apps``      the applications that are made of them
``ordering``              ordered pipelines: a chain of stages, one tuple after another
``ordering_apps``         what the ordered applications give, said without any stages
``synchronization``       programs of events that depend on each other, and their wire diagrams
``synchronization_apps``  what such applications give, said without any program
========================  ============================================================

Examples
--------
Count per key in windows of size 4 that advance by 2::

    time   0 1 2 3 4 5 6
    a      x   x
    b            x

>>> from headrace.windows import Window
>>> source = [(0, {"k": "a"}), (2, {"k": "a"}), (3, {"k": "b"})]
>>> for row in aggregate([source], Window(4, 2), column("k"), {"n": ("count", None)}):
...     print(row.ts, row.key, row.values)
2 a {'n': 1}
4 a {'n': 2}
4 b {'n': 1}
6 a {'n': 1}
6 b {'n': 1}
"""

from headrace.reference.aggregates import aggregate
from headrace.reference.joins import Match, band, equal, join, self_join
from headrace.reference.keys import column, columns, each, no_key
from headrace.reference.operators import operator
from headrace.reference.order import Row, Tuple, as_source, merge, reorder, watermark
from headrace.reference.ordering import ordered
from headrace.reference.stateless import (
    copy_per_key,
    filter_tuples,
    flat_map_tuples,
    forward,
    forward_as_printed,
    map_tuples,
)
from headrace.reference.transactions import Table, transact

__all__ = [
    "Match",
    "Row",
    "Table",
    "Tuple",
    "aggregate",
    "as_source",
    "band",
    "column",
    "columns",
    "copy_per_key",
    "each",
    "equal",
    "filter_tuples",
    "flat_map_tuples",
    "forward",
    "forward_as_printed",
    "join",
    "map_tuples",
    "merge",
    "no_key",
    "operator",
    "ordered",
    "reorder",
    "self_join",
    "transact",
    "watermark",
]
