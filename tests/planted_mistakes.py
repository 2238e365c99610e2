"""Show that a check can fail: run it while a mistake is planted in the code under test.

A mistake is a replacement in a module's source text. The functions of the
module are given the code compiled from the changed text, so all code that
imported them runs the mistake too; they are put back afterwards. The functions
must be plain Python, at the top level of their module or of a class there.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType

import pytest
from hypothesis import Phase, given, settings
from hypothesis.strategies import SearchStrategy


@contextlib.contextmanager
def planted(module: ModuleType, text: str, mistake: str) -> Iterator[None]:
    """Run `module` with `text`, which must occur in its source, replaced by `mistake`."""
    source = inspect.getsource(module)
    assert text in source, f"{text!r} is not in {module.__name__}: the mistake is out of date"
    changed = compile(source.replace(text, mistake), inspect.getsourcefile(module), "exec")
    codes = _codes(changed)
    kept, wrong = {}, {}
    for value in vars(module).values():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        inside = _codes(codes[value.__name__]) if isinstance(value, type) and value.__name__ in codes else {}
        found = [(value, codes)] if isinstance(value, FunctionType) else []
        found += [(getattr(each, "__func__", each), inside) for each in vars(value).values()] if inside else []
        for function, of in found:
            if isinstance(function, FunctionType) and function.__name__ in of:
                if function.__code__.co_freevars == of[function.__name__].co_freevars:
                    kept[function], wrong[function] = function.__code__, of[function.__name__]
    try:
        for function, code in wrong.items():
            function.__code__ = code
        yield
    finally:
        for function, code in kept.items():
            function.__code__ = code


def _codes(code: CodeType) -> dict[str, CodeType]:
    return {each.co_name: each for each in code.co_consts if isinstance(each, CodeType)}


@contextlib.contextmanager
def fails(expected: str) -> Iterator[None]:
    """Assert that what is done inside fails, and in the way it must.

    Parameters
    ----------
    expected : str
        Regular expression for the beginning of the error's type and text, as in ``AssertionError: the kept rows``.
    """
    with pytest.raises((Exception, pytest.fail.Exception)) as caught:
        yield
    found = f"{type(caught.value).__name__}: {caught.value}"
    assert re.match(expected, found) is not None, f"expected {expected!r}, found {found!r}"


def assert_found(
    module: ModuleType,
    text: str,
    mistake: str,
    check: Callable,
    cases: SearchStrategy,
    expected: str,
) -> None:
    """Assert that `check`, over drawn cases, fails while the mistake is planted, and in the way it must.

    Parameters
    ----------
    expected : str
        Regular expression for the error's type and text, as in ``AssertionError: the kept rows``.
    """
    drawn = settings(
        max_examples=300, phases=[Phase.generate], database=None, derandomize=True, deadline=None
    )(given(cases)(check))
    with planted(module, text, mistake), fails(expected):
        drawn()
