"""Shared-nothing parallelism: the same operators, with a private queue, store and state for each instance.

This is the baseline that shows what VSN saves. An operator's own kernels run
unchanged; other text around them replaces what sharing gives for free:

    input      a queue for each pair of source and instance (`instance_queues`)
               that the source's router copies tuples into (`router_kernel`),
               instead of one log that all read
    position   comes with each record, since an instance sees only its tuples
    state      an array set per instance; at the barrier of a reconfiguration
               the last arriver moves the state of every key that changes owner

State moves while all members wait, so no key is updated meanwhile. Bytes and
nanoseconds are recorded for each epoch.

Two things differ from a distributed engine, both in the baseline's favour: columns
carried by reference (strings) are not copied, and results meet in the same output gate.

Source      STRETCH, section 2.2, Algorithms 1 and 2, Corollary 1.
"""

from __future__ import annotations

import dataclasses
from types import ModuleType

from headrace.codegen.included import included
from headrace.codegen.modules import load_module
from headrace.elastic import build
from headrace.elastic.custom.shape import CustomShape
from headrace.elastic.custom.template import generate
from headrace.elastic.shared_nothing import (
    copies_kernel,
    instance_queues,
    queueing_kernel,
    routed_kernel,
    router_kernel,
)
from headrace.gates.variants import GATES, instead_of

_AT_ONCE = """
from headrace.elastic.shared_nothing.routed_kernel import tuples_before

# Nothing depends on a single tuple's position.
process_batch = process

"""

_TAKE_POSITION = """
from headrace.elastic.instance_loop import SEEN


@kernel
def take_position(l, position):
{words}

"""

POSITION_WORDS = {"none": (), "seen": ("SEEN",), "ticks": ("SEEN", "TICKS")}
"""Words of an instance that hold the position of the next tuple, by what an operator's kernels derive from it."""


class _HeldBack(CustomShape):
    """A custom operator that always holds an emission back until its boundary has passed.

    Promises by position would need every instance to read every tuple. The order
    of the results is the same, since it never depends on promises.
    """

    @property
    def is_held_back(self) -> bool:
        return True


def custom_text(shape: CustomShape) -> str:
    """Write a custom operator's kernels for instances that see only their own tuples."""
    fields = {field.name: getattr(shape, field.name) for field in dataclasses.fields(shape)}
    return generate(_HeldBack(**fields))


def sharing_text(transfer_text: str, positions: str) -> str:
    """Write the text that takes the place of `build.SHARING`.

    Parameters
    ----------
    transfer_text : str
        Defines `transfer`.
    positions : {"none", "seen", "ticks"}
        What the operator's kernels derive from a tuple's position.
    """
    words = [f"    l[{word}] = position" for word in POSITION_WORDS[positions]]
    reading = included(routed_kernel) + _TAKE_POSITION.format(words="\n".join(words)) if words else _AT_ONCE
    return build.READS_ALL + transfer_text + reading


def build_instance(
    operator_text: str, transfer_text: str, positions: str, name: str, debug: bool = False
) -> build.Instance:
    """Return a shared-nothing instance."""
    sharing = sharing_text(transfer_text, positions)
    return build.Instance(operator_text, instance_queues.__name__, name, sharing, debug)


def build_router(gate: str, debug: bool = False) -> ModuleType:
    """Compile the module whose `route` reads this kind of gate."""
    parts = (queueing_kernel, copies_kernel)
    instead = instead_of(GATES[gate]) | {part.__name__: "" for part in parts}
    text = "".join(included(module, instead) for module in (*parts, router_kernel))
    return load_module(text, "router", debug=debug, entry="route")
