"""Operator 15 for the engine: every tuple once, in merged order (`forward_kernel`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headrace.codegen.included import included
from headrace.egress.gather import Gatherer
from headrace.egress.records import Ordered, Records
from headrace.elastic import forward_kernel
from headrace.elastic.compiled import Compiled
from headrace.ingress.sorting import argsort, compile_kernels
from headrace.ingress.store import Store
from headrace.memory.bundle import named
from headrace.plan.nodes import Branch, OperatorNode


class CompiledForward(Compiled):
    """Operator 15."""

    load_by_key = False
    latest_is_ready = True
    first_promise = -1

    def __init__(self, node: OperatorNode, branches: list[Branch], options: Any):
        self.node, self._schema = node, node.schema

    def carried_of(self, side):
        return self._schema.names

    def text(self):
        return included(forward_kernel)

    def allocate(self, instances, capacity):
        return named()

    def finisher(self, stores):
        return ForwardResults(self._schema, stores)


class ForwardResults:
    """Rows of the input, in merged order. `primary` is the position, `a` the reference to the row."""

    reads_b_and_c = False

    def __init__(self, schema: pa.Schema, stores: Sequence[Store]):
        self.schema = schema
        self._payload = Gatherer(stores)

    def compile(self) -> None:
        self._payload.compile()
        compile_kernels()

    def finish(self, records: Records) -> pa.RecordBatch:
        ordered = Ordered(records, argsort(records.primary))
        return pa.RecordBatch.from_arrays(self._payload.take(ordered.a, self.schema.names), schema=self.schema)
