"""Ordered pipelines: several workers run the stages, and the output is that of one (Prasaad, Ramalingam, Rajan).

A pipeline is a chain of stages over a stream whose order matters. Each stage has a ring of waiting records and a
reorder buffer for their outputs; workers choose a stage, claim records there and run its function. The paper is
"Scaling Ordered Stream Processing on Shared-Memory Multicores".

====================  ======================================================================
``stages``            how a user declares a stage; ``ranges`` has the ranges of its keys
``specification``     a chain of stages, as an operator of a query
``binding``           what names stand for in kernels, and the rewritten functions
``template``          the source text of one pipeline's kernels
``held_texts``        finds out which strings the states of a pipeline hold
``build``             compiles that text, and the loop that calls it
====================  ======================================================================

Running:

====================  ======================================================================
``section``           a pipeline at run time; ``compiled`` has its columns and states
``pipeline_kernel``   the loop of every worker: take in, choose, work, sleep (section 6)
``schedule_kernel``   which stage a worker takes: QST, LP, ET, CT (sections 6.1 to 6.4)
``work_kernel``       claims, and how workers share a partitioned stage (section 4)
``buffer_kernel``     rings and the reorder buffer, non-blocking or with a lock (section 3)
``pool_kernel``       memory for outputs that wait their turn
``ingest_kernel``     moves records from the gate into the first ring
``arrays``            the memory that workers share; ``words`` names its cells
``configuration``     the configuration in force, and the tables where workers read it
``reconfiguration``   how a configuration is requested
``options``           the options of `start` for this engine
``results``           turns result records into rows
``measures``          what is measured, declared once
``measuring``         turns the workers' counters into a snapshot
====================  ======================================================================
"""
