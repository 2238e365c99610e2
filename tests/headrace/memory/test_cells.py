"""Words that threads share are read with acquire and written with release, by Python too.

Property    in `toolkit/headrace` no function that the interpreter runs touches a
            word of the shared arrays by ``array[index]`` or a method of NumPy:
            `read_cell`, `read_cells` and `publish_cell` do it.
Oracle      the fields of the arrays that the kernels share; the source text.
Cannot see  an array that comes under another name as an argument; whether a
            plain store inside a compiled kernel should have been a release.
"""

import ast
from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.egress.rings import OutArrays
from headrace.elastic.arrays import InstanceArrays
from headrace.elastic.passing_kernel import PassingArrays
from headrace.elastic.shared_nothing.instance_queues import QueueArrays
from headrace.gates.merged_log_kernel import LogArrays
from headrace.gates.reader_queues_kernel import ReaderQueues
from headrace.gates.scalegate_kernel import ScaleGateArrays
from headrace.memory.atomics import CELL
from headrace.memory.cells import padded_cells, publish_cell, read_cell, read_cells
from headrace.ordering.arrays import PipelineArrays
from headrace.synchronization.arrays import PlanArrays
from headrace.transactions.arrays import ExecutorArrays

ROOT = Path(headrace.__file__).parent

PUBLISHED_BY_ANOTHER = {
    # Records, published by a head, an end, or a promise.
    *("ring_ts", "ring_ref", "ring_at", "out_ts", "out_ref", "out_at", "out_seen", "out_node", "nodes"),
    *("primary", "a", "b", "c", "at", "list_words", "queue_ts", "queue_ref", "queue_at", "queue_seen", "queue_rank"),
    *("boundary", "boundary_epoch", "boundary_at"),
    # Of rows that are passed on, and of their keys, published by the gates; counts that only an instance writes.
    *("row_times", "keys", "ids", "known", "valid", "latency", "stop"),
    # Of one thread, or of the holder of a flag.
    *("scratch", "reader"),
    # Configurations, published by the control record that names them.
    *("member", "low", "width", "contiguous", "owner", "plan_at", "layout"),
    # What a change leaves behind, published by EPOCH or DONE_AT; of a failure, by FAILED.
    *("met_at", "reached_at", "installed", "load_at", "failure"),
    # Of a joiner, published by READING.
    *("start_seen", "start_watermark", "start_planned"),
}
KINDS = (LogArrays, ScaleGateArrays, OutArrays, PassingArrays, InstanceArrays, QueueArrays)
FIELDS = {name for kind in KINDS for name in kind._fields}
SHARED = FIELDS - PUBLISHED_BY_ANOTHER | {"stop_word", "directory", "pool"}
ALSO_OF_A_ROOM = {
    "gates": (ReaderQueues, {"next", "end", "told"}),
    "ordering": (PipelineArrays, {"stage", "bucket", "bucket_tail", "slots", "tickets", "work", "known", "tuning"}),
    "synchronization": (PlanArrays, {"input", "queue", "node", "runs", "work"}),
    "transactions": (ExecutorArrays, {"locks", "served", "offers", "unsettled"}),
}
"""Words whose names mean other things elsewhere."""
BEFORE_THE_THREADS = {"allocate", "allocate_common", "_allocate", "_activate", "write_plan"}
ROUTERS = "elastic/shared_nothing/section.py"
BY_ITS_ONLY_THREAD = {(ROUTERS, "_make_room"), (ROUTERS, "_prepare")}  # a router's own words


def is_kernel(function):
    names = [d.func if isinstance(d, ast.Call) else d for d in function.decorator_list]
    return any(getattr(name, "id", "") in ("kernel", "compiled") for name in names)


def plain_accesses(text, file=""):
    """Lines where interpreted code touches a shared word by itself."""
    _, more = ALSO_OF_A_ROOM.get(file.partition("/")[0], (None, set()))
    shared = SHARED | more
    found = []
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef) or is_kernel(function):
            continue
        if function.name in BEFORE_THE_THREADS or (file, function.name) in BY_ITS_ONLY_THREAD:
            continue
        aliases = {
            target.id
            for node in ast.walk(function)
            if isinstance(node, ast.Assign) and getattr(node.value, "attr", None) in shared
            for target in node.targets
            if isinstance(target, ast.Name)
        }

        def is_shared(node, aliases=aliases):
            return getattr(node, "attr", None) in shared or getattr(node, "id", None) in aliases

        for node in ast.walk(function):
            if isinstance(node, ast.Subscript) and is_shared(node.value):
                part = node.slice
                is_view = isinstance(part, ast.Slice) and part.lower and not part.upper and not part.step
                if not is_view:
                    found.append((function.name, ast.unparse(node)))
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if is_shared(node.func.value) and isinstance(node.func.value, ast.Attribute):
                    if node.func.attr in ("sum", "min", "max", "copy", "any", "all", "tolist", "item"):
                        found.append((function.name, ast.unparse(node)))
    return found


def test_example_python_touches_no_shared_word_by_itself():
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        if "reference" not in path.parts and (lines := plain_accesses(path.read_text(), file)):
            found[file] = lines
    assert not found


@pytest.mark.parametrize(
    "line",
    [
        "int(out.tail[r * CELL])",
        "(self._out.head[::CELL] != 0)",
        "int(arrays.words[EPOCH])",
        "arrays.load.sum(axis=0)",
        "gate.cursor[::CELL][members].min()",
        "self.directory[base] = address",
    ],
)
def test_example_a_plain_access_is_found(line):
    assert len(plain_accesses(f"def read(self, out, arrays, gate, r):\n    {line}")) == 1
    assert not plain_accesses(f"@kernel\ndef read(self, out, arrays, gate, r):\n    {line}")


def test_example_words_of_a_room_are_found_there():
    text = "def waiting(arrays, cell):\n    return arrays.stage[cell]"
    assert plain_accesses(text, "ordering/compiled.py") and not plain_accesses(text, "transactions/compiled.py")
    for kind, names in ALSO_OF_A_ROOM.values():
        assert names <= set(kind._fields)


def test_example_an_alias_is_found():
    assert plain_accesses("def read(self):\n    words = self.arrays.words\n    return words[3]")


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_example_cells_are_read_and_published(dtype):
    words = np.zeros(3 * CELL, dtype)
    publish_cell(words, 2 * CELL, 7)
    assert (read_cell(words, 2 * CELL), read_cell(words, 0)) == (7, 0)
    assert read_cells(words).tolist() == [0, 0, 7]
    assert read_cells(padded_cells(0)).size == 0
    table = np.arange(6, dtype=dtype).reshape(2, 3)
    copy = read_cells(table, 1)
    assert copy.tolist() == table.tolist() and copy.dtype == dtype and not np.shares_memory(copy, table)
