"""Generated code that is called by its address, from kernels that are compiled once for all operators.

An engine's loop is the same for every query, and user code is a small part of what it runs. Compiled as one unit with
user code, the loop would be compiled again for each query: 16 s of 20 for a transaction of ten lines. Here the loop calls
an entry of the generated module by its address, under Numba's own calling convention, so that an exception passes
through it as through any call. The cost is an indirect call, of some 2 ns, and the lack of inlining across it.

A bundle whose fields differ from operator to operator is passed to the loop as a plain address (`memory.bundle.opaque`), which
is how a kernel represents a bundle anyway.

Without the compiler, an address is the number of a Python function in a table.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numba import typeof, types
from numba.core import cgutils
from numba.extending import intrinsic

from headrace.codegen.modules import load_module
from headrace.codegen.text import indent
from headrace.kernel import JIT, compile_now
from headrace.memory.bundle import is_bundle, opaque, place_of

_functions: dict[int, Callable] = {}
_numbers = itertools.count(1)


def address_of(function: Any, arguments: tuple) -> int:
    """Compile an entry for these arguments, and return its address.

    Parameters
    ----------
    function : callable
        Compiled by `headrace.codegen.modules`, an entry of its module; returns an int64. It must stay alive.
    arguments : tuple
        The arguments of later calls; bundles as they are.
    """
    if not JIT:
        number = next(_numbers)
        _functions[number] = function
        return number
    signature = tuple(typeof(argument) for argument in arguments)
    if signature not in function.overloads:
        function.compile(signature)
    compiled = function.overloads[signature]
    assert compiled.signature.return_type == types.int64, compiled.signature
    return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name))


class Bound:
    """A compiled function with the bundle that is its first argument, for callers that only know addresses.

    Parameters
    ----------
    function : callable
        Its first parameter is the bundle; returns an int64.
    bundle : bundle
    arguments : tuple
        Examples of the others.
    """

    def __init__(self, function: Any, bundle: Any, arguments: tuple):
        self.bundle = bundle
        self.addresses = address_of(function, (bundle, *arguments)), place_of(bundle)
        """Addresses of the function and of the bundle, valid while this object lives."""
        if not JIT:
            _functions[self.addresses[0]] = lambda _, *others: function(bundle, *others)
            weakref.finalize(self, _functions.pop, self.addresses[0])


if JIT:

    @intrinsic
    def call(typingctx, address, arguments):
        """Call the function at an address with a tuple of arguments; returns its int64."""
        signature = types.int64(address, arguments)

        def codegen(context, builder, sig, args):
            given, packed = args
            kinds = list(sig.args[1])
            values = cgutils.unpack_tuple(builder, packed, len(kinds))
            convention = context.call_conv
            kind = convention.get_function_type(types.int64, kinds)
            pointer = builder.inttoptr(given, kind.as_pointer())
            status, result = convention.call_function(builder, pointer, types.int64, kinds, values)
            with cgutils.if_unlikely(builder, status.is_error):
                convention.return_status_propagate(builder, status)
            return result

        return signature, codegen

else:

    def call(address, arguments):
        """Call the function at an address with a tuple of arguments; returns its int64."""
        return _functions[address](*arguments)


class Entry(NamedTuple):
    """An entry of generated code, which a loop calls.

    Parameters
    ----------
    name : str
        Name of the kernel in the generated code, and in the loop.
    parameters : str
        Parameters as the loop passes them.
    body : str
        How the entry calls the generated kernel; it returns an int64.
    """

    name: str
    parameters: str
    body: str


_ENTRY = """
@kernel
def entry_{name}({parameters}):
{body}
"""

_STUB = """
@kernel
def {name}({parameters}):
    return call(l[{word}], ({parameters},))
"""


def entries_text(entries: Sequence[Entry]) -> str:
    """Return the text of the entries, which follows the generated kernels."""
    texts = [_ENTRY.format(name=e.name, parameters=e.parameters, body=indent(e.body, 1)) for e in entries]
    return "\n".join(["import numpy as np", *texts])


def stubs_text(entries: Sequence[Entry], place: int) -> str:
    """Return the text of the stubs that the loop calls by name; addresses are in ``l`` from word `place` on."""
    stubs = [_STUB.format(name=e.name, parameters=e.parameters, word=place + i) for i, e in enumerate(entries)]
    return "\n".join(["from headrace.codegen.called import call", *stubs])


def names_of(entries: Sequence[Entry]) -> tuple[str, ...]:
    """Return the names of the entries' functions, for `load_module`."""
    return tuple(f"entry_{entry.name}" for entry in entries)


def load_looped(
    kernels_text: str, name: str, loop_text: str, loop_name: str, entries: Sequence[Entry], place: int, parameters: str,
    debug: bool = False,
) -> Looped:  # fmt: skip
    """Load an operator's generated kernels with their entries, and the loop ``run_worker``, whose bundle ``s`` is the operator's.

    Parameters
    ----------
    kernels_text : str
        The generated kernels.
    name : str
        Name of the generated module, for readers of profiles.
    loop_text : str
        Text that is the same for all operators, so that it is compiled once.
    loop_name : str
    entries, place, parameters
        As in `Looped`.
    debug : bool
        Check bounds in the generated code.
    """
    text = "\n\n".join([kernels_text.strip(), entries_text(entries)])
    generated = load_module(text, name, debug=debug, entry=names_of(entries))
    loop = load_module(loop_text, loop_name, entry="run_worker")
    return Looped(generated, loop.run_worker, entries, place, parameters, ("s",))


class Looped:
    """The entries of generated code, and the loop that calls them.

    Parameters
    ----------
    generated : module
    run : compiled function
        The loop.
    entries : sequence of Entry
    place : int
        First of the words of ``l`` that hold the addresses.
    parameters : str
        Parameters of the loop; the operator's own bundles are `opaque` to it.
    hidden : sequence of str
        Names of these bundles.
    """

    def __init__(
        self, generated: ModuleType, run: Any, entries: Sequence[Entry], place: int, parameters: str, hidden: Sequence[str]
    ):
        self.generated, self._run, self._entries, self._place = generated, run, entries, place
        self._names, self._hidden = parameters.split(", "), set(hidden)
        self._l = self._names.index("l")
        self._addresses: np.ndarray | None = None

    def compile(self, arguments: tuple) -> None:
        """Compile for these arguments of the loop without running it."""
        given = dict(zip(self._names, arguments, strict=True))
        addresses = []
        for entry in self._entries:
            values = tuple(given.get(parameter, 0) for parameter in entry.parameters.split(", "))
            addresses.append(address_of(getattr(self.generated, f"entry_{entry.name}"), values))
        self._addresses = np.array(addresses, np.int64)
        compile_now(self._run, self._seen(arguments))

    def run(self, *arguments: Any) -> int:
        """Run the loop."""
        if self._addresses is None:
            self.compile(arguments)
        assert self._addresses is not None
        arguments[self._l][self._place : self._place + len(self._addresses)] = self._addresses
        return self._run(*self._seen(arguments))

    def _seen(self, arguments: tuple) -> tuple:
        """Return the arguments as the loop sees them."""
        return tuple(
            opaque(value) if name in self._hidden and is_bundle(value) else value
            for name, value in zip(self._names, arguments, strict=True)
        )
