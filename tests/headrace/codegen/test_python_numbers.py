"""Numbers in compiled functions: as in Python, but for what the documentation of `hr.operator` lists.

Property    a row of that table says what Python gives and what compiled code
            gives; whatever is not in the table gives what Python gives, or
            raises where Python's result does not fit in 64 bits
Oracle      Python, on every pair of numbers at the edges of their ranges; every day each expression has an integer beside
            a float one way round, the other way in the campaign
Cannot see  the last digit of what `math` computes on another machine
"""

import itertools
import linecache
import math
import random
import re
import warnings

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.codegen.functions import FieldBinding, specialise
from headrace.codegen.modules import load_module
from headrace.errors import FunctionError
from headrace.kernel import JIT
from support.campaign import rarely

INTEGERS = [0, 1, -1, 2, -2, 3, -7, 10, 62, 63, 64, -64, 2**31, -(2**31), 2**53, 2**53 + 1, 2**62, 2**63 - 1, -(2**63)]
FLOATS = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -7.25, 1e-300, 1e300, -1e300, 5e-324, 1000.0, -1000.0),
    *(2.0**53, 2.0**62, 2.0**63, -(2.0**63), 2.0**64, math.inf, -math.inf, math.nan),
]
_numbers = itertools.count()


def function_of(expression, parameters):
    """A function with a source, as a user would write it."""
    file = f"<expression {next(_numbers)}>"
    text = f"def f({parameters}):\n    return {expression}\n"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = {"math": math, "np": np}
    exec(compile(text, file, "exec"), names)
    return names["f"]


def compiled(functions, debug=False):
    """One module of all: function -> (parameters of its kernel, bindings)."""
    chunks, imports = [], set()
    for number, (function, (arguments, bindings, parameters)) in enumerate(functions.items()):
        generated = specialise(
            function, name=f"user_{number}", arguments=arguments, bindings=bindings, parameters=parameters,
            returns="any", debug=debug,
        )  # fmt: skip
        chunks.append(generated.source)
        imports |= {*generated.imports}
    module = load_module("\n".join(sorted(imports)) + "\n\n\n" + "\n\n\n".join(chunks) + "\n", "numbers")
    return [getattr(module, f"user_{number}") for number in range(len(functions))]


def called(function, arguments):
    """The result, or the kind of exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = function(*arguments)
        except ArithmeticError as error:
            return type(error)
        except (ValueError, TypeError) as error:
            return type(error)
    return result.item() if isinstance(result, np.generic) else result


# -- the table


def table():
    """The rows: written, with, Python, compiled."""
    lines = hr.operator.__doc__.splitlines()
    borders = [number for number, line in enumerate(lines) if line.strip().startswith("======")]
    rows = [re.split(r"  +", line.strip()) for line in lines[borders[1] + 1 : borders[2]]]
    assert all(len(row) == 4 for row in rows), rows
    return rows


class Tuple:
    def __init__(self, values):
        self.__dict__.update(values)


def expected(text):
    return {"OverflowError": OverflowError, "ValueError": ValueError}.get(text) or eval(text, {"inf": math.inf})


def prepared(row):
    """The row's function, how it is bound, and its values."""
    written, given, _, _ = row
    values = eval(f"dict({given})", {"float32": np.float32})
    role = re.search(r"\b([tl])\.", written)[1]
    function = function_of(written, role)
    fields = {name: FieldBinding(name, valid="False" if value is None else None) for name, value in values.items()}
    return function, ((role,), {role: fields}, tuple(values)), values


def as_stored(value):
    """A number as a column's array gives it: without the compiler, too, it has 64 bits."""
    kinds = {int: np.int64, float: np.float64, type(None): np.int64}
    return kinds[type(value)](value or 0) if type(value) in kinds else value


OF_THE_COMPILER = {"t.x ** 3", "max(t.i, t.x)"}
"""What it multiplies, and where it gives both the same type: without it nothing differs."""


def test_example_every_row_of_the_table_is_so():
    rows = table()
    assert len(rows) > 15 and {row[0] for row in rows} > OF_THE_COMPILER
    all_of_them = [prepared(row) for row in rows]
    kernels = compiled({function: bound for function, bound, _ in all_of_them})
    for (written, given, python, here), (function, _, values), kernel in zip(rows, all_of_them, kernels, strict=True):
        as_python = {n: float(v) if isinstance(v, np.float32) else v for n, v in values.items()}
        found = called(function, [Tuple(as_python)])
        assert isinstance(found, complex) if python == "complex" else found == expected(python), (written, given, found)
        found = called(kernel, [as_stored(v) for v in values.values()])
        if not JIT and written in OF_THE_COMPILER:
            continue
        assert found == expected(here) and type(found) is type(expected(here)), (written, given, found)
        assert python != here


