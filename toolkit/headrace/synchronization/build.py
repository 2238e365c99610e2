"""A program's kernels and the workers' loop, which calls them by address: the loop is compiled once for all programs."""

from __future__ import annotations

from headrace.codegen.called import Entry, Looped, load_looped, stubs_text
from headrace.codegen.included import included
from headrace.synchronization import plan_kernel, tree_kernel
from headrace.synchronization.words import ENTRIES_AT

_KERNEL = "from headrace.codegen.modules import compiled as kernel"
_RUNS = "me, c, o, x, s, l, n, tag, i, pieces"
_TURNS = "me, c, s, l, n, left, right"
ENTRIES = (
    Entry("run_rows", _RUNS, f"return np.int64(update_rows({_RUNS}))"),
    Entry("fork_node", _TURNS, f"return np.int64(fork_states({_TURNS}))"),
    Entry("join_node", _TURNS, f"return np.int64(join_states({_TURNS}))"),
)


def built(program_text: str, name: str, debug: bool = False) -> Looped:
    """Load a program's entries, and the loop: ``run(me, c, o, x, s, l)`` is `plan_kernel.run_worker`; see `load_looped`."""
    return load_looped(program_text, name, loop_source(), "plan", ENTRIES, ENTRIES_AT, "me, c, o, x, s, l", debug)


def loop_source() -> str:
    """Return the source of the loop: the same for every program."""
    inside = {"headrace.synchronization.tree_kernel": ""}
    return "\n\n".join([_KERNEL, stubs_text(ENTRIES, ENTRIES_AT), included(tree_kernel), included(plan_kernel, inside)])


__all__ = ["built", "loop_source"]
