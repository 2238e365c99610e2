"""Every Arrow type through every operator, key, aggregate and join condition, against an oracle that knows types.

A case is its name, a type and a seed: the same columns, query and threads each
time. It ends well if the engine gives what `headrace.reference` gives, in the
right type, or refuses by name, before the run, what the oracle says it must.

    python -m support.typed_cases CASE SEED      (from `tests`) runs one case again
    python -m support.typed_cases --from SEED COUNT   runs COUNT drawn cases, and names each before it begins
"""

from __future__ import annotations

import math
import random
import sys
from fractions import Fraction

import pyarrow as pa

import headrace as hr
from headrace import reference
from headrace.errors import AggregateOverflowError, HeadraceError, SchemaError
from headrace.windows import Window
from support.typed_columns import (
    BYTES,
    CARRIED_ONLY,
    DURATIONS,
    FLOATS,
    INDICES,
    INTEGERS,
    LISTS,
    NUMBERS,
    REFUSED,
    SCALARS,
    TEXTS,
    TIMES,
    as_plain,
    column,
    same,
    small_value_of,
)


class Wrong(AssertionError):
    """The engine gave something else."""


def flat(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def coded(draw, kind):
    """Sometimes the type's dictionary-encoded form."""
    return pa.dictionary(draw.choice(INDICES), kind, ordered=draw.random() < 0.2) if draw.random() < 0.3 else kind


def sources(draw, columns, most=2):
    """One or two sources with a time, a row number and columns of these types."""
    tables = []
    for _ in range(draw.randint(1, most)):
        rows = draw.choice([0, 1, 7, 25])
        ts = sorted(draw.randrange(-12, 40) for _ in range(rows))
        made = {"ts": pa.array(ts, pa.int64()), "row": pa.array(range(rows), pa.int64())}
        made |= {name: column(draw, kind, rows) for name, kind in columns.items()}
        tables.append(pa.table(made))
    return tables


def rows_of(table):
    names = table.schema.names
    plain = list(zip(*(as_plain(table[name]) for name in names), strict=True))
    return [dict(zip(names, row, strict=True)) for row in plain]


def payloads(tables):
    return [[(row["ts"], {k: v for k, v in row.items() if k != "ts"}) for row in rows_of(t)] for t in tables]


def run(query, draw):
    return query.to_arrow(threads=draw.randint(1, 3), max_threads=3)


def stream(draw, tables, **options):
    return hr.stream(tables, event_time="ts", batch_rows=draw.choice([1, 4, 1 << 16]), **options)


def check_rows(table, rows, kinds):
    """Check the rows, bit for bit and in this order, and the result's types."""
    for name, kind in kinds.items():
        if not table.schema.field(name).type.equals(kind):
            raise Wrong(f"column {name!r} is {table.schema.field(name).type}, must be {kind}")
    table.validate(full=True)
    got = rows_of(table)
    if len(got) != len(rows):
        raise Wrong(f"{len(got)} rows, must be {len(rows)}:\n{got}\n{rows}")
    for i, (one, other) in enumerate(zip(got, rows, strict=True)):
        if not same(list(one.values()), list(other.values())):
            raise Wrong(f"row {i} is\n{one}, must be\n{other}")


def refuses(name, kind, build):
    """Check that building or starting fails, and names the column and its type."""
    try:
        with build().start() as started:
            started.stop()
    except SchemaError as error:
        if repr(name) not in str(error) or str(kind) not in str(error):
            raise Wrong(f"the message names not {name!r} and {kind}: {error}") from error
        return
    except HeadraceError as error:
        raise Wrong(f"{type(error).__name__} instead of SchemaError: {error}") from error
    raise Wrong(f"{kind} was not refused")


# -- aggregates


KEPT = {"least": "min", "most": "max", "first": "first", "last": "last"}


def aggregated(draw, tables, wanted, times=None):
    """A query and its expected rows; with `times`, a type, means are times of it."""
    window = Window(*draw.choice([(9, 9), (20, 20)]))
    made = {name: getattr(hr, kind)(*([] if column is None else [column])) for name, (kind, column) in wanted.items()}
    keyed = stream(draw, tables).key_by("g", nulls="drop")

    def query():
        return keyed.window(window.size, window.advance).aggregate(**made)

    def rows():
        oracle = {n: ("distinct" if k == "count_distinct" else k, c) for n, (k, c) in wanted.items()}
        means = [] if times is None else [name for name, (k, _) in wanted.items() if k == "mean"]
        oracle |= {name: ("collect_list", wanted[name][1]) for name in means}
        found = reference.aggregate(payloads(tables), window, reference.column("g"), oracle, null_keys="drop")
        for row in found:
            row.values.update({name: mean_time(row.values[name], times) for name in means})
        return [{"ts": row.ts, "g": row.key, **row.values} for row in found]

    return query, rows


def mean_time(counts, kind):
    """The mean of times given as counts of their unit, rounded to the step they are multiples of, halves away from zero."""
    if not counts:
        return None
    step = 86_400_000 if pa.types.is_date64(kind) else 1
    mean = Fraction(sum(counts), len(counts) * step)
    return step * (math.floor(abs(mean) + Fraction(1, 2)) * (1 if mean > 0 else -1))


def added(kind):
    """The type itself where it has a sum, else int64: points in time have none."""
    return pa.int64() if flat(kind) in TIMES and flat(kind) not in DURATIONS else kind


def everything(kind):
    """Every aggregate that a column `v` of this type, and one of small values `w`, can have; one shape for all numbers."""
    wanted = {name: (function, "v") for name, function in KEPT.items()}
    wanted |= {"known": ("count", "v"), "different": ("count_distinct", "v"), "n": ("count", None)}
    return wanted | ({"average": ("mean", "v"), "total": ("sum", "w")} if flat(kind) in NUMBERS else {})


def case_values(draw, kind):
    """Every aggregate of values of the type."""
    kind = coded(draw, kind)
    tables = []
    for table in sources(draw, {"v": kind}):
        rows = table.num_rows
        table = table.append_column("g", pa.array([i % 3 for i in range(rows)], pa.int64()))
        tables.append(table.append_column("w", column(draw, added(kind), rows, drawn=small_value_of)))
    query, rows = aggregated(draw, tables, everything(kind), flat(kind) if flat(kind) in TIMES else None)
    if flat(kind) not in [*NUMBERS, *TEXTS]:
        return refuses("v", kind, query)
    kinds = dict.fromkeys(KEPT, flat(kind)) | {"known": pa.int64(), "different": pa.int64()}
    if flat(kind) in NUMBERS:
        kinds |= {"average": flat(kind) if flat(kind) in TIMES else pa.float64(), "total": total_type(kind)}
    return check_rows(run(query(), draw), rows(), kinds)


def total_type(kind):
    """The type of a sum of values of the type, or of those added in its place."""
    kind = flat(added(kind))
    return pa.float64() if kind in FLOATS else kind if kind in DURATIONS else pa.int64()


def case_sums(draw, kind):
    """Sums that leave the range of int64."""
    kind = coded(draw, kind)
    tables = sources(draw, {"v": kind})
    tables = [t.append_column("g", pa.array([i % 3 for i in range(t.num_rows)], pa.int64())) for t in tables]
    query, rows = aggregated(draw, tables, {"total": ("sum", "v")})
    if flat(kind) not in NUMBERS or added(kind) is not kind:
        return refuses("v", kind, query)
    try:
        wanted = rows()
    except AggregateOverflowError:
        try:
            run(query(), draw)
        except AggregateOverflowError:
            return None
        raise Wrong("a sum left the range of int64 without an error") from None
    return check_rows(run(query(), draw), wanted, {"total": total_type(kind)})


def case_counted(draw, kind):
    """Counts of values of any type."""
    kind = coded(draw, kind)
    tables = sources(draw, {"v": kind})
    tables = [t.append_column("g", pa.array([i % 3 for i in range(t.num_rows)], pa.int64())) for t in tables]
    query, rows = aggregated(draw, tables, {"known": ("count", "v"), "n": ("count", None)})
    return check_rows(run(query(), draw), rows(), {"known": pa.int64()})


# -- keys


def case_key(draw, kind):
    """A column as a key: alone, with another, or either of two."""
    kind = coded(draw, kind)
    how = draw.choice(["one", "two", "any"])
    tables = sources(draw, {"k": kind, "other": pa.string() if how == "two" else kind})
    part = {"one": ["k"], "two": ["k", "other"], "any": [("k", "other")]}[how]
    window = Window(10, 10)

    def query():
        return stream(draw, tables).key_by(*part, nulls="drop").window(10).aggregate(n=hr.count())

    if flat(kind) not in SCALARS:
        return refuses("k", kind, query)
    keys = {
        "one": reference.column("k"),
        "two": reference.columns(reference.column("k"), reference.column("other")),
        "any": lambda t: [t["k"], t["other"]],
    }[how]
    names = part if how == "two" else ["k"]
    found = reference.aggregate(payloads(tables), window, keys, {"n": ("count", None)}, null_keys="drop")
    parts = [row.key if how == "two" else (row.key,) for row in found]
    rows = [{"ts": r.ts, **dict(zip(names, p, strict=True)), **r.values} for r, p in zip(found, parts, strict=True)]
    return check_rows(run(query(), draw), rows, {"k": flat(kind), "n": pa.int64()})


def case_each(draw, kind):
    """The elements of a list column, of any layout, as keys."""
    kind = coded(draw, kind)
    whole = draw.choice(LISTS)(kind)
    tables = sources(draw, {"k": whole})

    def query():
        return stream(draw, tables).key_by(x=hr.each("k"), nulls="drop").window(10).aggregate(n=hr.count())

    if flat(kind) not in SCALARS:
        return refuses("k", kind, query)
    found = reference.aggregate(payloads(tables), Window(10, 10), reference.each("k"), {"n": ("count", None)}, null_keys="drop")
    rows = [{"ts": row.ts, "x": row.key, **row.values} for row in found]
    return check_rows(run(query(), draw), rows, {"x": flat(kind), "n": pa.int64()})


# -- joins


_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def family(kind):
    for name, kinds in (("text", TEXTS), ("bytes", BYTES), ("bool", [pa.bool_()])):
        if kind in kinds:
            return name
    for name in ("date", "time", "timestamp", "duration"):
        if getattr(pa.types, f"is_{name}")(kind):
            return name
    return "number" if kind in NUMBERS else None


def in_ns(kind):
    """Nanoseconds of a type's unit, 1 if it has none."""
    if family(kind) == "date":
        return 86_400 * 10**9 if kind == pa.date32() else 10**6
    return _NS[kind.unit] if family(kind) in ("time", "timestamp", "duration") else 1


def partner(draw, kind):
    """A type to compare with: mostly of the same family."""
    alike = [other for other in SCALARS if family(other) == family(kind)]
    return draw.choice(alike) if alike and draw.random() < 0.8 else draw.choice([*SCALARS, *REFUSED])


def sides(draw, kind, other):
    lefts, rights = sources(draw, {"x": kind}), sources(draw, {"a": other})
    rights = [t.rename_columns(["ts", "r_row", "a"]) for t in rights]
    return lefts, rights


def joined(draw, kind, other, build, predicate):
    lefts, rights = sides(draw, kind, other)
    within = draw.choice([1, 9])

    def query():
        return build(stream(draw, lefts), stream(draw, rights), within)

    def rows():
        found = reference.join(payloads(lefts), payloads(rights), within, predicate)
        return [{"ts": m.ts, **m.left, **m.right} for m in found]

    return query, rows


def case_equal(draw, kind):
    """`on=` and `hr.equal`."""
    kind, other = coded(draw, kind), coded(draw, partner(draw, kind))
    units = in_ns(flat(kind)), in_ns(flat(other))
    plain = reference.equal("x", "a")

    def predicate(left, right):
        if units == (1, 1):
            return plain(left, right)
        x, a = left["x"], right["a"]
        return x is not None and a is not None and x * units[0] == a * units[1]

    condition = {"on": ("x", "a")} if draw.random() < 0.5 else {"where": hr.equal("x", "a")}
    index = draw.few or draw.random() < 0.8
    query, rows = joined(
        draw, kind, other, lambda l, r, within: l.join(r, within, nulls="drop", index=index, **condition), predicate
    )
    families = family(flat(kind)), family(flat(other))
    if None in families or families[0] != families[1]:
        name, named = ("a", other) if families[0] is not None and families[1] is None else ("x", kind)
        return refuses(name, named, query)
    if unmovable(kind, other):
        return refuses(*unmovable(kind, other), query)
    return check_rows(run(query(), draw), rows(), {"x": kind, "a": other})


def case_band(draw, kind):
    """`hr.band`, of one unit."""
    kind, other = coded(draw, kind), coded(draw, partner(draw, kind))
    width = draw.choice([1, 2, 1000, 2**62, 0.5] if draw.few else [0, 1, 2, 1000, 2**62, 0.5, 2**70, math.inf])
    index = draw.few or draw.random() < 0.8
    if draw.few and {flat(kind), flat(other)} <= {pa.float16(), pa.float32()}:
        return None  # narrow bands of floats are in test_join.py
    query, rows = joined(
        draw, kind, other,
        lambda l, r, within: l.join(r, within, hr.band("x", "a", width), index=index), reference.band("x", "a", width),
    )  # fmt: skip
    families = family(flat(kind)), family(flat(other))
    if any(f in (None, "text", "bytes", "bool") for f in families):
        name, named = ("x", kind) if families[0] in (None, "text", "bytes", "bool") else ("a", other)
        return refuses(name, named, query)
    if families[0] != families[1] or in_ns(flat(kind)) != in_ns(flat(other)):
        return refuses("x", kind, query)
    if unmovable(kind, other):
        return refuses(*unmovable(kind, other), query)
    return check_rows(run(query(), draw), rows(), {"x": kind, "a": other})


# -- rows that are carried along


def case_carried(draw, kind):
    """Rows that are forwarded, filtered, reordered, sorted or joined, with a column that no kernel reads."""
    how = draw.choice(["forward", "filter", "late", "side", "sort", "join"])
    if kind in SCALARS and draw.random() < 0.4:
        kind = draw.choice(LISTS)(coded(draw, kind)) if draw.random() < 0.7 else coded(draw, kind)
    tables = sources(draw, {"v": kind}, most=1 if how == "join" else 3)

    def query():
        if how == "filter":
            return stream(draw, tables).filter(hr.col("row") % 3 != 1)
        if how == "late" or how == "side":
            late = "drop" if how == "late" else "side"
            return stream(draw, [_disordered(t) for t in tables], lateness=100, late=late)
        if how == "sort":
            return stream(draw, [_disordered(t) for t in tables], sort=True)
        if how == "join":
            return stream(draw, tables).join(stream(draw, tables).select("ts", r_row="row"), 3, on=("row", "r_row"))
        return stream(draw, tables).forward()

    if not is_movable(kind):
        return refuses("v", kind, query)
    ordered = [(row["ts"], s, i, row) for s, t in enumerate(tables) for i, row in enumerate(rows_of(t))]
    rows = [row for *_, row in sorted(ordered, key=lambda entry: entry[:3])]
    if how == "filter":
        rows = [row for row in rows if row["row"] % 3 != 1]
    if how == "join":
        rows = [{"ts": row["ts"] + 1, "row": row["row"], "v": row["v"], "r_row": row["row"]} for row in rows]
    return check_rows(run(query(), draw), rows, {"v": kind})


def _disordered(table):
    """A table's rows in another order of arrival, equal times in their order: by slices, which any type allows."""
    ts = table["ts"].to_pylist()
    cut = next((i for i in range(len(ts) // 2, len(ts)) if i and ts[i] != ts[i - 1]), 0)
    return pa.concat_tables([table.slice(cut), table.slice(0, cut)])


def is_movable(kind):
    """Whether Arrow can select rows of the type, by the means that headrace uses."""
    if pa.types.is_run_end_encoded(kind):
        return False
    if pa.types.is_dictionary(kind):
        entries = kind.value_type
        return not (pa.types.is_dictionary(entries) or entries.num_fields or pa.types.is_float16(entries))
    return all(is_movable(kind.field(i).type) for i in range(kind.num_fields))


def unmovable(kind, other):
    """The column whose rows a join cannot select: its name and type, or None."""
    return next(((name, k) for name, k in (("x", kind), ("a", other)) if not is_movable(k)), None)


# -- functions


def _keep_last(kind):
    def update(state, t, emit):
        state.last = t.v
        state.n += 1

    def output(key, state, emit):
        emit(last=state.last, n=state.n)

    fields = {"last": kind, "n": "int64"}
    return hr.operator(state=fields, emits=fields, update=update, output=output)


def case_function(draw, kind):
    """A custom operator that reads the column: whole numbers and floats."""
    whole = kind in INTEGERS
    if not whole and (draw.few or kind not in FLOATS):
        return None  # other types that functions read are covered by their own tests
    tables = sources(draw, {})
    tables = [t.append_column("v", column(draw, kind, t.num_rows, nulls=0.0)) for t in tables]
    operator = _keep_last("int64" if whole else "float64")
    query = stream(draw, tables).window(10).apply(operator)
    found = reference.aggregate(payloads(tables), Window(10, 10), reference.no_key, {"last": ("last", "v"), "n": ("count", None)})
    rows = [{"ts": row.ts, **row.values} for row in found]
    return check_rows(run(query, draw), rows, {"last": pa.int64() if whole else pa.float64()})


CASES = {
    "values": case_values, "sums": case_sums, "counted": case_counted, "key": case_key, "each": case_each,
    "equal": case_equal, "band": case_band, "carried": case_carried, "function": case_function,
}  # fmt: skip
TYPES = [*SCALARS, *REFUSED]
EVERY_TYPE = {case: [*TYPES, *CARRIED_ONLY] if case in ("carried", "counted") else TYPES for case in CASES}


class Draw(random.Random):
    """The random numbers of a case; `few`: few compiled shapes, for the suite."""

    few = False


def check(case, kind, seed, few=False):
    """Run one case; raises `Wrong`, or any error that the engine must not raise."""
    draw = Draw(f"{case} {kind} {seed}")
    draw.few = few
    CASES[case](draw, kind)


def drawn(seed):
    """A case of a campaign."""
    draw = Draw(seed)
    case = draw.choice(sorted(CASES))
    return case, draw.choice(EVERY_TYPE[case]), seed


def main(arguments):
    if arguments[0] == "--from":
        seeds = range(int(arguments[1]), int(arguments[1]) + int(arguments[2]))
    else:
        seeds = [int(arguments[0])]
    for seed in seeds:
        case, kind, _ = drawn(seed)
        print(f"{seed}: {case}, {kind}", flush=True)
        check(case, kind, seed)


if __name__ == "__main__":
    main(sys.argv[1:])