def test_example_what_wraps_around_raises_with_debug():
    wrapping = [row for row in table() if row[2].lstrip("-").isdigit() and row[3].lstrip("-").isdigit()]
    assert len(wrapping) == 7
    all_of_them = [prepared(row) for row in wrapping]
    kernels = compiled({function: bound for function, bound, _ in all_of_them}, debug=True)
    for row, (_, _, values), kernel in zip(wrapping, all_of_them, kernels, strict=True):
        assert called(kernel, values.values()) is OverflowError, row


CHOSEN = ["abs(min(a, b))", "-min(a, b)", "abs(a if a < b else b)", "-(a if a < b else b)", "-(b and a)", "abs((a, b)[0])"]


def test_example_what_is_chosen_of_32_bits_has_the_negative_of_64():
    """Join conditions are given int32 columns as they are."""
    least = -(2**31)
    functions = [function_of(expression, "a, b") for expression in CHOSEN]
    bound = ("a", "b"), {"a": "a", "b": "b"}, ("a", "b")
    for kernel, expression in zip(compiled(dict.fromkeys(functions, bound)), CHOSEN, strict=True):
        assert called(kernel, [np.int32(least), np.int32(7)]) == 2**31, expression


# -- everything else


TWO = [
    *("a + b", "a - b", "a * b", "a / b", "a // b", "a % b", "a ** b", "a << b", "a >> b", "a & b", "a < b", "a == b"),
    *("math.isclose(a, b)", "math.isclose(a, b, abs_tol=b)", "a == a and a in (1, b)", "b == b and b in (0.5, a, 3)"),
    *("min(a, b)", "divmod(a, b)", "math.pow(a, b)", "math.gcd(a, b)", "math.ldexp(a, b)", "math.atan2(a, b)"),
]
ONE = [
    *("-a", "~a", "abs(a)", "int(a)", "round(a)", "math.floor(a)", "math.ceil(a)", "math.trunc(a)", "np.int64(a)"),
    *("float(a)", "np.float64(a)", "round(a, 2)", "round(a, -1)", "round(a, ndigits=0)", "math.isclose(a, 1, rel_tol=0.5)"),
    *("np.int32(a)", "np.uint8(a)", "a ** 2", "a ** -1", "2 ** a", "a // 2", "a // -1", "a % 2", "a << 1", "a >> 1"),
    *(f"math.{n}(a)" for n in ("sqrt", "log", "log2", "log1p", "exp", "sin", "asin", "cosh", "atanh", "lgamma")),
]


def wrapped(value):
    return (value + 2**63) % 2**64 - 2**63


def is_same(expression, arguments, python, here, debug):
    """Whether compiled code did as Python, or as the table says."""
    if isinstance(python, type) or isinstance(here, type):
        if python is here:
            return True
        if isinstance(python, complex) or ("**" in expression and here is ValueError and not isinstance(python, int)):
            return here is ValueError
        too_large = isinstance(python, int) and not -(2**63) <= python < 2**63
        if isinstance(python, tuple):
            too_large = not -(2**63) <= python[0] < 2**63
        if expression.startswith("np."):  # NumPy says so in several ways
            return isinstance(python, type) and here in (OverflowError, ValueError)
        if expression == "a ** 2":
            return python is OverflowError and here == math.inf
        return too_large and here is OverflowError
    if isinstance(python, tuple):
        return all(is_same(expression, arguments, p, h, debug) for p, h in zip(python, here, strict=True))
    if python == here or (python != python and here != here):
        return type(python) is type(here) or expression.startswith("min")
    if any(isinstance(a, int) and abs(a) > 2**53 for a in arguments) and any(isinstance(a, float) for a in arguments):
        return isinstance(python, bool) or math.isclose(python, here, rel_tol=1e-15)
    if expression == "a / b" or expression.startswith("math."):
        return math.isclose(python, here, rel_tol=1e-13)
    wraps = expression in ("a + b", "a - b", "a * b", "a ** b", "a << b", "-a", "abs(a)", "a ** 2", "2 ** a", "a << 1")
    return wraps and not debug and isinstance(python, int) and wrapped(python) == here


