"""Short random transactions: a few statements on one table of three rows, whose keys are often equal.

They often do what programs of `made_up_transactions` do rarely: use two names, or none, for one row, in turns; keep a
value read under a name that decides whether the event is rejected, what is emitted and what is written; call
functions that return before their end, or take one of two rows by a condition; run loops whose length comes from a
list and a row.
"""

import linecache

import pyarrow as pa

import headrace as hr

EMITS = {"o": "int64", "u": "int64"}
KEYS = ("e.k", "e.k", "e.j", "e.y")


def events(draw, count):
    """Rows with three keys, a number, and a list of keys that is often empty."""
    columns = {name: [draw.randrange(3) for _ in range(count)] for name in ("k", "j", "y")}
    columns["x"] = [draw.randrange(-3, 4) for _ in range(count)]
    columns["ts"] = list(range(count))
    lists = [[draw.randrange(3) for _ in range(draw.choice([0, 0, 1, 3]))] for _ in range(count)]
    numbers = {name: pa.array(values, pa.int64()) for name, values in columns.items()}
    return pa.table({**numbers, "ks": pa.array(lists, pa.list_(pa.int64()))})


def program(draw):
    """A function, and its text."""
    text = _text(draw)
    space = {"__name__": __name__, "A": hr.table("A", columns={"b": "int64", "c": "int64"}, rows=3, first={"b": 4, "c": 1})}
    name = f"<short transaction {abs(hash(text))}>"
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    exec(compile(text, name, "exec"), space)
    return space["f"], text


def _text(draw):
    """The text of a function, preceded by the function that it calls, if any."""
    called = _called(draw) if draw.random() < 0.5 else ""
    return called + _function(draw, called != "")


def _called(draw):
    """A function of two keys and a number that returns on every path, most often before its end."""
    rows = ["A[k]", "A[j]", "A[k]"]
    if draw.random() < 0.4:
        lines = [f"p, q = A[k] if {_truth_of(draw, rows)} else A[j], A[{draw.choice('kj')}]"]
        rows += ["p", "q"]
    else:
        lines = []
    lines += _ended(draw, rows, 2)
    return "def g(e, t, k, j, z):\n" + "".join(f"    {line}\n" for line in lines)


def _ended(draw, rows, depth):
    """Statements that return on every path."""
    lines = []
    for _ in range(draw.randrange(1, 3)):
        kind = draw.choice(["write", "if", "if", "both", "loop"] if depth else ["write"])
        if kind == "write":
            lines.append(f"{_read(draw, rows)} {draw.choice(['+=', '-='])} {draw.choice(['1', 'z', 'e.x'])}")
        elif kind == "if":
            lines.append(f"if {_truth_of(draw, rows)}:")
            lines += ["    " + line for line in _ended(draw, rows, depth - 1)]
        elif kind == "both":
            lines += [f"if {_truth_of(draw, rows)}:", f"    if {_truth_of(draw, rows)}:", f"        return {_given(draw, rows)}"]
            lines += [f"    {_read(draw, rows)} += 1", f"elif {_truth_of(draw, rows)}:", f"    {draw.choice(_ENDS)}"]
        else:
            lines += ["for n in e.ks:", f"    if {_truth_of(draw, [*rows, 'A[n]'])}:"]
            lines.append(f"        {draw.choice(['break', f'return {_given(draw, rows)}', f'return {_given(draw, rows)}'])}")
            lines.append(f"    A[n].c += {draw.choice(['1', 'z'])}")
            if draw.random() < 0.3:
                lines += ["else:", f"    {draw.choice(_ENDS)}"]
    return [*lines, f"return {_given(draw, rows)}"]


_ENDS = ("return z", "z += 1", "return 7", "t.reject()")


def _given(draw, rows):
    return draw.choice(["z", "0", "k", f"{_read(draw, rows)}", f"{_read(draw, rows)} + z"])


