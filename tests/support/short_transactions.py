"""Short transactions that nobody wrote: a few statements on one table of three rows, whose keys are often equal.

What programs of `made_up_transactions` seldom do is done here all the time: two names, or none, for one row, used in
turns; what was read kept under a name, on which it depends whether the event is rejected, what is emitted, what is written.
"""

import linecache

import pyarrow as pa

import headrace as hr

EMITS = {"o": "int64", "u": "int64"}
KEYS = ("e.k", "e.k", "e.j", "e.y")


def events(draw, count):
    """Rows with three keys, and a number."""
    columns = {name: [draw.randrange(3) for _ in range(count)] for name in ("k", "j", "y")}
    return pa.table({"ts": list(range(count)), **columns, "x": [draw.randrange(-3, 4) for _ in range(count)]})


def program(draw):
    """A function, and its text."""
    text = _text(draw)
    space = {"A": hr.table("A", columns={"b": "int64", "c": "int64"}, rows=3, first={"b": 4, "c": 1})}
    name = f"<short transaction {abs(hash(text))}>"
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    exec(compile(text, name, "exec"), space)
    return space["f"], text


def _text(draw):
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
    emitted = draw.choice(["o=u", "o=u, u=v", f"o={_read(draw, rows)}", f"o=v, u={_read(draw, rows)}"])
    lines.append(draw.choice([f"t.emit({emitted})", f"t.emit({emitted})", f"if {_truth(draw, rows)}: t.emit({emitted})", "pass"]))
    return "def f(e, t):\n" + "".join(f"    {line}\n" for line in lines)


def _statements(draw, rows, count, depth):
    lines = []
    for _ in range(count):
        kind = draw.choice(["add", "add", "set", "keep", "keep", "both", "reject", "if"])
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
