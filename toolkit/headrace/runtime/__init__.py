"""The run of every engine: what it starts, feeds, steers, measures and ends.

An engine gives sections (`sections.Section`); everything here works on those and
knows no engine.

======================  =======================================================
``sections``            what an engine gives to a run, and the run to an engine
``inlets``              its part about a way in
``capabilities``        its part about what can be changed
``collected_section``   a section of one operator: workers, result rings, a collector
``gated_section``       one of these, whose sources meet in a gate
``handle``              what a user holds of a run: `QueryRun`, `start`
``life``                its part that waits for the end, ends it, and says of a run that it is over
``steered``             its part that changes things: operators, checkpoints, controllers, pace
``run_results``         its part that takes results
``operator_handle``     what a user holds of an operator or a stage: `OperatorHandle`, `StageHandle`
``run``                 the life of a query being run: how it begins, goes on and ends
``wiring``              its connections: what leads into which inlet, where results go on to
``chosen_sinks``        its sinks, chosen and opened
``measuring``           what is counted of it at one moment
``second_errors``       what fails while it ends because something else has failed
``described``           what a run and its operators say of themselves
``options``             what `start` may be told about a run of any engine
``pinning``             workers that stay on one core each
``sources``             external sources: a handle of each, and its side that reads
``source_feeding``      its side that feeds
``source_rows``         what is the same for its rows on both: late or in time, encoded
``source_threads``      the threads that do so, few for many sources
``step_threads``        threads for the stateless steps of sources, several batches at once
``shared_stream``       a stream that can be read once, for several operators
``input_rows``          which row of the input an error is about
``feeding``             the way into one inlet: steps, pace, room
``gate_inlet``          an inlet whose rows meet those of others in one order
``gate_books``          the books of an operator whose input is a gate
``worker_measures``     what is counted alike where workers 0 to threads - 1 are active
``player``              following a rate schedule without drift
``results``             what a user holds of one result
``consumers``           where results go: the sink, the inlets that follow
``immediate``           controls that take effect at once
``configuration_rows``  configurations as workers have them, and what became of changes
``at_once``             changes of an engine whose workers ask before everything they do
``changes``             one state machine for every change while running
``steering``            an operator's changes, and the controllers attached to it
``checkpointing``       checkpoints of a run, and where it begins if it goes on from one
``allowance``           how many rows inputs may give before the next one
``late``                the warning about rows that were dropped as late
``registry``            which runs are alive in this process
======================  ================================================"""
