"""The metrics of a run, of any engine: snapshots, balances, histograms, history.

An engine declares what it measures (`measures.Measure`) and fills in the values;
the declarations determine what is shown of them, and where.

==============  ==================================================================
``measures``    what an operator measures, declared once
``snapshot``    the counters of a run and its operators at one moment
``sources``     the counters of a source, and what its feeding thread waits for
``balance``     the books of an operator: whether every row is accounted for, once
``latency``     durations, counted in bins
``time_spent``  how a Python thread spends its time
``by_worker``   numbers by worker: how even they are
``intervals``   what happened between two snapshots, as columns
``history``     snapshots over time
``bottleneck``  what limits a run, in a sentence
==============  ==================================================================
"""
