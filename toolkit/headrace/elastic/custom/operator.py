"""The custom operator O+: up to three plain functions, and the state and tuples they work on.

=========  ========================  ==================================================
the paper  function                  called
=========  ========================  ==================================================
f_U        update(state, t, emit)    for each tuple, in each window of each of its keys,
           or update(key, state,     before the tuple is kept, if tuples are;
           t, emit)                  left out without state: keep the tuple
f_O        output(key, state, emit)  when a window expires
f_S        slide(key, state, left)   with one instance per key (WT=single), when its window
                                     has moved on and now begins at `left`; kept tuples
                                     before `left` are removed after the call, except
                                     with ``purge=False``
=========  ========================  ==================================================

``state.name`` is a field of the window instance, and ``t.name`` a column of
the tuple (timestamps and durations are integers in the unit of their column;
strings can be compared, kept and emitted).
``t.ts`` is its event time as an integer in the stream's unit (microseconds for a
timestamp column), and ``t.input`` the number of its input. ``emit(name=value, ...)`` makes a result at the right
boundary of the window, to which the engine adds the key columns. The functions are compiled
(`headrace.codegen.functions` says what that requires of them).
"""

from __future__ import annotations

import dis
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.arguments import is_whole_number
from headrace.callers import depth_of_caller
from headrace.codegen.kinds import Kind, arrow_of
from headrace.codegen.state import StateField, read_emits, read_state
from headrace.errors import NoResultsWarning, OverflowInputError, ParameterError
from headrace.names import explains_arguments

MAX_TUPLES = 100_000_000
"""Default of `max_tuples`: the most tuples that windows keep at once."""
_WITH_EMIT = 3
"""Parameters that a function has at least, if the last is `emit`."""


@dataclass(frozen=True, eq=False)
class CustomOperator:
    """What `operator` returns, for ``keyed.window(...).apply(...)``."""

    name: str
    state: Mapping[str, StateField]
    emits: Mapping[str, Kind]
    update: Callable | None
    output: Callable | None
    slide: Callable | None
    keeps_tuples: bool = False
    """Whether the functions may read the tuples of their window."""
    purges: bool = True
    """Whether kept tuples that lie before the window are removed automatically."""
    max_tuples: int = MAX_TUPLES
    bound: dict[Any, Any] = field(default_factory=dict, repr=False)
    """The functions rewritten so far, by inputs, key types and `debug`: rewriting reads their source file."""

    @property
    def update_arguments(self) -> tuple[str, ...]:
        """The roles of the parameters of `update`: with four parameters it reads the key of its window, too."""
        code = getattr(getattr(self.update, "py_func", self.update), "__code__", None)
        reads_key = code is not None and code.co_argcount == 4
        return ("key", "state", "t", "emit") if reads_key else ("state", "t", "emit")

    @property
    def output_fields(self) -> list[pa.Field]:
        """Result columns, beside the event time and the keys."""
        return [pa.field(name, arrow_of(kind)) for name, kind in self.emits.items()]

    def check_windows(self, instances: str) -> None:
        """Raise `ParameterError` if it has a `slide` but its windows do not slide; `instances` is "multi" or "single"."""
        if self.slide is not None and instances != "single":
            raise ParameterError(
                'slide=: windows slide only with one instance per key; write .window(..., instances="single")'
                " or leave it out"
            )
        if not self.purges and instances != "single":
            raise ParameterError(
                'purge=False: windows slide only with one instance per key; write .window(..., instances="single")'
                " or leave it out"
            )


def _may_emit(function: Callable | None) -> bool:
    """Whether a function reads its last parameter, which is `emit` unless it was left out; True if that cannot be known."""
    if function is None:
        return False
    code = getattr(getattr(function, "py_func", function), "__code__", None)
    if code is None:
        return True
    parameters = code.co_varnames[: code.co_argcount]
    if len(parameters) < _WITH_EMIT and "emit" not in parameters:  # in another place than the last it is refused later
        return False
    emit = "emit" if "emit" in parameters else parameters[-1]
    loaded = [one.argval for one in dis.get_instructions(code) if one.opname.startswith("LOAD")]
    return any(emit in value if isinstance(value, tuple) else emit == value for value in loaded)  # some load two names


