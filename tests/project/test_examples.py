"""Examples of docstrings: each is run, as it stands, and says what comes of it.

Property    what a docstring shows is what happens, in every module of the three packages
Oracle      the docstring
Compiler    off: compiled they would take minutes, and what they show is the same
"""

import doctest
import importlib
import inspect
import pkgutil

import pytest

PACKAGES = ("headrace", "headrace_datasets", "headrace_widgets")


def modules_of(package):
    """Names of a package and of the modules in it, but for those that are programs."""
    found = importlib.import_module(package)
    inside = [one.name for one in pkgutil.walk_packages(found.__path__, f"{package}.")]
    return [package, *(name for name in inside if not name.endswith("__main__"))]


class Finder(doctest.DocTestFinder):
    """Finds the examples of decorated functions, too, which doctest takes for those of the decorator's module."""

    def _from_module(self, module, object):
        return super()._from_module(module, inspect.unwrap(object) if callable(object) else object)


def failing(module):
    """What the examples of a module do other than they say, as doctest puts it; and how many there are."""
    said = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    for test in Finder(exclude_empty=True).find(module, module.__name__):
        runner.run(test, out=said.append)
    return "".join(said), runner.tries


@pytest.mark.logic
@pytest.mark.parametrize("package", PACKAGES)
def test_example_examples_say_what_happens(package, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said, count = [], 0
    for name in modules_of(package):
        wrong, tried = failing(importlib.import_module(name))
        said.append(wrong)
        count += tried
    if wrong := "".join(said):
        pytest.fail(wrong, pytrace=False)
    assert count > 20


def test_planted_an_example_of_a_decorated_function_is_found():
    source = """
        import functools, sys
        def decorate(function):
            return functools.wraps(function)(eval("lambda: function()", {"function": function}))
        @decorate
        def of_one():
            ">>> 1 + 1\\n3\\n"
    """
    module = type(doctest)("planted")
    exec(inspect.cleandoc(source), vars(module))
    assert failing(module)[1] == 1


def test_planted_an_example_that_is_wrong_is_found():
    module = type(doctest)("planted")
    module.__doc__ = ">>> 1 + 1\n3\n"
    said, count = failing(module)
    assert "Expected:" in said and count == 1
