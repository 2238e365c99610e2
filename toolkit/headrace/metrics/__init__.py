"""What a run says about itself, of any engine: snapshots, the books, histograms, history.

An engine declares what it measures (`measures.Measure`) and fills in the values;
what is shown of them, and where, follows from the declarations.

==============  ==================================================================
``measures``    what an operator measures, declared once
``snapshot``    what a run and its operators had counted at one moment
``sources``     what a source had, and what its feeding thread waits for
``balance``     the books of an operator: whether every row is somewhere, once
``latency``     durations, counted in bins
``time_spent``  what a thread of Python does with its time
``by_worker``   numbers by worker: how even they are
``intervals``   what happened between two snapshots, as columns
``history``     snapshots over time
``bottleneck``  what holds a run up, in a sentence
==============  ==================================================================
"""
