"""The event of a transaction: which of its columns functions may read, and what kernels have in their place."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headrace.codegen.bindings import Binding, FieldBinding, Unreadable, event_time_binding, unnamed
from headrace.codegen.inference import NUMBERS, TEXTS
from headrace.codegen.kinds import cannot_read
from headrace.codegen.text import attributes
from headrace.ingress.columns import is_list, is_scalar, is_text, plain_type, value_dtype
from headrace.ingress.lists import element_dtype
from headrace.transactions.nulls import nulls_of

PARTS = {"scalar": ("c", "n"), "list": ("c", "n", "z", "h")}
"""What a column is passed as: its value and whether it is valid; a list: its address, validity, size, null elements."""


@dataclass(frozen=True)
class Readable:
    """A column that a function may read."""

    column: str
    dtype: str
    """As the store holds it; of a list, its elements."""
    kind: str
    """int64, float64, bool or string, as functions see it, or "list"; "texts" is a list of strings."""

    @property
    def is_list(self) -> bool:
        return self.kind in ("list", "texts")

    @property
    def holds_text(self) -> bool:
        return self.kind in ("string", "texts")

    @property
    def parts(self) -> tuple[str, ...]:
        return PARTS["list" if self.is_list else "scalar"]


def event_fields(schema: pa.Schema, event_time: str) -> tuple[dict[str, Readable], dict[str, Binding]]:
    """The fields of ``e``: columns that may be read, and the binding of every name."""
    readable: dict[str, Readable] = {}
    fields: dict[str, Binding] = {}
    for name, column in attributes(schema.names).items():
        kind = plain_type(schema.field(column).type)
        if column == event_time:
            fields[name] = FieldBinding("ts")
        elif is_list(kind) and (is_scalar(plain_type(kind.value_type)) or is_text(plain_type(kind.value_type))):
            dtype, holds_strings = element_dtype(kind).name, is_text(plain_type(kind.value_type))
            readable[name] = Readable(column, dtype, "texts" if holds_strings else "list")
            view = {"float64": "view_f64"}.get(dtype, "view_i64")
            fields[name] = FieldBinding(
                f"whole_list({view}(c_{name}, z_{name}), h_{name})", kind=TEXTS if holds_strings else NUMBERS, valid=f"n_{name}"
            )
            fields[nulls_of(name)] = FieldBinding(f"h_{name}", valid=f"n_{name}")
        elif is_text(kind):
            readable[name] = Readable(column, "int64", "string")
            fields[name] = FieldBinding(f"c_{name}", kind="string", valid=f"n_{name}")
        elif is_scalar(kind):
            dtype = value_dtype(kind).name
            readable[name] = Readable(column, dtype, "bool" if dtype == "uint8" else dtype)
            fields[name] = FieldBinding(f"c_{name}", valid=f"n_{name}")
        else:
            fields[name] = Unreadable(cannot_read(kind))
    fields |= unnamed(schema.names, event_time) | {"ts": event_time_binding((schema.names, event_time))}
    readable.pop("ts", None)
    return readable, fields
