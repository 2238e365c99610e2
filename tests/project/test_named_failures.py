"""A test that a mistake is seen says which failure it expects: any other would be taken for it.

Method      every `raises` of an error that anything may raise is looked at in the tests' text
Cannot see  whether what is named is what the mistake is about
"""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
WIDE = {"AssertionError", "BaseException", "Exception", "pytest.fail.Exception"}
COMPARED_BELOW = TESTS / "planted_mistakes.py"
"""`fails` itself, which compares type and text with what is expected."""


def unnamed(text):
    """Lines of `raises` of an error that anything may raise, without a word of it."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("raises", "pytest.raises") and node.args:
            kinds = node.args[0].elts if isinstance(node.args[0], ast.Tuple) else node.args[:1]
            if WIDE & {ast.unparse(kind) for kind in kinds} and not any(word.arg == "match" for word in node.keywords):
                yield node.lineno


def test_every_expected_failure_is_named():
    files = [path for path in sorted(TESTS.rglob("*.py")) if path != COMPARED_BELOW]
    assert len(files) > 100
    assert [f"{path.relative_to(TESTS)}:{line}" for path in files for line in unnamed(path.read_text())] == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("with pytest.raises(AssertionError):\n    check()", [1]),
        ("with planted(a, b, c), pytest.raises((ValueError, Exception)) as caught:\n    check()", [1]),
        ("from pytest import raises\nraises(pytest.fail.Exception, check)", [2]),
        ('with pytest.raises(AssertionError, match="other rows"):\n    check()', []),
        ("with pytest.raises(ValueError):\n    check()", []),
    ],
)
def test_planted_raises_without_a_name_are_found(text, lines):
    assert [*unnamed(text)] == lines
