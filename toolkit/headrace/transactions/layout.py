"""Where the values of a table's rows lie in a run's memory (`memory`): texts of expressions of ``s``, for kernels."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.codegen.bindings import ContainerBinding
from headrace.codegen.kinds import cells_of
from headrace.memory.arena import CLASSES
from headrace.transactions.tables import Table

OWN = f"me * {CLASSES}"
"""Where the free lists of an executor begin."""
PRESENT = 0
"""Word of a row that says whether it exists, where unknown keys are inserted."""


def is_range(table: Table) -> bool:
    """Whether its keys always are a range of numbers, so that a slot is a distance."""
    if table.unknown == "insert" or table.is_text:
        return False
    keys = table.rows.keys
    return keys is None or int(keys[-1]) - int(keys[0]) == table.rows.count - 1


def stride(table: Table) -> int:
    """Words of a row."""
    return len(table.scalars) + (table.unknown == "insert")


def has_versions(tables: Iterable[Table]) -> bool:
    """Whether there may be several versions of a row: lists, sets, maps and arrays have only one."""
    return not any(table.containers for table in tables)


def version_words(tables: Iterable[Table]) -> int:
    """Words of a version of a row of any of these tables: its stamp, then the row."""
    return 1 + max(map(stride, tables), default=0)


def word(table: Table, column: str) -> int:
    """Which word of a row a column of single values is."""
    return table.scalars.index(column) + (table.unknown == "insert")


def heads_field(number: int, place: int) -> str:
    """The array of the heads of a column of containers."""
    return f"table_heads_{number}_{place}"


def container(table: Table, number: int, column: str, slot: str) -> ContainerBinding:
    """Where a container of a row is; `slot` is a variable."""
    kind = table.containers[column]
    field = heads_field(number, list(table.containers).index(column))
    return ContainerBinding(kind, f"s.{field}", f"{slot} * {cells_of(kind)}", OWN)


def find(table: Table, number: int, key: str) -> str:
    """The expression for the slot of a key, an int64 or the id of a string: negative if there is none."""
    if is_range(table):
        return f"find_direct({key}, s.table_least[{number}], s.table_last[{number}])"
    index, keys = f"s.table_index_{number}", f"s.table_keys_{number}"
    if table.unknown != "insert":
        return f"find_hashed({index}, {key})"
    if table.is_text:
        return f"insert_text({index}, {keys}, s.text_held, {key})"
    return f"insert_hashed({index}, {keys}, {key})"