def domains_of(number, parameters, pairs):
    """Numbers for the parameters of expression `number`: of one type each, or an integer beside a float, either way round."""
    if parameters == "a":
        return [[INTEGERS], [FLOATS]] if pairs == "most" else []
    mixed = [[INTEGERS, FLOATS], [FLOATS, INTEGERS]]
    chosen = mixed.pop(number % 2)
    return [[INTEGERS, INTEGERS], chosen, [FLOATS, FLOATS]] if pairs == "most" else mixed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("debug", "pairs"),
    [(False, "most"), *rarely((False, "the other mixed ones")), (True, "most"), *rarely((True, "the other mixed ones"))],
    ids="{}".format,
)
def test_property_what_is_not_in_the_table_is_as_in_python(debug, pairs):
    """With debug nothing wraps around either; only what that touches is compiled again."""
    two = [e for e in TWO if not debug or (e[2] in "+-*<" and e != "a < b")]
    one = [e for e in ONE if not debug or e in ("-a", "abs(a)", "a ** 2", "2 ** a", "a << 1")]
    cases = [(e, "a, b") for e in two] + [(e, "a") for e in one]
    functions = [function_of(*case) for case in cases]
    names = [tuple(parameters.split(", ")) for _, parameters in cases]
    bound = [(roles, dict(zip(roles, roles, strict=True)), roles) for roles in names]
    kernels = compiled(dict(zip(functions, bound, strict=True)), debug)
    compared = 0
    for number, ((expression, parameters), function, kernel) in enumerate(zip(cases, functions, kernels, strict=True)):
        for domain in domains_of(number, parameters, pairs):
            is_float = any(part is FLOATS for part in domain)
            if (is_float and re.search(r"<<|>>|&|~|gcd", expression)) or ("ldexp" in expression and domain[1] is FLOATS):
                continue  # of integers only
            for arguments in itertools.product(*domain):
                if re.search(r"\*\*|<<", expression) and not is_float and max(map(abs, arguments)) > 2**12:
                    continue  # Python would take its time
                python, here = called(function, arguments), called(kernel, arguments)
                assert is_same(expression, arguments, python, here, debug), (expression, arguments, python, here)
                compared += 1
    assert compared > 1_000


HALVES = [0.125, 0.375, 0.145, 1.005, 1.115, 2.675, 0.285, -2.5, 25.0, 35.0, 1e-7, 123456.789, 5e15 + 1, 1e22]


def test_example_numbers_are_rounded_at_the_digit_that_their_exact_value_says():
    kernel, whole = compiled({
        function_of("round(a, b)", "a, b"): (("a", "b"), {"a": "a", "b": "b"}, ("a", "b")) for _ in range(2)
    })  # fmt: skip
    draw = random.Random(5)
    numbers = [*HALVES, *(draw.randrange(10**7) / 10**draw.randrange(6) for _ in range(300))]
    numbers += [(draw.randrange(10**6) + 0.5) / 10 ** draw.randrange(6) for _ in range(300)]
    for number, digits in itertools.product(numbers, range(-4, 7)):
        assert repr(float(kernel(number, digits))) == repr(round(number, digits)), (number, digits)
    for number, digits in itertools.product([5, 15, -25, 449, 450, -550, 2**63 - 1, 5 * 10**18], (1, -1, -2, -3, -18, -19, -20)):
        expected = round(number, digits)
        assert called(whole, [number, digits]) == (expected if abs(expected) < 2**63 else OverflowError), (number, digits)


def test_example_a_bool_is_a_number():
    expressions = ["float(a)", "round(a, 1)", "a in (1, 2.5)", "math.isclose(a, 1)"]
    bound = ("a",), {"a": "a"}, ("a",)
    for kernel, expression in zip(compiled({function_of(e, "a"): bound for e in expressions}), expressions, strict=True):
        for value in (True, False):
            assert kernel(np.bool_(value)) == eval(expression, {"a": value, "math": math}), expression
    written = [*("inf", "-inf", "1e3"), "nan"]
    for kernel, text in zip(compiled({function_of(f"a + float('{t}')", "a"): bound for t in written}), written, strict=True):
        assert repr(float(kernel(1))) == repr(1 + float(text))


