"""The applications that ``headrace run`` runs: those of the papers, and one on real data.

===================  ===================================  =========================================
application          operator                             what it shows
===================  ===================================  =========================================
``wordcount``        A+, keys are words                   many keys in a tuple
``paircount``        A+, keys are pairs of words          very many keys in a tuple
``longest``          A+, keys are hashtags                few keys in a tuple; the paper's example
``forward``          Operator 15                          the gate by itself
``scalejoin``        J, two bands                         pure comparing
``hedge``            self-join, a user's predicate        bursts
``tolls``            O+, then A+; the paper's Figure 1    one operator behind another
``flights``          A+, keys are both ends of a flight   real data
``gs``               transactions: read or write a list   no operation needs another's read
``sl``               transactions: deposits, transfers    what one writes depends on what it read
``ob``               transactions: bids, prices, stock    conditions on single records, lists
``tp``               three transactions an event: tolls   several functions, sets in a table
``sold_together``    ordered: SL PS PS SF                 a ranking whose counting is partitioned
``viewed_together``  ordered: SL PS SL PS SF              sessions, then the same ranking
``viewed_before``    ordered: SL PS PS                    lists in states, two keys in a row
``abandoned``        ordered: SL PS SL SF                 sessions; little is left for the last stage
``declining``        ordered: SL SL PS                    regression in integers; a table of categories
``mobility``         ordered: SL SL PS SL SF              the paper's Figure 1
``eventwindow``      a program: values, barriers          sums that are joined
``pageview``         a program: views, updates by page    a state that is replicated
``modelfraud``       a program: transactions, rules       both of it
``keycounter``       a program: inc, reset by key         keys that do not wait for each other
``outlier``          a program: connections, requests     candidates, confirmed by the joined model
``smarthome``        a program: loads by house, ticks     ends of slices, given by event time
===================  ===================================  =========================================

Each file reads like the operator's definition in the paper and names its
reference, the plain Python code that defines the result. ``inputs`` opens
files for the applications, ``compare`` compares a result with the reference, ``command``
is ``headrace run``, ``arguments`` has its flags and its help, ``asked`` the values
read, ``checked`` the checks of these, ``figures`` its report;
what an engine adds to all of that is in ``engines``.
"""

from headrace.apps import (
    abandoned,
    declining,
    eventwindow,
    flights,
    forward,
    gs,
    hedge,
    keycounter,
    longest,
    mobility,
    modelfraud,
    ob,
    outlier,
    pageview,
    paircount,
    scalejoin,
    sl,
    smarthome,
    sold_together,
    tolls,
    tp,
    viewed_before,
    viewed_together,
    wordcount,
)
from headrace.apps.app import App
from headrace.errors import UnknownNameError
from headrace.names import instead


class _Apps(dict[str, App]):
    def __missing__(self, name: str) -> App:
        raise UnknownNameError(f"APPS[{name!r}]: {instead(name, self, 'the applications', '{}')}")


_MODULES = (
    wordcount, paircount, longest, forward, scalejoin, hedge, tolls, flights,
    gs, sl, ob, tp,
    sold_together, viewed_together, viewed_before, abandoned, declining, mobility,
    eventwindow, pageview, modelfraud, keycounter, outlier, smarthome,
)  # fmt: skip

APPS: dict[str, App] = _Apps((module.APP.name, module.APP) for module in _MODULES)
"""Name on the command line -> application."""

__all__ = ["APPS", "App"]
