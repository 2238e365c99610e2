"""Dependency-guided synchronization: a plan of workers that gives what one event after another gives (Flumina, DGS).

A program says which events depend on each other, and how its state is forked and joined; a plan says who works where;
the result does not depend on the plan (Kallas et al., "Stream Processing with Dependency-Guided Synchronization").

====================  ======================================================================
``program``           `hr.program`: what a user writes, read and checked
``definition``        what it says: tags, state, functions, which tags depend on each other
``tags``              `hr.tag`; implementation tags, and the sets of them that a fork sees
``parts_kernel``      which part of a keyed tag a key belongs to
====================  ======================================================================
"""
