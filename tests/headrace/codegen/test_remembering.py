"""What a call was found to mean is remembered, and as what it was."""

from types import SimpleNamespace

import numpy as np
import pytest
from numba import njit, types
from numba.core.compiler import Compiler, Flags
from numba.core.targetconfig import ConfigStack
from numba.core.typing.templates import AbstractTemplate
from numba.extending import overload

from headrace import remembering
from headrace.kernel import JIT
from headrace.remembering import KnownFlags, QuickCompiler, RememberingContext

pytestmark = pytest.mark.skipif(not JIT, reason="nothing is compiled")


def made(function, flag="python", compiler=QuickCompiler):
    return njit(error_model=flag, pipeline_class=compiler)(function)


def shared_out(whole, parts):
    """For compiled code alone."""
    raise NotImplementedError


@overload(shared_out)
def _shared_out(whole, parts):
    return lambda whole, parts: whole / parts


def first(whole, parts):
    return shared_out(whole, parts)


def second(whole, parts):
    return shared_out(whole, parts) + 1.0


def third(whole, parts):
    return shared_out(whole, parts) + 2.0


def test_flags_are_those_of_numba_and_follow_what_is_set():
    flags, numbas = KnownFlags(), Flags()
    for name, value in (("nrt", True), ("boundscheck", True), ("error_model", "numpy"), ("nrt", False)):
        setattr(flags, name, value)
        setattr(numbas, name, value)
        assert flags.values() == numbas.values() and hash(flags) == hash(numbas)
        assert flags == numbas and flags == flags.copy() == KnownFlags(numbas) and isinstance(flags.copy(), KnownFlags)
        assert flags.answers is flags.copy().answers
    assert flags != KnownFlags() and flags.answers is not KnownFlags().answers


def divides_as_its_flags_say():
    """The same call by other flags in between, which note another implementation of the same function."""
    for function, plus in ((first, 0), (second, 1), (third, 2)):
        assert made(function, "numpy")(1.0, 0.0) == np.inf
        with pytest.raises(ZeroDivisionError):
            made(function)(1.0, 0.0)
        assert made(function)(3.0, 2.0) == 1.5 + plus


def test_example_a_call_does_what_the_flags_of_its_caller_say():
    divides_as_its_flags_say()


def test_planted_flags_that_share_their_answers(monkeypatch):
    answers: dict = {}
    monkeypatch.setattr(remembering, "_answers", lambda values: answers)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE .*ZeroDivisionError"):
        divides_as_its_flags_say()


def test_planted_implementation_that_is_not_noted_again(monkeypatch):
    asked = RememberingContext.resolve_function_type

    def forgets(context, func, args, kws):
        function = context._lookup_global(func) or func
        answers = getattr(ConfigStack.top_or_none(), "answers", {})
        noted = dict(function._impl_keys) if (function, args) in answers else {}
        signature = asked(context, func, args, kws)
        if noted:
            function._impl_keys.update(noted)
        return signature

    monkeypatch.setattr(RememberingContext, "resolve_function_type", forgets)
    monkeypatch.setattr(remembering, "_ANSWERS", [])
    with pytest.raises(ZeroDivisionError, match="division by zero"):  # where infinity is wanted
        divides_as_its_flags_say()


def test_example_what_is_registered_later_is_found():
    def later(value):
        raise NotImplementedError

    def calls(value):
        return later(value)

    def calls_again(value):
        return later(value)

    overload(later)(lambda value: (lambda value: value + 1) if isinstance(value, types.Integer) else None)
    assert made(calls)(1) == 2
    overload(later)(lambda value: (lambda value: value + 0.5) if isinstance(value, types.Float) else None)
    assert made(calls_again)(1.0) == 1.5 and made(calls_again)(1) == 2


def test_agree_with_numba_and_ask_less(monkeypatch):
    """Mixed types, literals, arrays, tuples: the same results, of less than half of the questions."""
    asked = SimpleNamespace(times=0)
    applied = AbstractTemplate.apply

    def counted(self, args, kws):
        asked.times += 1
        return applied(self, args, kws)

    def mixed(numbers, pair, x):
        total = numbers[0] * 0.5
        for i in range(numbers.shape[0]):
            total = total + numbers[i] * x - (pair[0] if numbers[i] > 3 and i % 2 == 0 else pair[1])
            total = total + (numbers[i] >> 1) + (-(numbers[i]) & 7)
            numbers[i] = numbers[i] + 1
        return total, numbers[-1], min(total, 3.5), abs(x) ** 2, -7 // 2, x != x

    monkeypatch.setattr(AbstractTemplate, "apply", counted)
    found, questions = [], []
    for compiler in (Compiler, QuickCompiler):
        function = made(mixed, compiler=compiler)
        function(np.arange(3), (1, 2.5), 0.25)  # whatever is asked once in a process
        asked.times = 0
        found.append(made(mixed, compiler=compiler)(np.arange(9), (1, 2.5), 0.25))
        questions.append(asked.times)
    assert found[0] == found[1]
    assert 0 < 2 * questions[1] < questions[0], questions
