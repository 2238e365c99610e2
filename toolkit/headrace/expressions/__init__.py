"""What a user writes about columns.

==============  ==================================================================
``columns``     expressions such as ``(col("chars") > 0) & ~col("tag").is_null()``,
                evaluated by Arrow on whole batches before tuples reach the engine
``operands``    how types and constants are combined in an expression
``predicates``  `band`, `equal`: conditions of joins
``aggregates``  `count`, `max`, ...: what is computed for windows
``keys``        `each`, `words`, `hashtags`, `pairs`, `keys`: several keys for a tuple
``rows``        rows of Arrow columns of any type: selected, concatenated, cast
==============  ==================================================================

Predicates, aggregates and keys are descriptions without behaviour, which the plan reads.
"""

from headrace.expressions.aggregates import (
    Aggregate,
    collect_list,
    collect_set,
    count,
    count_distinct,
    first,
    last,
    max,
    mean,
    median,
    min,
    mode,
    quantile,
    sum,
    top,
)
from headrace.expressions.columns import Expression, col, lit
from headrace.expressions.keys import Each, Hashtags, Keys, Pairs, Words, each, hashtags, keys, pairs, words
from headrace.expressions.predicates import (
    AndPredicate,
    BandPredicate,
    EqualPredicate,
    Predicate,
    band,
    equal,
)

__all__ = [
    "Aggregate",
    "AndPredicate",
    "BandPredicate",
    "Each",
    "EqualPredicate",
    "Expression",
    "Hashtags",
    "Keys",
    "Pairs",
    "Predicate",
    "Words",
    "band",
    "col",
    "collect_list",
    "collect_set",
    "count",
    "count_distinct",
    "each",
    "equal",
    "first",
    "hashtags",
    "keys",
    "last",
    "lit",
    "max",
    "mean",
    "median",
    "min",
    "mode",
    "pairs",
    "quantile",
    "sum",
    "top",
    "words",
]
