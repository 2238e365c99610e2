"""Expressions over the columns of a batch: `col`, `lit` and what operators make of them.

An expression is a small tree, evaluated by Arrow. Nulls follow SQL: an
operation on null gives null, except that ``false & null`` is false and ``true | null`` is
true, and a filter keeps a row only where the condition is true.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import (
    ParameterError,
    SchemaError,
    UnsupportedTypeError,
)
from headrace.expressions.operands import (
    as_float,
    call,
    common_type,
    comparable,
    condition,
    constant,
    divide_down,
    half_to_even,
    is_text,
    mixed,
    signed_and_not,
    those_among,
    value_set,
    widened,
)
from headrace.expressions.rows import empty_batch, filter_rows
from headrace.names import instead, missing_attribute

_CAST_TYPES = {
    "int64": pa.int64(),
    "int32": pa.int32(),
    "float64": pa.float64(),
    "float32": pa.float32(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
}


_OTHER_NAMES = {
    **dict.fromkeys(("isnull", "isna", "isNull"), ".is_null()"),
    **dict.fromkeys(("notnull", "notna", "isNotNull", "is_valid"), ".is_not_null()"),
    "isin": ".is_in([...])", "astype": ".cast(kind)", "len": ".length()", "str": ".length(), or a function, with map",
    **dict.fromkeys(("alias", "name", "rename"), "select(..., name=expression)"),
    "between": "(a <= x) & (x <= b)", "dt": "a function, with map",
    **dict.fromkeys(("fillna", "fill_null", "apply", "map"), "a function, with map"),
    **dict.fromkeys(("sum", "mean", "min", "max", "count"), "key_by(...).window(...).aggregate(name=hr.sum(column))"),
}  # fmt: skip
"""What other libraries call a method of a column -> what to write here."""
_BY_A_FUNCTION = "is computed by a function, with map"
_A_POWER = f"a power {_BY_A_FUNCTION}"


class Expression:
    """A value computed for each row from its columns.

    Built by `col`, `lit` and operators: ``+ - * / // %``, comparisons,
    ``& | ~``, `is_null`, `is_not_null`, `is_in`, `abs`, `round`, `cast`, `length`.
    Integers are computed as int64, where overflow is an error, or as float64 together with
    a float. ``/`` gives float64. ``//`` and ``%`` round down as in Python. A zero divisor
    is an error for integers, and gives inf or NaN for floats. NaN equals nothing.
    ``round(x)`` gives the nearest whole number as int64; a tie goes to the even one, as in
    Python.

    Examples
    --------
    >>> long = (col("chars") > 100) & ~col("user").is_in(["bot"])
    >>> long
    (col('chars') > 100) & ~col('user').is_in(['bot'])
    >>> long.columns
    ('chars', 'user')
    >>> batch = pa.record_batch({"chars": [150, 150, None], "user": ["ann", "bot", "eve"]})
    >>> long.evaluate(batch).to_pylist(), long.filter(batch).to_pylist()
    ([True, False, None], [{'chars': 150, 'user': 'ann'}])
    """

    __slots__ = ()

    # -- evaluation

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """Compute the expression.

        Returns
        -------
        pa.Array
            One value for each row.

        Raises
        ------
        SchemaError
            A column does not exist, or has a type the operation does not take.
        InputError
            A value cannot be computed: overflow, division by zero, a lossy cast.
        """
        result = self._compute(batch)
        if isinstance(result, pa.Scalar):
            result = pa.repeat(result, batch.num_rows)
        return result

    def filter(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Keep the rows where this condition is true (neither false nor null)."""
        return filter_rows(batch, self.mask(batch))

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Evaluate a condition; null where it is unknown."""
        result = self.evaluate(batch)
        if pa.types.is_null(result.type):
            result = result.cast(pa.bool_())
        if not pa.types.is_boolean(result.type):
            raise SchemaError(f"filter({self!r}): gives {result.type}, not a condition; add a comparison")
        return result

    def value_type(self, schema: pa.Schema) -> pa.DataType:
        """Return the type of the values, for columns of these types; raises as `evaluate` does.

        Raises
        ------
        ParameterError
            Its expressions are nested too deeply.
        """
        try:
            return self.evaluate(empty_batch(schema)).type
        except RecursionError:
            raise ParameterError(
                "the expression has too many operations within each other: select part of it as a column first, and compute"
                " with that, or write it as a function for map()"
            ) from None

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns used, in order of first use."""
        found: dict[str, None] = {}
        waiting: list[Expression] = [self]
        while waiting:
            expression = waiting.pop(0)
            if isinstance(expression, Column):
                found[expression.name] = None
            waiting[:0] = expression._operands()
        return tuple(found)

    def _compute(self, batch: pa.RecordBatch) -> pa.Array | pa.Scalar:
        raise NotImplementedError

    def _operands(self) -> tuple[Expression, ...]:
        return ()

    # -- operators

    def __add__(self, other: object) -> Expression:
        return Binary("+", self, lit(other))

    def __radd__(self, other: object) -> Expression:
        return Binary("+", lit(other), self)

    def __sub__(self, other: object) -> Expression:
        return Binary("-", self, lit(other))

    def __rsub__(self, other: object) -> Expression:
        return Binary("-", lit(other), self)

    def __mul__(self, other: object) -> Expression:
        return Binary("*", self, lit(other))

    def __rmul__(self, other: object) -> Expression:
        return Binary("*", lit(other), self)

    def __truediv__(self, other: object) -> Expression:
        return Binary("/", self, lit(other))

    def __rtruediv__(self, other: object) -> Expression:
        return Binary("/", lit(other), self)

    def __floordiv__(self, other: object) -> Expression:
        return Binary("//", self, lit(other))

    def __rfloordiv__(self, other: object) -> Expression:
        return Binary("//", lit(other), self)

    def __mod__(self, other: object) -> Expression:
        return Binary("%", self, lit(other))

    def __rmod__(self, other: object) -> Expression:
        return Binary("%", lit(other), self)

    def __pow__(self, exponent: object) -> Expression:
        raise ParameterError(
            f"{_bracketed(self)} ** {exponent!r}: expressions have no powers; multiply, or compute it by a function, with map"
        )

    def __rpow__(self, base: object) -> Expression:
        raise ParameterError(f"{base!r} ** {_bracketed(self)}: expressions have no powers; compute it by a function, with map")

    def __xor__(self, other: object) -> Expression:
        raise self._lacks(f"{_bracketed(self)} ^ {other!r}", "^", f"of two conditions write a != b; {_A_POWER}")

    def __rxor__(self, other: object) -> Expression:
        raise self._lacks(f"{other!r} ^ {_bracketed(self)}", "^", f"of two conditions write a != b; {_A_POWER}")

    def __lshift__(self, other: object) -> Expression:
        raise self._lacks(f"{_bracketed(self)} << {other!r}", "<<", "multiply by a power of 2")

    def __rshift__(self, other: object) -> Expression:
        raise self._lacks(f"{_bracketed(self)} >> {other!r}", ">>", "divide by a power of 2, with //")

    def __divmod__(self, other: object) -> Expression:
        raise self._lacks(f"divmod({self!r}, {other!r})", "divmod", "use // and %, one after the other")

    def __float__(self) -> float:
        raise self._lacks(f"float({self!r})", "float()", f'write .cast("float64"); what math has, {_BY_A_FUNCTION}')

    def __int__(self) -> int:
        raise self._lacks(f"int({self!r})", "int()", 'write .cast("int64") of a whole number, or round()')

    def __len__(self) -> int:
        raise self._lacks(f"len({self!r})", "len()", "write .length() of a string")

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute(self, name, _OTHER_NAMES)

    def _lacks(self, written: str, what: str, fix: str) -> ParameterError:
        return ParameterError(f"{written}: expressions have no {what}; {fix}")

    def __neg__(self) -> Expression:
        return Unary("-", self)

    def __abs__(self) -> Expression:
        return self.abs()

    def __round__(self, digits: object = None) -> Expression:
        if digits is not None:
            raise ParameterError(
                f"round({self!r}, {digits!r}): expressions round to whole numbers, round({self!r}); digits are rounded by a"
                f' function, as in map(lambda t: round(t.price, 2), price2="float64")'
            )
        return self.round()

    def __lt__(self, other: object) -> Expression:
        return Binary("<", self, _compared(other))

    def __le__(self, other: object) -> Expression:
        return Binary("<=", self, _compared(other))

    def __gt__(self, other: object) -> Expression:
        return Binary(">", self, _compared(other))

    def __ge__(self, other: object) -> Expression:
        return Binary(">=", self, _compared(other))

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return Binary("==", self, _compared(other))

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return Binary("!=", self, _compared(other))

    # == builds an expression, so sets and dictionaries use identity.
    __hash__ = object.__hash__

    def __and__(self, other: object) -> Expression:
        return Binary("&", self, lit(other))

    def __rand__(self, other: object) -> Expression:
        return Binary("&", lit(other), self)

    def __or__(self, other: object) -> Expression:
        return Binary("|", self, lit(other))

    def __ror__(self, other: object) -> Expression:
        return Binary("|", lit(other), self)

    def __invert__(self) -> Expression:
        return Unary("~", self)

    def __bool__(self) -> bool:
        raise ParameterError(
            f"{self!r}: has no truth value of its own; use & | ~ instead of and, or, not, "
            f"and (a < x) & (x < b) instead of a < x < b, with brackets around each comparison"
        )

    def __contains__(self, item: object) -> bool:
        raise ParameterError(f"{item!r} in {self!r}: use .is_in([...]) on the column instead")

    def __iter__(self):
        raise ParameterError(f"{self!r}: is not a list; it stands for one value of each row")

    def is_null(self) -> Expression:
        """Whether the value is null; never null itself."""
        return Unary("is_null", self)

    def is_not_null(self) -> Expression:
        """Whether the value is not null; never null itself."""
        return Unary("is_not_null", self)

    def is_in(self, values: Iterable[object]) -> Expression:
        """Whether the value is one of these; unknown for null, as with SQL's IN."""
        if isinstance(values, (str, bytes, Expression)) or not isinstance(values, Iterable):
            raise ParameterError(f"is_in({values!r}): a list of values is needed; write is_in([{values!r}])")
        return IsIn(self, tuple(None if value is None else _constant(value) for value in values))

    def abs(self) -> Expression:
        """Absolute value."""
        return Unary("abs", self)

    def round(self) -> Expression:
        """Nearest whole number, int64; a tie goes to the even one, as in Python."""
        return Unary("round", self)

    def length(self) -> Expression:
        """Length of a string in code points, int64."""
        return Unary("length", self)

    def cast(self, kind: str) -> Expression:
        """Convert to int64, int32, float64, float32, bool, string or timestamp; a lossy value is an error.

        float64 does not have every integer beyond 2**53; ``col(name) + 0.0`` gives the nearest one.
        """
        if kind not in _CAST_TYPES:
            raise ParameterError(f"cast({kind!r}): the kinds are {', '.join(_CAST_TYPES)}")
        return Cast(self, kind)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Column(Expression):
    """The value of a column."""

    name: str

    def _compute(self, batch):
        positions = batch.schema.get_all_field_indices(self.name)
        if not positions:
            there = instead(self.name, batch.schema.names, "the columns", "{}")
            raise SchemaError(f"column {self.name!r} does not exist: {there}")
        if len(positions) > 1:
            raise SchemaError(f"column {self.name!r} occurs {len(positions)} times: rename one of them")
        array = batch.column(positions[0])
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        return array

    def __repr__(self):
        return f"col({self.name!r})"


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Literal(Expression):
    """The same value for each row."""

    value: Any

    def _compute(self, batch):
        return constant(self.value)

    def __repr__(self):
        return repr(self.value)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Unary(Expression):
    """One operand and an operator or method."""

    operator: str
    operand: Expression

    def _compute(self, batch):
        value = self.operand._compute(batch)
        if self.operator == "is_null":
            return pc.is_null(value)
        if self.operator == "is_not_null":
            return pc.is_valid(value)
        if self.operator == "~":
            return call(self, pc.invert, condition(self, value))
        if self.operator == "length":
            if not is_text(value.type):
                fix = "cast it to string, or compute it by a function, with map"
                raise UnsupportedTypeError(f"{self!r}: only strings have a length, not {value.type}; {fix}")
            return pc.utf8_length(value).cast(pa.int64())
        value = widened(self, value)
        if self.operator == "round":
            return half_to_even(self, value)
        return call(self, pc.negate_checked if self.operator == "-" else pc.abs_checked, value)

    def _operands(self):
        return (self.operand,)

    def __repr__(self):
        operand = _bracketed(self.operand)
        return f"{self.operator}{operand}" if self.operator in "-~" else f"{operand}.{self.operator}()"


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Cast(Expression):
    """A conversion that loses nothing."""

    operand: Expression
    kind: str

    def _compute(self, batch):
        value = self.operand._compute(batch)
        return call(self, lambda array: pc.cast(array, _CAST_TYPES[self.kind], safe=True), value)

    def _operands(self):
        return (self.operand,)

    def __repr__(self):
        return f"{_bracketed(self.operand)}.cast({self.kind!r})"


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class IsIn(Expression):
    """Membership in a list of constants."""

    operand: Expression
    values: tuple

    def _compute(self, batch):
        array = self.operand._compute(batch)
        # NaN equals nothing, as with ==, so it is in no list.
        known = [value for value in self.values if value is not None and value == value]
        found: Any = pa.scalar(False)
        for value in known if pa.types.is_null(array.type) else ():
            found = pc.equal(array, constant(value))
        are_whole = pa.types.is_integer(array.type) and all(type(value) is int for value in known)
        if are_whole:
            known = those_among(array.type, known)
        if known and not pa.types.is_null(array.type):
            takes_type = is_text(array.type) or pa.types.is_temporal(array.type) or (are_whole and pa.types.is_uint64(array.type))
            target = array.type if takes_type else None
            options = call(self, lambda side: value_set(known, target), array)
            if target is None and options.type != array.type:
                common = common_type(self, array.type, options.type)
                array, options = array.cast(common, safe=False), options.cast(common, safe=False)
            if pa.types.is_floating(array.type):
                # Arrow distinguishes -0.0 from 0.0 in is_in, though not in ==.
                array, options = pc.add(array, 0.0), pc.add(options, 0.0)
            found = call(self, lambda side: pc.is_in(side, value_set=options), array)
        if None in self.values:
            found = pc.if_else(found, found, pa.scalar(None, pa.bool_()))
        return pc.if_else(pc.is_valid(array), found, pa.scalar(None, pa.bool_()))

    def _operands(self):
        return (self.operand,)

    def __repr__(self):
        return f"{_bracketed(self.operand)}.is_in({list(self.values)!r})"


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Binary(Expression):
    """Two operands and an operator."""

    operator: str
    left: Expression
    right: Expression

    def _compute(self, batch):
        left, right = self.left._compute(batch), self.right._compute(batch)
        operator = self.operator
        if operator in ("&", "|"):
            function = pc.and_kleene if operator == "&" else pc.or_kleene
            return call(self, function, condition(self, left), condition(self, right))
        if operator in _COMPARISONS:
            left, right = signed_and_not(*mixed(*comparable(self, left, right)))
            return call(self, _COMPARISONS[operator], left, right)
        if operator == "/":
            left, right = as_float(self, left, right), as_float(self, right, left)
            return call(self, pc.divide, left, right)
        if not (pa.types.is_floating(left.type) or pa.types.is_floating(right.type)):
            left, right = widened(self, left), widened(self, right)
        if operator in ("//", "%"):
            return divide_down(self, operator, left, right)
        return call(self, _ARITHMETIC[operator], *mixed(left, right))

    def _operands(self):
        return (self.left, self.right)

    def __repr__(self):
        return f"{_bracketed(self.left)} {self.operator} {_bracketed(self.right)}"