def _warn_of_no_results(name: str, update: Callable | None, output: Callable | None, columns: list[str]) -> None:
    given = {label: function for label, function in (("update", update), ("output", output)) if function is not None}
    who = " and ".join(f"{label}={getattr(function, '__name__', function)}" for label, function in given.items())
    said = f"emit({', '.join(f'{column}=...' for column in columns or ['column'])})"
    where = "in one of them" if len(given) == 2 else "in it"
    other = "" if output is not None else ", or give output=, a function (key, state, emit) that calls it when a window expires"
    warnings.warn(
        f"operator {name!r} will have no results, since {who} never {'call' if len(given) == 2 else 'calls'} emit; call"
        f" {said} {where}{other}",
        NoResultsWarning, stacklevel=depth_of_caller(),
    )  # fmt: skip


@explains_arguments(init="state", emit="emits", outputs="emits", on_tuple="update", on_expiry="output")
def operator(
    *,
    state: Mapping[str, Any] | None = None,
    emits: Mapping[str, Any] | None = None,
    update: Callable | None = None,
    output: Callable | None = None,
    slide: Callable | None = None,
    keep_tuples: bool | None = None,
    purge: bool = True,
    max_tuples: int = MAX_TUPLES,
    name: str | None = None,
) -> CustomOperator:
    """Make a custom operator from plain functions: O+.

    Parameters
    ----------
    state : dict, optional
        Fields of a window instance: name -> kind or first value. A kind is "int64", "int32",
        "float64", "float32", "bool", "string" or a time such as "timestamp[us]", which begin
        at zero or as an empty string; or `hr.list_of`, `hr.set_of`, `hr.map_of` (empty at
        first) or `hr.array`. A first value is a whole number, a float or a bool, and
        determines the kind, too. Memory for lists, sets and maps is limited
        by ``start(max_state=)``, and freed when the window ends.
    emits : dict, optional
        Columns of the results beside event time and keys: name -> kind. Lists,
        sets and arrays become Arrow lists, and maps become Arrow maps; sets and maps
        are in the order of their keys.
    update : function (state, t, emit) or (key, state, t, emit), optional
        f_U. Without it a tuple only creates its windows; without `state`,
        too, each window keeps its tuples, the paper's default.
    output : function (key, state, emit), optional
        f_O. Without it nothing is emitted at expiry. A key that is a number, a
        bool or a string can be read, and a tuple of these as ``key[0]``; it need not
        be emitted, as every result has the key columns. ``for t in state.tuples:`` reads
        kept tuples in input order, and ``len(state.tuples)`` counts them; t is as
        in `update`.
    slide : function (key, state, left), optional
        f_S, for ``instances="single"``: remove from the state what lies before
        `left`. Without it the state stays as it is. The instance ends once no
        tuple of its key lies in it. Kept tuples that lie before `left`
        are removed after this call, which may read them for the last time.
    keep_tuples : bool, optional
        Windows keep their tuples in addition to `state`, and all three functions read them as
        ``state.tuples``; `update` reads those that came before t, which is kept after the
        call. By default they are kept if there is neither `state` nor `update`. A function
        removes tuples by ``state.tuples = [t for t in state.tuples if ...]``, whose condition
        says which ones stay, but not inside a loop over them.
    purge : bool, optional
        False: kept tuples stay until a function removes them or their instance ends,
        however old they are; for ``instances="single"``.
    max_tuples : int, optional
        Most tuples kept at once, counting a tuple once for each of its windows and keys; with
        ``mode="sn"``, in each instance. Exceeding it stops the run. Memory is allocated as
        tuples come: 17 bytes each and those of the columns that `output` reads.
    name : str, optional
        Name of the operator in the query.

    Returns
    -------
    CustomOperator

    Warns
    -----
    NoResultsWarning
        No function calls `emit`, so there will be no results.

    Raises
    ------
    ParameterError
        A field, a kind, a number or a function is invalid.
    FunctionError
        By `start`, when columns are known: a function takes other parameters, or cannot be compiled; the text has the line,
        and what to write.

    Notes
    -----
    Functions are compiled: an integer has 64 bits, and ``+ - * -x abs(x) ** <<`` **wrap
    around** if the result does not fit. ``start(debug=True)`` raises an error there instead,
    with the line and the tuple. What Python refuses, such as ``math.sqrt(-1)``, ``int(nan)``
    or an index out of bounds, raises as in Python; so does anything that would depend on the
    machine. Names that may have no value when they are read, ``is`` between numbers, and constants
    beyond 64 bits are refused with their line. The remaining differences:

    ==========================  ================================  ====================  ====================
    written                     with                              Python                compiled
    ==========================  ================================  ====================  ====================
    t.i + t.j                   i=2**63-1, j=1                    9223372036854775808   -9223372036854775808
    t.i - t.j                   i=-2**63, j=1                     -9223372036854775809  9223372036854775807
    t.i * t.j                   i=2**62, j=3                      13835058055282163712  -4611686018427387904
    -t.i                        i=-2**63                          9223372036854775808   -9223372036854775808
    abs(t.i)                    i=-2**63                          9223372036854775808   -9223372036854775808
    t.i ** t.j                  i=3, j=41                         36472996377170786403  -420491770248316829
    t.i << t.j                  i=1, j=63                         9223372036854775808   -9223372036854775808
    t.i << t.j                  i=1, j=64                         18446744073709551616  OverflowError
    t.i // t.j                  i=-2**63, j=-1                    9223372036854775808   OverflowError
    int(t.x)                    x=2.0**63                         9223372036854775808   OverflowError
    round(t.x)                  x=1e19                            10000000000000000000  OverflowError
    t.i ** t.j                  i=2, j=-1                         0.5                   ValueError
    t.x ** t.y                  x=-1.0, y=0.5                     complex               ValueError
    t.x ** 2                    x=1e200                           OverflowError         inf
    t.x ** 3                    x=8.732795268584088               665.9779282333154     665.9779282333155
    t.i / t.j                   i=1, j=2**53+1                    1.1102230246251564e-16  1.1102230246251565e-16
    t.i == t.x                  i=2**53+1, x=2.0**53              False                 True
    max(t.i, t.x)               i=2**53+1, x=1.0                  9007199254740993      9007199254740992.0
    t.i == 1                    i=None                            False                 ValueError
    l.f * l.f == l.d            f=float32(0.1), d=0.010000000298023226  True            False
    ==========================  ================================  ====================  ====================

    What functions can do with strings and containers; anything else is refused with its line:

    ================  ==========================================================================================
    kind              in functions
    ================  ==========================================================================================
    string            ``== != < <= > >=`` (by code point), ``in`` a tuple or container, ``len`` (code points),
                      ``min(a, b)``, ``max(a, b)``, ``a or b``; other text work, ``+`` too, belongs before the window, in
                      Spark or in an expression
    hr.list_of        ``x[i]``, ``x[i] = v``, ``x[i] += v``, slices (no step), ``in``, ``len``, loops, ``append extend insert pop
                      remove index count sort reverse clear copy``, ``min max sum sorted list``; given a list of its
                      kind or ``[]``
    hr.set_of         ``in``, ``len``, loops in the order of the elements, ``add discard remove clear``, ``min max sum sorted
                      list``; given ``set()``
    hr.map_of         ``d[k]``, ``d[k] = v``, ``d[k] += v``, ``in``, ``len``, loops in the order of the keys (also over
                      ``items() keys() values()``), ``get(k, default) setdefault pop clear``, ``min max sum sorted list``;
                      given ``{}``. Values that are arrays or records are read and written by element, as in
                      ``d[k].n += 1``, and are zeros for a new key
    hr.array          ``x[i]``, ``x[i] = v``, ``x[i] += v``, slices that are read, ``in``, ``len``, loops, ``min max sum
                      sorted list``
    ================  ==========================================================================================

    In containers, NaN is one key, the last in order. A loop over a set or map whose keys change raises
    RuntimeError at its next iteration, even if the number of keys is the same. Temporary lists, such as
    ``sorted(state.words)[:3]``, can be looped over, emitted, given a name, or assigned to a list of the state. An empty list,
    ``[]``, can be emitted or assigned to a list of the state.

    A list assigned to a field is copied: after ``state.last = state.words`` there are two. In ``old = state.words``, `old`
    is another name for the field. A function that reads it after another assignment to the field, such as
    ``state.words = []``, is refused, since Python's `old` would still have the former list: write
    ``old = state.words.copy()``. ``sum`` adds floats one after another, as Python does before 3.12, which compensates
    rounding errors; the sum of no floats is 0.0, whose negative is -0.0, where Python's is the integer 0.

    Integers combined with floats become floats, in ``max`` as in a name that is an integer on
    one path and a float on the other. A null can only be tested with ``is None``. In join
    functions, where narrow types are faster, float32 columns are computed as float32.
    The last digits of what `math` and NumPy compute are those of the machine's C library.

    STRETCH, Table I: the default f_U stores the tuple, and the default f_S purges
    stale ones; with ``purge=False``, f_S is `slide` alone. Kept tuples cost memory and time for each window they lie in;
    if a window can be summarised as tuples come, an `update` does so in a few
    fields. To join tuples use `Stream.join`.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> def update(state, t, emit):
    ...     if t.chars > state.chars:
    ...         state.chars = t.chars
    >>> def output(key, state, emit):
    ...     emit(chars=state.chars)
    >>> longest = hr.operator(
    ...     state={"chars": "int64"}, emits={"chars": "int64"}, update=update, output=output)
    >>> posts = pa.table({"ts": [0, 1, 2], "tags": [["a"], ["a", "b"], ["b"]], "chars": [5, 9, 7]})
    >>> tagged = hr.stream(posts, event_time="ts").key_by(tag=hr.each("tags"))
    >>> tagged.window(size=2).apply(longest).to_arrow().to_pylist()[0]
    {'ts': 2, 'tag': 'a', 'chars': 9}

    The same by the defaults of Table I:

    >>> def longest_of(key, state, emit):
    ...     chars = 0
    ...     for t in state.tuples:
    ...         chars = max(chars, t.chars)
    ...     emit(chars=chars)
    >>> tagged.window(size=2).apply(
    ...     hr.operator(emits={"chars": "int64"}, output=longest_of)).to_arrow().to_pylist()[0]
    {'ts': 2, 'tag': 'a', 'chars': 9}

    An `update` that reads the tuples before its own joins them:

    >>> def meet(state, t, emit):
    ...     for u in state.tuples:
    ...         if u.input != t.input and abs(u.chars - t.chars) <= 1:
    ...             emit(one=u.chars, other=t.chars)
    >>> near = hr.operator(emits={"one": "int64", "other": "int64"}, update=meet, keep_tuples=True)
    >>> both = hr.inputs(hr.stream(posts, event_time="ts"), hr.stream(posts, event_time="ts"))
    >>> both.window(2, 1, instances="single").apply(near).to_arrow().to_pylist()[:2]
    [{'ts': 1, 'one': 5, 'other': 5}, {'ts': 2, 'one': 9, 'other': 9}]

    A `slide` of its own, which lets long posts stay for longer:

    >>> def forget(key, state, left):
    ...     state.tuples = [t for t in state.tuples if t.ts >= left or (t.chars > 8 and t.ts >= left - 2)]
    >>> lasting = hr.operator(emits={"chars": "int64"}, output=longest_of, slide=forget, purge=False)
    >>> tagged.window(2, 1, instances="single").apply(lasting).to_arrow().to_pylist()[-1]
    {'ts': 4, 'tag': 'b', 'chars': 9}
    """
    fields, columns = read_state(state), read_emits(emits)
    functions = {"update": update, "output": output, "slide": slide}
    for label, value in functions.items():
        if isinstance(value, Mapping):
            raise ParameterError(
                f"{label}={value!r}: give a function; the columns of results are named in emits="
            )
        if value is not None and not callable(value):
            raise ParameterError(f"{label}={value!r}: give a function")
    if update is None and output is None:
        raise ParameterError("operator(): give update= or output=; without either it can emit nothing")
    if keep_tuples is not None and not isinstance(keep_tuples, bool):
        raise ParameterError(f"keep_tuples={keep_tuples!r}: give True or False")
    keeps_tuples = (update is None and state is None) if keep_tuples is None else keep_tuples
    if not isinstance(purge, bool):
        raise ParameterError(f"purge={purge!r}: give True or False")
    if not purge and not keeps_tuples:
        raise ParameterError("purge=False: only kept tuples are purged; give keep_tuples=True or leave it out")
    if keeps_tuples and slide is not None and state is None and purge:
        raise ParameterError(
            "slide=: windows without state= only keep their tuples, which are purged automatically; give state=,"
            " or purge=False if slide= removes them"
        )
    if keeps_tuples and "tuples" in fields:
        raise ParameterError("state={'tuples': ...}: functions read kept tuples as state.tuples; give the field another name")
    if not is_whole_number(max_tuples) or max_tuples < 1:
        raise ParameterError(f"max_tuples={max_tuples!r}: give a whole number of tuples, 1 or more")
    if max_tuples >= 2**31:
        raise OverflowInputError(f"max_tuples={max_tuples}: at most {2**31 - 1} tuples can be kept; give a smaller number")
    if name is None:
        given = output or update
        name = getattr(given, "__name__", "operator")
        name = name if name.isidentifier() and name not in functions else "operator"
    if not (_may_emit(update) or _may_emit(output)):
        _warn_of_no_results(name, update, output, list(columns))
    return CustomOperator(name, fields, columns, update, output, slide, keeps_tuples, purge, int(max_tuples))
