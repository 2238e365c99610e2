"""What a query means, before anything runs: checked where it is written, and the same for every engine.

=============  ==================================================================================
``nodes``      sources, steps, unions, operators; `Spec`, all that a plan knows of an operator;
               `Branch` and `Query`, what a run is given
``steps``      stateless steps: filter, select, and user functions fused into one loop
``planning``   from a tree of nodes to operators in topological order, each with its branches
``checks``     columns that are not there, or there twice
=============  ==================================================================================

An engine, or an operator of your own, takes part by a `Spec`: `headrace.Stream.through` appends it to
a stream, and a run asks it for its section. No room here knows which engines there are.
"""

from headrace.plan.nodes import Spec, StreamType

__all__ = ["Spec", "StreamType"]
