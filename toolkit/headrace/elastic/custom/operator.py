"""The custom operator O+: up to three plain functions and what they work on.

=========  ========================  ==================================================
the paper  function                  called
=========  ========================  ==================================================
f_U        update(state, t, emit)    for each tuple, in each window of each of its keys,
           or update(key, state,     before the tuple is kept, if tuples are;
           t, emit)                  left out without state: keep the tuple
f_O        output(key, state, emit)  when a window expires
f_S        slide(key, state, left)   with one instance per key (WT=single), when it has
                                     moved on and now begins at `left`, before those kept
                                     tuples are forgotten that lie before it,
                                     unless ``purge=False`` leaves that to it
=========  ========================  ==================================================

``state.name`` are the fields of the window instance, ``t.name`` the columns of
the tuple (timestamps and durations as integers in the unit of their column,
strings to be compared, kept and emitted),
``t.ts`` its event time as an integer in the stream's unit (of a timestamp column
microseconds), ``t.input`` which input it came from; ``emit(name=value, ...)`` makes a result, at the right boundary of the
window, to which the engine adds the key columns. The functions are compiled
(`headrace.codegen.functions` says what that asks of them).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.arguments import is_whole_number
from headrace.codegen.kinds import Kind, arrow_of
from headrace.codegen.state import StateField, read_emits, read_state
from headrace.errors import OverflowInputError, ParameterError
from headrace.names import explains_arguments

MAX_TUPLES = 100_000_000
"""Tuples that windows without `update` may keep at once, if not said otherwise."""


@dataclass(frozen=True, eq=False)
class CustomOperator:
    """What `operator` returns: hand it to ``keyed.window(...).apply(...)``."""

    name: str
    state: Mapping[str, StateField]
    emits: Mapping[str, Kind]
    update: Callable | None
    output: Callable | None
    slide: Callable | None
    keeps_tuples: bool = False
    """The functions may read the tuples of their window."""
    purges: bool = True
    """Kept tuples that lie before the window leave it by themselves."""
    max_tuples: int = MAX_TUPLES
    bound: dict[Any, Any] = field(default_factory=dict, repr=False)
    """The functions as rewritten so far, by what they are applied to: rewriting reads their source file."""

    @property
    def update_arguments(self) -> tuple[str, ...]:
        """The roles of its parameters: one with four reads the key of its window, too."""
        code = getattr(getattr(self.update, "py_func", self.update), "__code__", None)
        reads_key = code is not None and code.co_argcount == 4
        return ("key", "state", "t", "emit") if reads_key else ("state", "t", "emit")

    @property
    def output_fields(self) -> list[pa.Field]:
        """Result columns, beside the event time and the keys."""
        return [pa.field(name, arrow_of(kind)) for name, kind in self.emits.items()]

    def check_windows(self, instances: str) -> None:
        """Raise `ParameterError` if it slides where no window does; `instances` is "multi" or "single"."""
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
        Fields of a window instance: name -> kind ("int64", "int32", "float64",
        "float32", "bool", "string", a time such as "timestamp[us]"; begins at
        zero, a string empty; or `hr.list_of`, `hr.set_of`, `hr.map_of`,
        `hr.array`; empty) or name -> first value (a whole number, a float or a
        bool, which says the kind too). What lists, sets and maps take at once
        is limited by ``start(max_state=)``, and given back when the window ends.
    emits : dict, optional
        Columns of the results beside event time and keys: name -> kind. Lists,
        sets and arrays become Arrow lists, maps become Arrow maps, sets and maps
        in the order of their keys.
    update : function (state, t, emit) or (key, state, t, emit), optional
        f_U. Without it a tuple only makes its windows exist; without `state`
        too, each window keeps its tuples, the paper's default.
    output : function (key, state, emit), optional
        f_O. Without it nothing is emitted at expiry. A key that is a number, a
        bool or a string can be read, a tuple of them by ``key[0]``; it need not
        be emitted: every result has the key columns. Kept tuples are read by
        ``for t in state.tuples:``, in the order of the input, and counted by
        ``len(state.tuples)``; t has what it has in `update`.
    slide : function (key, state, left), optional
        f_S, for ``instances="single"``: take out of the state what lies before
        `left`. Without it the state stays as it is. The instance ends when no
        tuple of its key lies in it any more. Kept tuples that lie before `left`
        leave by themselves, behind this call, which may read them for the last time.
    keep_tuples : bool, optional
        Windows keep their tuples beside `state`, and all three functions read them as
        ``state.tuples``; in `update` those that came before t, which is kept behind the
        call. By default they do without `state` and `update`. A function takes tuples
        out by ``state.tuples = [t for t in state.tuples if ...]``, not inside a loop
        over them; the condition says which ones stay.
    purge : bool, optional
        False: kept tuples stay until a function takes them out, or their instance ends,
        however old they are; for ``instances="single"``.
    max_tuples : int, optional
        Most tuples kept at once, one for each of its windows and keys; with
        ``mode="sn"``, in each instance. More stop the run. Memory is taken as
        they come: 17 bytes and those of the columns that `output` reads.
    name : str, optional
        Of the operator in the query.

    Returns
    -------
    CustomOperator

    Raises
    ------
    ParameterError
        A field, a kind, a number or a function that cannot be.
    FunctionError
        Of `start`, where columns are known: a function takes other parameters, or does what is not compiled; the line,
        and what to write.

    Notes
    -----
    Functions are compiled: an integer has 64 bits, and ``+ - * -x abs(x) ** <<`` **wrap
    around** where the result does not fit. ``start(debug=True)`` raises there instead,
    with the line and the tuple. What Python refuses, such as ``math.sqrt(-1)``, ``int(nan)``
    or an index out of bounds, raises as in Python; so does whatever would depend on the
    machine. What may have no value when it is read, ``is`` between numbers, and constants
    beyond 64 bits are refused with their line. All that is left to know:

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

    What strings and containers do in functions, and what not; all else is refused with its line:

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

    In containers, NaN is one key and the last in order. A loop over a set or map whose keys change raises
    RuntimeError at its next turn, even if there are as many keys as before. Lists made in passing, such as
    ``sorted(state.words)[:3]``, can be looped over, emitted, given a name, or given to a list of the state. An empty one,
    ``[]``, can be emitted or given to a list of the state.

    A list that is given to a field is copied: after ``state.last = state.words`` there are two. In ``old = state.words``, `old`
    is another name of the field; a function is refused that reads it after the field was given something else, as by
    ``state.words = []``, where Python's `old` would still have what was there: write ``old = state.words.copy()``. ``sum``
    adds floats one after the other, as Python does before 3.12, which compensates rounding errors; of no floats it is 0.0,
    whose negative is -0.0, where Python's is the integer 0.

    Integers and floats that meet are floats, in ``max`` as in a name that is an integer on
    one path and a float on the other. A null can only be tested with ``is None``. In join
    functions, where narrow types are faster, float32 columns are computed with as float32.
    What `math` and NumPy compute, to the last digit, is as the machine's C library has it.

    STRETCH, Table I: the default f_U stores the tuple, the default f_S purges
    stale ones; with ``purge=False``, f_S is `slide` alone. Kept tuples cost memory and time for each window they lie in;
    where a window can be summed up as tuples come, an `update` does so in a few
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
        raise ParameterError("operator(): give update= or output=, else it can emit nothing")
    if keep_tuples is not None and not isinstance(keep_tuples, bool):
        raise ParameterError(f"keep_tuples={keep_tuples!r}: give True or False")
    keeps_tuples = (update is None and state is None) if keep_tuples is None else keep_tuples
    if not isinstance(purge, bool):
        raise ParameterError(f"purge={purge!r}: give True or False")
    if not purge and not keeps_tuples:
        raise ParameterError("purge=False: only kept tuples are purged; give keep_tuples=True or leave it out")
    if keeps_tuples and slide is not None and state is None and purge:
        raise ParameterError(
            "slide=: windows without state= only keep their tuples, which leave by themselves; give state=,"
            " or purge=False where slide= takes them out"
        )
    if keeps_tuples and "tuples" in fields:
        raise ParameterError("state={'tuples': ...}: that is what kept tuples are read by; give the field another name")
    if not is_whole_number(max_tuples) or max_tuples < 1:
        raise ParameterError(f"max_tuples={max_tuples!r}: give a whole number of tuples, 1 or more")
    if max_tuples >= 2**31:
        raise OverflowInputError(f"max_tuples={max_tuples}: at most {2**31 - 1} tuples can be kept")
    if name is None:
        given = output or update
        name = getattr(given, "__name__", "operator")
        name = name if name.isidentifier() and name not in functions else "operator"
    return CustomOperator(name, fields, columns, update, output, slide, keeps_tuples, purge, int(max_tuples))
