"""Expressions over the columns of a batch: `col`, `lit` and what operators make of them.

An expression is a small tree, evaluated by Arrow. Nulls follow SQL: an
operation on null gives null, ``&`` and ``|`` know that ``false & null`` is
false, and a filter keeps a row only where the condition is true.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import (
    HeadraceError,
    InputError,
    OverflowInputError,
    ParameterError,
    SchemaError,
    UnsupportedTypeError,
)
from headrace.expressions.rows import empty_batch, filter_rows
from headrace.names import instead

_CAST_TYPES = {
    "int64": pa.int64(),
    "int32": pa.int32(),
    "float64": pa.float64(),
    "float32": pa.float32(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
}


class Expression:
    """A value computed for each row from its columns.

    Built by `col`, `lit` and operators: ``+ - * / // %``, comparisons,
    ``& | ~``, `is_null`, `is_not_null`, `is_in`, `abs`, `cast`, `length`.
    Integers are computed as int64 with overflow an error, as float64 beside a
    float; ``/`` gives float64;
    ``//`` and ``%`` round down as in Python, and a zero divisor is an error for
    integers, inf or NaN for floats. NaN equals nothing.

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
            A value cannot be computed: overflow, division by zero, a cast that
            loses something.
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
        """Return the type of the values, for columns of these types; raises as `evaluate` does."""
        return self.evaluate(empty_batch(schema)).type

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

    def __neg__(self) -> Expression:
        return Unary("-", self)

    def __lt__(self, other: object) -> Expression:
        return Binary("<", self, lit(other))

    def __le__(self, other: object) -> Expression:
        return Binary("<=", self, lit(other))

    def __gt__(self, other: object) -> Expression:
        return Binary(">", self, lit(other))

    def __ge__(self, other: object) -> Expression:
        return Binary(">=", self, lit(other))

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return Binary("==", self, lit(other))

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return Binary("!=", self, lit(other))

    # Equality builds an expression, so sets and dictionaries go by identity.
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
        """Whether the value is missing; never null itself."""
        return Unary("is_null", self)

    def is_not_null(self) -> Expression:
        """Whether the value is there; never null itself."""
        return Unary("is_not_null", self)

    def is_in(self, values: Iterable[object]) -> Expression:
        """Whether the value is one of these; null is unknown, as in SQL's IN."""
        if isinstance(values, (str, bytes, Expression)) or not isinstance(values, Iterable):
            raise ParameterError(f"is_in({values!r}): a list of values is needed; write is_in([{values!r}])")
        return IsIn(self, tuple(None if value is None else _constant(value) for value in values))

    def abs(self) -> Expression:
        """Absolute value."""
        return Unary("abs", self)

    def length(self) -> Expression:
        """Length of a string in code points, int64."""
        return Unary("length", self)

    def cast(self, kind: str) -> Expression:
        """Convert to int64, int32, float64, float32, bool, string or timestamp; a lossy value is an error."""
        if kind not in _CAST_TYPES:
            raise ParameterError(f"cast({kind!r}): the kinds are {', '.join(_CAST_TYPES)}")
        return Cast(self, kind)


def _call(expression: Expression, function: Callable, *arguments: Any, **options: Any) -> Any:
    """Call Arrow, and say its errors in the user's words."""
    try:
        return function(*arguments, **options)
    except HeadraceError:
        raise
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError, TypeError) as error:
        types = ", ".join(str(argument.type) for argument in arguments)
        raise UnsupportedTypeError(f"{expression!r}: not defined for {types}; use .cast(...)") from error
    except pa.ArrowInvalid as error:
        text = str(error).splitlines()[0]
        if "overflow" in text:
            raise OverflowInputError(f"{expression!r}: integer overflow; cast to float64 first") from error
        raise InputError(f"{expression!r}: {text}") from error


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
        return pa.scalar(self.value)

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
            return _call(self, pc.invert, _condition(self, value))
        if self.operator == "length":
            if not is_text(value.type):
                raise UnsupportedTypeError(f"{self!r}: only strings have a length, not {value.type}")
            return pc.utf8_length(value).cast(pa.int64())
        value = _widened(value)
        return _call(self, pc.negate_checked if self.operator == "-" else pc.abs_checked, value)

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
        return _call(self, lambda array: pc.cast(array, _CAST_TYPES[self.kind], safe=True), value)

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
        # NaN equals nothing here as in ==, so it is not in any list.
        known = [value for value in self.values if value is not None and value == value]
        found: Any = pa.scalar(False)
        for value in known if pa.types.is_null(array.type) else ():
            found = pc.equal(array, pa.scalar(value))
        if known and not pa.types.is_null(array.type):
            target = array.type if is_text(array.type) or pa.types.is_temporal(array.type) else None
            options = _call(self, lambda side: _value_set(known, target), array)
            if target is None and options.type != array.type:
                common = _common_type(self, array.type, options.type)
                array, options = array.cast(common, safe=False), options.cast(common, safe=False)
            if pa.types.is_floating(array.type):
                # Arrow tells -0.0 from 0.0 here, though not in ==.
                array, options = pc.add(array, 0.0), pc.add(options, 0.0)
            found = _call(self, lambda side: pc.is_in(side, value_set=options), array)
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
            return _call(self, function, _condition(self, left), _condition(self, right))
        if operator in _COMPARISONS:
            left, right = _mixed(*_comparable(self, left, right))
            return _call(self, _COMPARISONS[operator], left, right)
        left, right = _widened(left), _widened(right)
        if operator in ("//", "%"):
            return _divide_down(self, operator, left, right)
        if operator == "/":
            left, right = _as_float(self, left, right), _as_float(self, right, left)
            return _call(self, pc.divide, left, right)
        return _call(self, _ARITHMETIC[operator], *_mixed(left, right))

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