# -- refused where it is written


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("    if t.i > 5:\n        y = 1\n    return y", "'y' may have no value here"),
        ("    for y in range(t.i):\n        pass\n    return y", "'y' may have no value here"),
        ("    while t.i > 3:\n        y = 1\n        break\n    return y", "'y' may have no value here"),
        ("    y += 1\n    return y", "'y' may have no value here"),
        ("    return t.i is t.j", "numbers have no identity"),
        ("    x, *y = t.i, t.j, 1\n    return x", "*y cannot be compiled: name each value"),
        ("    return t.i + 2 ** 64", "does not fit in 64 bits"),
        ("    return t.i + 2 ** 10 ** 9", "does not fit in 64 bits"),
        ("    return t.i + 9223372036854775808", "does not fit in 64 bits"),
    ],
)
def test_example_what_has_no_meaning_is_refused_with_its_line(body, text):
    with pytest.raises(FunctionError, match=re.escape(text)) as caught:
        compiled({_defined(body): (("t",), {"t": {"i": "i", "j": "j"}}, ("i", "j"))})
    assert caught.value.line == len(body.splitlines()) + 1 - ("+=" in body or "*y" in body)


@pytest.mark.parametrize(
    "body",
    [
        "    if t.i > 5:\n        y = 1\n    else:\n        y = 2\n    return y",
        "    if t.i > 5:\n        return 7\n    else:\n        y = 2\n    return y",
        "    for y in range(3):\n        pass\n    return y",
        "    while True:\n        y = t.i\n        if y > 0:\n            break\n    return y",
        "    for i in (1, 2):\n        if i > t.i:\n            continue\n        z = i\n    return sum([i * i for i in (1, 2)])",
        "    s = 0.0\n    for x in (t.i, 2.5, t.i > 1):\n        s += x\n    return s",
        "    s = 0\n    for x in [t.i, 7]:\n        for y in [1, 2]:\n            s += x * y\n    return s",
        "    return -9223372036854775808 + 2 ** 63 - 1 + t.i",
    ],
)
def test_example_what_always_has_a_value_is_not(body):
    function = _defined(body)
    (kernel,) = compiled({function: (("t",), {"t": {"i": "i"}}, ("i",))})
    assert kernel(2) == function(Tuple({"i": 2}))


def _defined(body):
    file = f"<function {next(_numbers)}>"
    text = f"def f(t):\n{body}\n"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = {}
    exec(compile(text, file, "exec"), names)
    return names["f"]


# -- in a run


TABLE = pa.table({"ts": [1, 2, 3], "i": [1, 2**62, 3], "x": [4.0, 1.0, -1.0], "small": pa.array([1, 2, -(2**31)], pa.int32())})


def grow(state, t, emit):
    state.n = state.n + t.i
    state.n = state.n * 2


def growing():
    n = {"n": "int64"}
    operator = hr.operator(state=n, emits=n, update=grow, output=lambda key, state, emit: emit(n=state.n))
    return hr.stream(TABLE, event_time="ts").window(10).apply(operator)


@pytest.mark.campaign  # what functions of an operator do is what all functions do
def test_example_what_wraps_around_in_an_operator_is_as_in_the_table():
    assert growing().to_arrow()["n"].to_pylist() == [wrapped(((2 + 2**62) * 2 + 3) * 2)]


@pytest.mark.slow
def test_example_debug_names_line_and_tuple_of_what_would_wrap():
    first = grow.__code__.co_firstlineno
    query = growing()
    with pytest.raises(FunctionError, match=re.escape(f"{2**62 + 2} * 2 leaves the range of int64")) as caught:
        query.to_arrow(debug=True)
    assert (caught.value.function, caught.value.line, caught.value.tuple["i"]) == ("grow", first + 2, 2**62)


@pytest.mark.slow
def test_example_a_step_fails_as_python_does():
    stream = hr.stream(TABLE, event_time="ts")
    with pytest.raises(FunctionError, match="ValueError: math domain error") as caught:
        stream.map(lambda t: math.sqrt(t.x), y="float64").to_arrow()
    assert caught.value.tuple == {"ts": 3, "i": 3, "x": -1.0, "small": -(2**31)}
    with pytest.raises(FunctionError, match="ValueError: cannot convert float NaN to integer"):
        stream.map(lambda t: int(t.x * math.inf - math.inf), y="int64").to_arrow()
    with pytest.raises(FunctionError, match=re.escape(f"{2**62} * 4 leaves the range of int64")) as caught:
        stream.filter(lambda t: t.i * 4 > 0).to_arrow(debug=True)
    assert caught.value.tuple["ts"] == 2
    assert stream.map(lambda t: abs(-t.small), y="int64").to_arrow()["y"].to_pylist() == [1, 2, 2**31]


def third(t):
    return np.zeros(3)[t.i]


def test_example_an_index_out_of_bounds_raises():
    stream = hr.stream(TABLE, event_time="ts")
    with pytest.raises(FunctionError, match="IndexError") as caught:
        stream.map(third, y="float64").to_arrow()
    assert caught.value.tuple["ts"] == 2
