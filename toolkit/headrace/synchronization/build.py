"""A program's kernels and the workers' loop, which calls them by address: the loop is compiled once for all programs."""

from __future__ import annotations

from headrace.codegen.called import Entry, Looped, entries_text, names_of, stubs_text
from headrace.codegen.included import included
from headrace.codegen.modules import load_module
from headrace.synchronization import plan_kernel, tree_kernel
from headrace.synchronization.words import PROGRAM

_KERNEL = "from headrace.codegen.modules import compiled as kernel"
_RUNS = "me, c, o, x, s, l, n, tag, i, first, last"
_TURNS = "me, c, s, l, n, left, right"
ENTRIES = (
    Entry("run_rows", _RUNS, f"return np.int64(update_rows({_RUNS}))"),
    Entry("fork_node", _TURNS, f"return np.int64(fork_states({_TURNS}))"),
    Entry("join_node", _TURNS, f"return np.int64(join_states({_TURNS}))"),
)


class Built(Looped):
    """A program's entries, and the loop: ``run(me, c, o, x, s, l)`` is `plan_kernel.run_worker`.

    Parameters
    ----------
    program_text : str
        As `template.generate` writes it.
    name : str
        For readers of profiles.
    debug : bool
        Check bounds.
    """

    def __init__(self, program_text: str, name: str, debug: bool = False):
        text = "\n\n".join([program_text.strip(), entries_text(ENTRIES)])
        program = load_module(text, name, debug=debug, entry=names_of(ENTRIES))
        loop = load_module(loop_source(), "plan", entry="run_worker")
        super().__init__(program, loop.run_worker, ENTRIES, PROGRAM, "me, c, o, x, s, l", ("s",))


def loop_source() -> str:
    """Return the source of the loop: the same for every program."""
    inside = {"headrace.synchronization.tree_kernel": ""}
    return "\n\n".join([_KERNEL, stubs_text(ENTRIES, PROGRAM), included(tree_kernel), included(plan_kernel, inside)])


__all__ = ["Built", "loop_source"]