def is_text(type_: pa.DataType) -> bool:
    """Whether it is a string column of any layout but a dictionary."""
    return pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_)


def _condition(expression, value):
    if pa.types.is_null(value.type):
        return value.cast(pa.bool_())
    if not pa.types.is_boolean(value.type):
        raise UnsupportedTypeError(
            f"{expression!r}: & | ~ take conditions, not {value.type}; "
            f"put brackets around each comparison, as in (a > 1) & (b > 2)"
        )
    return value


def _widened(value):
    """Small integers as int64, so that ``int32 + 1`` does not overflow earlier than Python expects."""
    if pa.types.is_integer(value.type) and value.type != pa.int64():
        return _call(lit(0), lambda side: side.cast(pa.int64()), value)
    return value


def _mixed(left, right):
    """An integer beside a float is read as float64, rounded where it has more than 53 bits."""
    floating = [pa.types.is_floating(side.type) for side in (left, right)]
    if any(floating) and not all(floating):
        left, right = (
            pc.cast(side, pa.float64(), safe=False) if pa.types.is_integer(side.type) else side
            for side in (left, right)
        )
    return left, right


def _as_float(expression, value, other):
    if pa.types.is_floating(value.type) and value.type != pa.float16():
        return value
    if pa.types.is_integer(value.type) or pa.types.is_null(value.type) or value.type == pa.float16():
        return pc.cast(value, pa.float64(), safe=False)
    raise UnsupportedTypeError(f"{expression!r}: not defined for {value.type}, {other.type}; use .cast(...)")


def _common_type(expression, left, right):
    if pa.types.is_floating(left) or pa.types.is_floating(right):
        if all(pa.types.is_floating(side) or pa.types.is_integer(side) for side in (left, right)):
            return pa.float64()
    elif pa.types.is_integer(left) and pa.types.is_integer(right):
        return pa.int64()
    raise UnsupportedTypeError(f"{expression!r}: a {left} is never one of {right} values; cast the column")


def _value_set(values, target):
    if target is None:
        return pa.array(values)
    return pa.array([_as_type(pa.scalar(value), target).as_py() for value in values], target)


def _as_type(constant: pa.Scalar, target: pa.DataType) -> pa.Scalar:
    """Read a constant as a column's type: a date written as text, a local time without zone as UTC."""
    if pa.types.is_timestamp(target) and pa.types.is_string(constant.type):
        try:
            moment = datetime.datetime.fromisoformat(constant.as_py())
        except ValueError as error:
            raise ParameterError(
                f"{constant.as_py()!r}: is not an ISO 8601 time such as '2013-01-31 12:00'"
            ) from error
        constant = pa.scalar(moment)
    if pa.types.is_timestamp(target) and pa.types.is_timestamp(constant.type):
        if (constant.type.tz is None) != (target.tz is None):
            # Without a zone means UTC, on either side, as for event times.
            unit = constant.type.unit
            return constant.cast(pa.timestamp(unit, "UTC")).cast(pa.timestamp(unit, target.tz))
        return constant
    if is_text(target) and pa.types.is_string(constant.type):
        return constant.cast(target)
    return constant


