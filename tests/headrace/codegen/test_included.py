"""Files of kernels as part of a generated module.

Method      a file is written, imported, and included in a generated source
Oracle      the file's own text: what follows its imports must be there to the letter
Cannot see  whether what the file leaves open has a meaning there; running the operators does
"""

import importlib.util
import inspect

import pytest

from headrace.codegen import included
from headrace.codegen.modules import load_module
from headrace.elastic import instance_loop
from headrace.elastic.build import SHARING, loop_source, sources
from headrace.gates import reader_kernel
from planted_mistakes import fails, planted

FILE = '''"""Words such as `import` and "from headrace.kernel import kernel" are of no account here."""

from __future__ import annotations

import numpy as np

from headrace.ingress.store import (
    CHUNK,
    KEYS,  # a comment
)
from headrace.kernel import kernel
from headrace.references import BUCKETS as MANY

TEXT = """
from headrace.kernel import kernel
"""


@kernel
def scaled(x):
    return x * FACTOR + MANY  # FACTOR is the generated module's
'''


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "file_of_kernels.py"
    path.write_text(FILE)
    spec = importlib.util.spec_from_file_location("file_of_kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_text(module):
    text = included.included(module, {"headrace.ingress.store": "headrace.elsewhere"})
    assert text.endswith(FILE[FILE.index("\n\nTEXT = ") :]), "what follows the imports is not as it stands"
    assert "from headrace.elsewhere import CHUNK, KEYS\n" in text, "a name from elsewhere"
    assert "from headrace.references import BUCKETS as MANY\n" in text


def test_example_text_is_as_it_stands(module):
    check_text(module)


def test_example_a_name_that_the_file_leaves_open(module):
    text = included.included(module, {"headrace.ingress.store": ""})
    assert "CHUNK" not in text
    assert load_module("FACTOR = 3\n\n" + text + "\n\n@kernel\ndef entry(x):\n    return scaled(x)\n").entry(5) == 15 + 1024


def test_example_a_query_that_starts_again_has_no_file_parsed(monkeypatch):
    """Each start writes the sources of its operators: 5 of its 10 milliseconds would go into this."""
    gates = ("headrace.gates.merged_log_kernel", "headrace.gates.scalegate_kernel")
    for gate in gates:
        sources("", gate, SHARING)
    monkeypatch.setattr(included, "_opening", lambda *_: pytest.fail("a file is parsed again"))
    for gate in gates:
        sources("", gate, SHARING)


def test_example_the_loop_is_included_whole():
    text = loop_source("headrace.gates.scalegate_kernel")
    for module in (instance_loop, reader_kernel):
        source = inspect.getsource(module)
        first = source.index("\n@kernel")
        assert source[first:].strip() in text
    assert "merged_log_kernel" not in text.partition("def ")[0]
    assert "from headrace.gates.reader_kernel" not in text


@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [
        ("source.splitlines()[end:]", "source.splitlines()[end + 1:]", "what follows the imports"),
        ("source.splitlines()[end:]", 'source.replace("headrace.kernel", "headrace.codegen.modules").splitlines()[end:]',
         "what follows the imports"),
        ('.get(statement.module or "", statement.module)', '.get("", statement.module)', "a name from elsewhere"),
        ("            break\n", "            pass\n", "what follows the imports"),
    ],
)  # fmt: skip
def test_planted_mistakes_are_found(module, right, wrong, expected):
    with planted(included, right, wrong), fails(f"AssertionError: {expected}"):
        check_text(module)