_COMPARISONS = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_ARITHMETIC = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}


def _bracketed(expression: Expression) -> str:
    return f"({expression!r})" if isinstance(expression, Binary) else repr(expression)


def col(name: str) -> Expression:
    """Refer to a column of the stream.

    Parameters
    ----------
    name : str

    Raises
    ------
    ParameterError
        It is no name. The call that takes the expression checks that the column exists.

    Examples
    --------
    >>> col("price") * 2 > 10
    (col('price') * 2) > 10
    """
    if not isinstance(name, str) or not name:
        raise ParameterError(f"col({name!r}): give the name of a column, a string that is not empty")
    return Column(name)


def _compared(value: object) -> Expression:
    """Make a constant that is only compared: it may also be a whole number beyond int64, up to the end of uint64."""
    whole = value.item() if isinstance(value, np.integer) else value
    return Literal(whole) if type(whole) is int and 2**63 <= whole < 2**64 else lit(value)


def _constant(value: object) -> Any:
    literal = _compared(value)
    if not isinstance(literal, Literal):
        raise ParameterError(f"is_in([{literal!r}]): the values must be constants; compare with == instead")
    return literal.value


def lit(value: object) -> Expression:
    """Make a constant of a bool, int, float, string, date or time; operators do this for their operands.

    Parameters
    ----------
    value : bool, int, float, str, datetime.date, datetime.datetime, datetime.timedelta, datetime.time or NumPy's
        An expression is returned as it is.

    Raises
    ------
    ParameterError
        The value is None (which is unknown), an integer beyond int64, a decimal, or no constant.

    Examples
    --------
    >>> lit(10) - col("price")
    10 - col('price')
    """
    if isinstance(value, Expression):
        return value
    if value is None:
        raise ParameterError(
            "None: is not a constant, since whatever is compared with it or computed from it is unknown; use .is_null() or"
            " .is_not_null()"
        )
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | float | str | datetime.date):
        return Literal(value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ParameterError(f"{value}: is beyond int64, in which whole numbers are computed; give a float, {value}.0")
        return Literal(value)
    if isinstance(value, decimal.Decimal):
        raise ParameterError(f"{value!r}: decimals are not carried; write float({value})")
    raise ParameterError(
        f"{value!r}: is a {type(value).__name__}; give an expression or a bool, int, float, string or time"
    )


def column_name(function: str, column: object) -> str:
    """Return the name from a name or ``col(name)``, given to `function` of this package."""
    if isinstance(column, Column):
        return column.name
    if isinstance(column, str) and column:
        return column
    raise ParameterError(
        f"{function}({column!r}): a column name is needed; compute such a column with map first"
    )
