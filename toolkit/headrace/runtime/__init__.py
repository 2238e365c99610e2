"""The run of every engine: what it starts, feeds, steers, measures and ends.

An engine provides sections (`sections.Section`); everything here works on sections and
depends on no engine.

======================  =======================================================
``sections``            the interface between an engine and a run
``inlets``              the part of this interface about inputs
``capabilities``        the part of this interface about changes
``collected_section``   a section of one operator: workers, result rings, a collector
``gated_section``       such a section, whose sources meet in a gate
``handle``              the user's handle on a run: `QueryRun`, `start`
``life``                its part that waits for the end, ends it, and reports that a run is over
``steered``             its part that changes things: operators, checkpoints, controllers, pace
``run_results``         its part that takes results
``operator_handle``     the user's handle on an operator or a stage: `OperatorHandle`, `StageHandle`
``run``                 the life of a query being run: how it begins, goes on and ends
``wiring``              its connections: what leads into which inlet, where results go on to
``chosen_sinks``        its sinks, chosen and opened
``measuring``           its counters at one moment
``second_errors``       what fails while it ends because something else has failed
``described``           how a run and its operators describe themselves
``options``             options of `start` for a run of any engine
``pinning``             workers that stay on one core each
``sources``             external sources: a handle of each, and its side that reads
``source_feeding``      the side of a source that feeds
``source_rows``         what both sides do with rows: late or in time, encoded
``source_threads``      the threads that read and feed, few for many sources
``step_threads``        threads for the stateless steps of sources, several batches at once
``shared_stream``       a stream that can be read once, for several operators
``input_rows``          which row of the input an error is about
``feeding``             the way into one inlet: steps, pace, room
``gate_inlet``          an inlet whose rows meet those of others in one order
``gate_books``          the books of an operator whose input is a gate
``worker_measures``     common counters of engines whose workers 0 to threads - 1 are active
``player``              following a rate schedule without drift
``results``             the user's handle on one result
``consumers``           where results go: the sink, the inlets that follow
``immediate``           controls that take effect at once
``configuration_rows``  configurations as workers have them, and the outcomes of changes
``at_once``             changes of an engine whose workers ask before everything they do
``changes``             one state machine for every change while running
``steering``            an operator's changes, and the controllers attached to it
``checkpointing``       checkpoints of a run, and where it begins if it goes on from one
``allowance``           how many rows inputs may give before the next one
``late``                the warning about rows that were dropped as late
``registry``            which runs are alive in this process
======================  ================================================"""
