"""The kernels of a join: the text of its part of the generated module.

`join_kernel` has what all joins have in common. `all_pairs` compares every tuple with
all stored ones; `indexed` compares it with those in the cells of an index that can
match. Both find the same pairs.
"""

from __future__ import annotations

from headrace.codegen.included import included
from headrace.elastic import instance_loop
from headrace.elastic.join import all_pairs, indexed, join_kernel
from headrace.elastic.join.shape import JoinShape
from headrace.ingress.store import directory_width

_HEADER = """
from headrace.ingress.store import CHUNK, KEYS, TS
from headrace.ingress.store_kernel import entry_of, locate, place_of, validity_at, values_at
from headrace.memory.atomics import view_f32, view_f64, view_i32, view_i64, view_u8
from headrace.elastic.words import COMPARISONS, UPDATES
from headrace.references import BUCKET_MASK, ROW_MASK, SOURCE_SHIFT

LEFT_WIDTH = {left_width}
RIGHT_WIDTH = {right_width}

"""


def generate(shape: JoinShape) -> str:
    """Write the operator's part of the kernel module."""
    text = _HEADER.format(
        left_width=directory_width(len(shape.left_dtypes)), right_width=directory_width(len(shape.right_dtypes))
    )
    text += included(join_kernel)
    if shape.user is not None:
        text += f"\n{shape.user.text}\n"
    kernels, more = indexed.pieces(shape) if shape.index else all_pairs.pieces(shape)
    # Modules whose kernels are already in the text are not imported.
    return text + included(kernels, {instance_loop.__name__: "", join_kernel.__name__: ""}) + more