def _comparable(expression, left, right):
    if isinstance(right, pa.Scalar) and not isinstance(left, pa.Scalar):
        right = _as_type(right, left.type)
    elif isinstance(left, pa.Scalar) and not isinstance(right, pa.Scalar):
        left = _as_type(left, right.type)
    textual = [is_text(side.type) for side in (left, right) if not pa.types.is_null(side.type)]
    if len(textual) == 2 and textual[0] != textual[1]:
        # Arrow would quietly cast 5 to "5" or fail on "a"; neither is meant.
        raise UnsupportedTypeError(
            f"{expression!r}: compares {left.type} with {right.type}; write the constant as the column's type"
        )
    return left, right


def _divide_down(expression, operator, left, right):
    """Divide with rounding towards minus infinity; Arrow's own rounds towards zero."""
    for side in (left.type, right.type):
        if not (pa.types.is_integer(side) or pa.types.is_floating(side) or pa.types.is_null(side)):
            raise UnsupportedTypeError(
                f"{expression!r}: not defined for {left.type}, {right.type}; use .cast(...)"
            )
    integers = not (pa.types.is_floating(left.type) or pa.types.is_floating(right.type))
    target = pa.int64() if integers else pa.float64()
    scalars = isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar)
    count = 1 if scalars else len(right if isinstance(left, pa.Scalar) else left)
    left, right = pc.cast(left, target, safe=False), pc.cast(right, target, safe=False)
    left = pa.repeat(left, count) if isinstance(left, pa.Scalar) else left
    right = pa.repeat(right, count) if isinstance(right, pa.Scalar) else right
    valid = np.asarray(pc.and_(pc.is_valid(left), pc.is_valid(right)))
    # Null slots hold arbitrary values; 1 divides everything.
    a, b = (np.asarray(pc.fill_null(side, 1)) for side in (left, right))
    a, b = np.where(valid, a, 1), np.where(valid, b, 1)
    if integers and (b == 0).any():
        raise InputError(f"{expression!r}: division by zero; filter such rows out first")
    if integers and operator == "//" and ((b == -1) & (a == np.iinfo(np.int64).min)).any():
        raise OverflowInputError(f"{expression!r}: integer overflow; cast to float64 first")
    with np.errstate(all="ignore"):
        values = np.floor_divide(a, b) if operator == "//" else np.remainder(a, b)
    result = pa.array(values, target, mask=~valid)
    return result[0] if scalars else result


def col(name: str) -> Expression:
    """Refer to a column of the stream.

    Parameters
    ----------
    name : str

    Raises
    ------
    ParameterError
        It is no name. Whether there is such a column, the call says that takes the expression.

    Examples
    --------
    >>> col("price") * 2 > 10
    (col('price') * 2) > 10
    """
    if not isinstance(name, str) or not name:
        raise ParameterError(f"col({name!r}): a column name is needed")
    return Column(name)


def _constant(value: object) -> Any:
    literal = lit(value)
    if not isinstance(literal, Literal):
        raise ParameterError(f"is_in([{literal!r}]): the values must be constants; compare with == instead")
    return literal.value


def lit(value: object) -> Expression:
    """Make a constant of a bool, int, float, string, date or time; operators do it for their operands.

    Parameters
    ----------
    value : bool, int, float, str, datetime.date, datetime.datetime, datetime.timedelta, datetime.time or NumPy's
        An expression is given back as it is.

    Raises
    ------
    ParameterError
        None, which nothing equals, an integer beyond 64 bits, a decimal, or what is no constant.

    Examples
    --------
    >>> lit(10) - col("price")
    10 - col('price')
    """
    if isinstance(value, Expression):
        return value
    if value is None:
        raise ParameterError("None: compares as unknown with everything; use .is_null() or .is_not_null()")
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | float | str | datetime.date):
        return Literal(value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ParameterError(f"{value}: does not fit in 64 bits")
        return Literal(value)
    if isinstance(value, decimal.Decimal):
        raise ParameterError(f"{value!r}: decimals are not carried; write float({value})")
    raise ParameterError(
        f"{value!r}: is a {type(value).__name__}; give an expression or a bool, int, float, string or time"
    )


def column_name(function: str, column: object) -> str:
    """Take a name or ``col(name)``, for `function` of this package."""
    if isinstance(column, Column):
        return column.name
    if isinstance(column, str) and column:
        return column
    raise ParameterError(
        f"{function}({column!r}): a column name is needed; compute such a column with map first"
    )
