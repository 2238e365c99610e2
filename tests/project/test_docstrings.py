"""What `help` shows of the public names: each says what it takes, and functions show how they are called.

Property    of the modules below, every name in ``__all__`` has a docstring that names each parameter; so has every public
            method and property of its classes; every function has an example
Cannot see  whether what they say is true (`test_examples` runs the examples)
"""

import inspect
import re

import pytest

import headrace
import headrace.report
import headrace_datasets
import headrace_widgets

MODULES = [
    headrace, headrace.controllers, headrace.prometheus, headrace.rates, headrace.reference, headrace.report, headrace.spark,
    headrace_datasets, headrace_widgets,
]  # fmt: skip
MADE_ELSEWHERE = {"Stream", "Endpoint", "Dataset"}
"""Classes that users do not call; the functions that make their objects say what they take."""


def callables():
    """Public functions and classes, and the public methods and properties of these classes, each once: name -> callable."""
    found = {}
    for module in MODULES:
        for name in module.__all__:
            what = getattr(module, name)
            if inspect.ismodule(what) or not callable(what):
                continue
            found[f"{what.__module__}.{name}"] = what
            for part, member in inspect.getmembers(what) if inspect.isclass(what) else ():
                member = member.fget if isinstance(member, property) else member
                if not part.startswith("_") and (inspect.isfunction(member) or inspect.ismethod(member)):
                    found[f"{member.__module__}.{member.__qualname__}"] = member
    return found


PUBLIC = callables()


def lacking(name, what):
    """What the docstring of something public lacks."""
    text = inspect.getdoc(what) or ""
    is_class = inspect.isclass(what)
    if is_class and (issubclass(what, BaseException) or what.__name__ in MADE_ELSEWHERE or getattr(what, "_is_protocol", False)):
        return [] if text else ["docstring"]
    taken = [one for one in inspect.signature(what).parameters if one not in ("self", "cls")]
    lacks = [one for one in taken if not re.search(rf"\b{one}\b", text)] if text else ["docstring"]
    if inspect.isfunction(what) and what.__qualname__ == what.__name__ and ">>>" not in text:
        lacks.append("example")
    return lacks


@pytest.mark.parametrize("name", PUBLIC)
def test_example_a_public_name_says_what_it_takes(name):
    assert lacking(name, PUBLIC[name]) == []


def test_planted_a_parameter_that_nothing_is_said_of_is_seen():
    def half_said(known, unknown):
        """Take what is `known`.

        >>> half_said(1, 2)
        """

    assert lacking("half_said", half_said) == ["unknown"]
    half_said.__doc__ = None
    half_said.__qualname__ = "half_said"
    assert lacking("half_said", half_said) == ["docstring", "example"]
