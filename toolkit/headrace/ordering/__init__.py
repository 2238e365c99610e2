"""Ordered pipelines: whatever worker takes whatever stage, the output is that of one (Prasaad, Ramalingam, Rajan).

A chain of stages over a stream whose order means something. Each stage has a ring of records that wait, and a reorder
buffer of what became of them; workers choose a stage, claim records there and run its function. The paper is "Scaling
Ordered Stream Processing on Shared-Memory Multicores".

====================  ======================================================================
``stages``            what a user says of a stage; ``ranges`` of its keys
``specification``     a chain of them, as an operator of a query
``binding``           what names stand for in kernels, and the rewritten functions
``template``          the text of one pipeline's kernels
``held_texts``        which strings its states hold
``build``             that text, and the loop that calls it
====================  ======================================================================

Running:

====================  ======================================================================
``section``           a pipeline at run time; ``program`` is what it has of its functions
``pipeline_kernel``   what every worker does: take in, choose, work, sleep (section 6)
``schedule_kernel``   which stage: QST, LP, ET, CT (sections 6.1 to 6.4)
``work_kernel``       claims, and how workers share a partitioned stage (section 4)
``buffer_kernel``     rings and the reorder buffer, non-blocking or with a lock (section 3)
``pool_kernel``       memory of outputs that wait
``ingest_kernel``     from the gate into the first ring
``arrays``            what workers share; ``words`` names its cells
``configuration``     what is in force, and the tables in which workers find that
``reconfiguration``   how a configuration is asked for
``options``           what `start` may be told of this engine
``results``           from result records to rows
``measures``          what is measured, declared once
``measuring``         from the workers' counters to a snapshot
====================  ======================================================================
"""
