"""The text of the loop over events in a call of a program's kernels: pieces of rows of one input, given in private words.

Where inputs deal out their rows to many queues, a piece has an event or two. So what is common to all pieces is done once:
the call, and for each chunk of the store the look-up of its columns.

`place_of` gives the place of a row in its chunk. LLVM cannot prove that ``row - begin`` is not negative, and would check
each row for an index from the end (0.65 in place of 0.37 ns for a value that is added to a sum).
"""

from __future__ import annotations

from headrace.codegen.text import indent
from headrace.synchronization.binding import BoundTag

_ROWS = """    piece, row, last = 0, l[PIECE], l[PIECE + 1]
    while piece < pieces:
        entry = entry_of(row, c.given[i, WIDTH])
        begin = row - place_of(row)
        times = view_i64(x[i, entry + TS], CHUNK)
{columns}
        while piece < pieces and row < begin + CHUNK:
{arrived}            at = place_of(row)
            end = min(last, begin + CHUNK)
            while row < end:
                ts = times[at]
{each}
                row += 1
                at += 1
            if row == last:
                piece += 1
                row, last = l[PIECE + PIECE_WORDS * piece], l[PIECE + PIECE_WORDS * piece + 1]
"""
_ARRIVED = "            l[ARRIVED] = l[PIECE + PIECE_WORDS * piece + 2]\n"
_WHICH = "l[POSITION] = row\nl[COUNT] = 0\n"


def rows_text(columns: str, each: str, says_which: bool = True) -> str:
    """Write the loop over the rows of all pieces.

    Parameters
    ----------
    columns : str
        Of `columns_text`.
    each : str
        Statements for a row.
    says_which : bool
        Whether private words note the current row: for its results, and for when it fails.
    """
    arrived, which = (_ARRIVED, _WHICH) if says_which else ("", "")
    return _ROWS.format(columns=columns, arrived=arrived, each=indent(which + each, 4))


def columns_text(one: BoundTag, first_column: int) -> str:
    """Where the columns of a tag are, in the chunk at hand."""
    lines = []
    for index, column in enumerate(one.columns):
        place = f"s.column_at[i, {first_column + index}]"
        view = {"float64": "view_f64", "uint8": "view_u8"}.get(column.dtype, "view_i64")
        lines.append(f"c_{column.name} = {view}(x[i, entry + values_at({place})], CHUNK)")
        lines.append(f"m_{column.name} = x[i, entry + validity_at({place})]")
    return indent(lines, 2)


__all__ = ["columns_text", "rows_text"]
