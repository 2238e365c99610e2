"""A pipeline's kernels and the workers' loop, which calls them by address: the loop is compiled once for all pipelines.

In Prasaad, Ramalingam and Rajan, section 2.2, each operator is compiled to a unit that can be scheduled alone; here it is a
branch of `run_stage`.
"""

from __future__ import annotations

from headrace.codegen.called import Entry, Looped, load_looped, stubs_text
from headrace.codegen.included import included
from headrace.ordering import ingest_kernel, pipeline_kernel, work_kernel
from headrace.ordering.words import ENTRIES_AT

_KERNEL = "from headrace.codegen.modules import compiled_borrowing as kernel"
_FILLS = "me, c, x, s, l, first, last"
_RUNS = "me, c, s, l"  # as many as there are registers for; the rest is in `l`
_FETCHES = "me, c, s, l, stage, first, last"
_HOLDS = "c, s, l, ts"
_ENDS = "me, c, s, l, stage, position"
ENTRIES = (
    Entry("fill_rows", _FILLS, f"return np.int64(fill_rows({_FILLS}))"),
    Entry("run_stage", _RUNS, f"return np.int64(run_stage({_RUNS}, l[STAGE], l[FIRST], l[LAST]))"),
    Entry("fetch_states", _FETCHES, f"return np.int64(fetch_states({_FETCHES}))"),
    Entry("end_stage", _ENDS, f"return np.int64(end_stage({_ENDS}))"),
    Entry("hold_texts", _HOLDS, "return np.int64(hold_texts(c, s, ts))"),
    Entry("choose_own", "me, c, s, l", "return np.int64(choose_own(me, c, s, l))"),
)


def built(pipeline_text: str, name: str, debug: bool = False) -> Looped:
    """Load a pipeline's entries, and the loop: ``run(me, g, c, o, x, s, l)`` is `pipeline_kernel.run_worker`."""
    return load_looped(pipeline_text, name, loop_source(), "pipeline", ENTRIES, ENTRIES_AT, "me, g, c, o, x, s, l", debug)


def loop_source() -> str:
    """Return the source of the loop: the same for every pipeline."""
    parts = [included(ingest_kernel), included(work_kernel), included(pipeline_kernel)]
    return "\n\n".join([_KERNEL, stubs_text(ENTRIES, ENTRIES_AT), *parts])


__all__ = ["built", "loop_source"]
