"""Dependency-guided synchronization: a plan of workers that gives what one event after another gives (Flumina, DGS).

A program says which events depend on each other, and how its state is forked and joined; a plan says which worker works where;
the result does not depend on the plan (Kallas et al., "Stream Processing with Dependency-Guided Synchronization").

====================  ======================================================================
``program``           `hr.program`: what a user writes, read and checked
``reading``           its parts, read and checked
``definition``        what it says: tags, state, functions, which tags depend on each other
``tags``              `hr.tag`; implementation tags, and the sets of them that a fork sees
``parts_kernel``      which part of a keyed tag a key belongs to
====================  ======================================================================

Is a program consistent?

====================  ======================================================================
``checking``          random cases of the laws C1 to C3
``laws``              what the laws say, and what both sides of one come to
``shrinking``         from a case that fails to the smallest
``counterexamples``   such a case, as something to look at and to run again
====================  ======================================================================

Plans:

====================  ======================================================================
``plans``             who processes which tags and who joins whom, and whether that is valid
``plan_nodes``        nodes of a plan, and where each stands in it
``plan_json``         a plan as JSON
``drawing``           a plan as a drawing
``tag_ranges``        implementation tags in words and in ranges
``optimizing``        plans for a program: Appendix B's optimizer, chains, flat trees
``by_rates``          a plan by measured rates and costs; ``exhaustive`` is the best there is
``prediction``        how many events per second a plan can take
``dependence``        the graph of implementation tags: what is connected, what falls apart
``state_types``       which type of state each node has
``tag_rates``         how often events of each tag come
====================  ======================================================================

Running:

====================  ======================================================================
``specification``     a program over its inputs, as an operator of a query
``inputs``            what an input brings, and which implementation tag a row has
``binding``           what names stand for in kernels, and the rewritten functions
``emissions``         what an emission leaves out
``template``          the text of one program's kernels
``pieces``            its loop over events
``entries``           its part that hands entries of keyed maps over one by one
``build``             that text, and the loop that calls it
``section``           a program at run time
``states``            a state for each node, and why a call of a function failed
``layout``            a plan as kernels have it
``inlet``             from the rows of an input into mailboxes
``ticks``             events that event time makes, in mailboxes of their own
``mailbox_kernel``    mailboxes, and the rule of which event may be processed next (section 3.4)
``tree_kernel``       which thread runs a node; rest, joins and forks
``plan_kernel``       what every worker does
``arrays``            what workers share; ``words`` names its cells
``configuration``     what is in force, and the table in which workers find that
``reconfiguration``   how a configuration is asked for
``replanning``        another plan while it runs; ``dealing_kernel`` moves events that wait to its mailboxes
``entrance``          where inputs go in to give rows, and are kept out
``holding``           everything at rest, for that and for a checkpoint
``cuts``              what a checkpoint of a program has: its state, and which rows are processed
``resuming``          rows that are read again although they are processed
``weighing``          rates and costs, from the counters of one that runs
``adaptive``          a better plan when rates change: a controller
``options``           what `start` may be told of this engine
``results``           from result records to rows; ``order_kernel`` has their order
``measures``          what is measured, declared once
``measuring``         from the workers' counters to a snapshot
``waiting``           who waits for whom
====================  ======================================================================
"""
