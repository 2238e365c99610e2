"""Dependency-guided synchronization: a plan of workers that gives what one event after another gives (Flumina, DGS).

A program says which events depend on each other, and how its state is forked and joined; a plan says who works where;
the result does not depend on the plan (Kallas et al., "Stream Processing with Dependency-Guided Synchronization").

====================  ======================================================================
``program``           `hr.program`: what a user writes, read and checked
``definition``        what it says: tags, state, functions, which tags depend on each other
``tags``              `hr.tag`; implementation tags, and the sets of them that a fork sees
``parts_kernel``      which part of a keyed tag a key belongs to
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
``rates``             how often events of each tag come
====================  ======================================================================
"""