def _truth_of(draw, rows):
    read = _read(draw, rows)
    return draw.choice(["z > 0", "k == j", f"{read} < 3", f"e.ks and {read} > 2", f"not (e.ks and {read} > 4)"])


def _function(draw, calls):
    rows = [f"A[{draw.choice(KEYS)}]" for _ in range(3)]
    lines = ["u, v = e.x, 0"] if draw.random() < 0.5 else ["u = e.x", "v = 0"]
    for name in ("r", "s"):
        if draw.random() < 0.6:
            lines.append(f"{name} = A[{draw.choice(KEYS)}]")
            rows += [name, name]
    if draw.random() < 0.2:
        lines.append(f"m, n = A[{draw.choice(KEYS)}], A[{draw.choice(KEYS)}]")
        rows += ["m", "n"]
    lines += _statements(draw, rows, draw.randrange(2, 6), 1)
    if calls:
        call = f"g(e, t, {draw.choice(KEYS)}, {draw.choice(KEYS)}, {draw.choice(['e.x', 'u', '1'])})"
        between = [at for at, line in enumerate(lines) if line[0] != " " and line != "else:" and at > 1]
        called = draw.choice([f"u = {call}", f"v = {call}", call, f"v = {call} + {call}"])
        lines.insert(draw.choice([*between, len(lines)]), called)
    emitted = draw.choice(["o=u", "o=u, u=v", f"o={_read(draw, rows)}", f"o=v, u={_read(draw, rows)}"])
    lines.append(draw.choice([f"t.emit({emitted})", f"t.emit({emitted})", f"if {_truth(draw, rows)}: t.emit({emitted})", "pass"]))
    return "def f(e, t):\n" + "".join(f"    {line}\n" for line in lines)


def _statements(draw, rows, count, depth):
    lines = []
    for _ in range(count):
        kind = draw.choice(["add", "add", "set", "keep", "keep", "both", "reject", "if", "while"])
        if kind == "add":
            lines.append(f"{_read(draw, rows)} {draw.choice(['+=', '-='])} {draw.choice(['1', '2', 'e.x', 'u'])}")
        elif kind == "set":
            place = _read(draw, rows)
            from_ = draw.choice([place, place, _read(draw, rows)])
            lines.append(f"{place} = ({from_} * 3 + {draw.choice(['1', 'e.x', 'v'])}) % 97")
        elif kind == "both":
            places = [draw.choice(["u", "v", _read(draw, rows)]) for _ in range(2)]
            values = [draw.choice(["u + 1", "v", "e.x", _read(draw, rows)]) for _ in range(2)]
            lines.append(f"{', '.join(places)} = {', '.join(values)}")
        elif kind == "keep":
            read = _read(draw, rows)
            lines.append(f"{draw.choice('uv')} = {draw.choice([read, f'{read} + e.x', f'1 if {read} > 3 else 0'])}")
        elif kind == "reject":
            lines.append(f"if {_truth(draw, rows)}: t.reject()")
        elif kind == "while":
            row = draw.choice(rows)
            lines += [f"while e.ks {draw.choice(['and', 'and e.x > 0 and'])} 0 < {row}.c < 3:", f"    {row}.c += 1"]
        elif depth:
            lines.append(f"if {_truth(draw, rows)}:")
            lines += ["    " + line for line in _statements(draw, rows, draw.randrange(1, 3), depth - 1)]
            if draw.random() < 0.6:
                lines.append("else:")
                lines += ["    " + line for line in _statements(draw, rows, draw.randrange(1, 3), depth - 1)]
    return lines or ["pass"]


def _read(draw, rows):
    return f"{draw.choice(rows)}.{draw.choice('bbc')}"


def _truth(draw, rows):
    read = _read(draw, rows)
    return draw.choice(["e.x > 0", "e.k == e.j", "u > 3", f"{read} < 2", f"{read} > {_read(draw, rows)}"])
