"""The engines as the command line sees them: the flags that each declares, and their effects.

===================  ===========================================================
``engine``           what an engine adds to ``headrace run``
``elastic``          windows, joins, operators
``transactions``     schemes, batches of events, the tables after the last one
``ordering``         scheduling of stages, and batch sizes
``synchronization``  plans, checkpoints
===================  ===========================================================
"""

from headrace.apps.engines.elastic import Elastic
from headrace.apps.engines.engine import Engine
from headrace.apps.engines.ordering import Pipelines
from headrace.apps.engines.synchronization import Programs
from headrace.apps.engines.transactions import Transactions

ENGINES: dict[str, type[Engine]] = {engine.name: engine for engine in (Elastic, Transactions, Pipelines, Programs)}
"""Name, as of `headrace.apps.App.engine` -> engine; help has their flags in this order."""

__all__ = ["ENGINES", "Engine"]
