"""Strings of a pipeline: the text of the kernel that says which of them its states hold.

A string is known by an id, which is reused once nothing refers to it. A record in the pipeline refers to its strings until
its results are out, which event time shows. A state may refer to one for longer. So whenever there are twice as many
strings as were left the last time, `CompiledPipeline.release` asks the workers which ones the states hold. The worker that takes
records from the gate then takes none until all those taken before have left the pipeline, so that no stage is running; it
notes the strings that the states hold, as of the event time of the last record taken (`ingest_kernel`). Ids that no state
held then, and that nothing has used since, are free once the results of all records before that time are out.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.codegen.kinds import Array
from headrace.codegen.placed import offsets
from headrace.codegen.text import indent
from headrace.egress.containers import holds_text, stride_of, text_words
from headrace.memory.arena import HEAD
from headrace.ordering.binding import Bound, BoundStage

_HOLD = """
@kernel
def hold_texts(c, s, ts):
{stages}
    return np.int64(0)

"""

_OF_KEYS = """
for bucket in range(c.form[{number}, BUCKETS], c.form[{number}, BUCKETS] + c.form[{number}, BUCKET_COUNT]):
    heads = bucket * {head}
    for i in range(s.key_heads[heads + MAP_COUNT]):
        place = entry(s.key_heads, heads, i, {words})
        k = place + 1
{lines}
"""


def hold_text(bound: Bound) -> str:
    """Write the kernel: ``hold_texts(c, s, ts)``."""
    stages = [line for number, one in enumerate(bound.stages) for line in _of_stage(number, one)]
    return _HOLD.format(stages=indent(stages, 1))


def holds_texts(bound: Bound) -> bool:
    """Whether some state may hold a string."""
    return any(_of_stage(number, one) for number, one in enumerate(bound.stages))


def _of_stage(number: int, one: BoundStage) -> Sequence[str]:
    """The text for a stage; empty where its states have no strings."""
    lines = _of_state(one)
    if one.stage.kind == "stateful":
        return [f"k = s.stage_state[{number}]", *lines] if lines else []
    if one.stage.kind == "partitioned":
        key = next(column for column in one.columns if column.column == one.stage.by)
        if key.kind == "string":
            lines.insert(0, "hold_text(s.text_held, s.arena[place], ts)")
        if lines:
            of_key = indent(lines, 2)
            return _OF_KEYS.format(number=number, head=HEAD, words=one.entry_words, lines=of_key).strip("\n").splitlines()
    return []


def _of_state(one: BoundStage) -> list[str]:
    """The text for the state at word `k`."""
    lines = []
    for name, offset in offsets(one.stage.state).items():
        kind = one.stage.state[name].kind
        if isinstance(kind, str | Array):
            count = kind.size if isinstance(kind, Array) else 1
            if holds_text(kind):
                lines.append(f"hold_words(s.text_held, s.arena, k + {offset}, 1, {count}, ts)")
            continue
        place = f"s.arena, s.arena, k + {offset}"
        lines += [f"hold_entries(s.text_held, {place}, {word}, {stride_of(kind)}, ts)" for word in text_words(kind)]
    return lines


__all__ = ["hold_text", "holds_texts"]
