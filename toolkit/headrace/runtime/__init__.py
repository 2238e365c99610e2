"""Running a query on any engine: starting, feeding, steering, measuring and ending it.

An engine provides sections (`sections.Section`); everything here works on sections and
depends on no engine.

======================  =======================================================
``sections``            the interface between an engine and a run
``inlets``              the part of this interface about inputs
``steerable``           the part of this interface about changes
``collected_section``   a section of one operator: workers, result rings, a collector
``gated_section``       such a section, whose sources are merged by a gate
``handle``              the user's handle on a run: `QueryRun`, `start`
``life``                its part that waits for the end, ends it, and reports that a run is over
``steered``             its part that changes things: operators, checkpoints, controllers, pace
``run_results``         its part that takes results
``operator_handle``     the user's handle on an operator or a stage: `OperatorHandle`, `StageHandle`
``run``                 the life of a running query: how it begins, goes on and ends
``wiring``              its connections: what feeds each inlet, and where results go
``chosen_sinks``        its sinks, chosen and opened
``measuring``           its counters at one moment
``second_errors``       errors raised while a run ends because of an earlier error
``described``           how a run and its operators describe themselves
``options``             options of `start` for a run of any engine
``pinning``             workers pinned to one core each
``sources``             external sources: the handle of each, and its reading side
``source_feeding``      the feeding side of a source
``source_rows``         what both sides do with rows: late or in time, encoded
``source_threads``      the threads that read and feed, few for many sources
``step_threads``        threads for the stateless steps of sources, several batches at once
``shared_stream``       a stream that can be read only once, shared by several operators
``input_rows``          which row of the input an error is about
``feeding``             feeding one inlet: steps, pace, back-pressure
``gate_inlet``          an inlet whose rows are merged with those of others in one order
``gate_books``          the row accounting of an operator whose input is a gate
``worker_measures``     the counters that every engine has
``player``              following a rate schedule without drift
``results``             the user's handle on one result
``consumers``           where results go: the sink, or the inlets downstream
``immediate``           controls that take effect at once
``configuration_rows``  configurations in the tables that workers read, and the outcomes of changes
``at_once``             changes of an engine whose workers read the configuration before each unit of work
``changes``             the state machine of every change to a running operator
``steering``            an operator's changes, and the controllers attached to it
``checkpointing``       checkpoints of a run, and resuming from one
``late``                the warning about rows that were dropped as late
``registry``            the runs alive in this process
======================  ================================================"""
