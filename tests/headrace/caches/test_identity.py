"""Machine code is found again exactly as long as nothing it was made from has changed.

Method      Small packages on disk, edited between child processes, which print
            what a kernel returns and whether it was compiled; and a table of
            edits of one package with whether each must change the identity.
Cannot see  What a module computes at import from outside its text.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import textwrap

import pytest

from headrace.caches import identity
from headrace.kernel import JIT

CALLEE = '''
"""Of the callee."""
from headrace.kernel import kernel

STEP = 10
UNUSED = 3


@kernel
def step(x):
    """Add a step."""
    return x + STEP  # one step


@kernel
def other(x):
    return x - STEP
'''

CALLER = """
from callee_of_test import step
from headrace.kernel import kernel


@kernel
def twice(x):
    return step(step(x))
"""

CHILD = """
import json, sys
from caller_of_test import twice
print(json.dumps([int(twice(1)), sum(twice.stats.cache_hits.values())]))
"""

EDITS = [
    ("return x + STEP", "return x + STEP + 1", True),
    ("STEP = 10", "STEP = 11", True),
    ("return x - STEP", "return x - 2 * STEP", False),
    ("UNUSED = 3", "UNUSED = 4", False),
    ('"""Add a step."""', '"""Add one step."""', False),
    ("# one step", "# a step", False),
    ('"""Of the callee."""', '"""About the callee.\n\nAt length.\n"""', False),
    ("@kernel\ndef step", "@kernel(inline=True)\ndef step", True),
]


@pytest.fixture
def package(tmp_path):
    (tmp_path / "callee_of_test.py").write_text(CALLEE)
    (tmp_path / "caller_of_test.py").write_text(CALLER)
    return tmp_path


def child(package):
    path = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"XDG_CACHE_HOME": str(package / "cache"), "PYTHONPATH": path}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # bytecode of before is taken for an edit's of the same second and length
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not JIT, reason="the interpreter has no machine code to keep")
def test_example_callers_follow_an_edited_callee(package):
    """The trap of Numba's own cache, which watches the file of the caller alone."""
    assert child(package) == [21, 0]
    assert child(package) == [21, 1]
    callee = package / "callee_of_test.py"
    callee.write_text(CALLEE.replace("Add a step", "Add some step"))
    assert child(package) == [21, 1]  # a docstring is no code
    callee.write_text(CALLEE.replace("STEP = 10", "STEP = 100"))
    assert child(package) == [201, 0]
    callee.write_text(CALLEE)
    assert child(package) == [21, 1]


def kept(package):
    """The files of machine code: name -> path."""
    return {path.name.partition("-")[0]: path for path in (package / "cache" / "headrace" / "machine-code").iterdir()}


@pytest.mark.slow
@pytest.mark.skipif(not JIT, reason="the interpreter has no machine code to keep")
def test_example_what_only_kernels_call_is_linked_from_disk(package):
    """It is compiled once for all its callers, without machine code of its own, and damage costs the time to compile."""
    assert child(package) == [21, 0]
    assert set(kept(package)) == {"linked.callee_of_test.step", "caller_of_test.twice"}
    callee = kept(package)["linked.callee_of_test.step"]
    content = callee.read_bytes()
    assert b"\x7fELF" not in content and b"\x7fELF" in kept(package)["caller_of_test.twice"].read_bytes()

    caller = package / "caller_of_test.py"
    caller.write_text(CALLER.replace("step(step(x))", "step(x) - 1"))
    os.utime(callee, (0, 0))
    assert child(package) == [10, 0]
    assert callee.read_bytes() == content and callee.stat().st_mtime > 0  # a process that loads it marks it as used

    caller.write_text(CALLER.replace("step(step(x))", "step(x) - 2"))
    callee.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert child(package) == [9, 0]
    assert len(callee.read_bytes()) == len(content) and child(package) == [9, 1]

    caller.write_text(CALLER + "\n\nstep(1)\n")
    assert child(package) == [21, 1]
    assert set(kept(package)) >= {"linked.callee_of_test.step", "callee_of_test.step"}


def identity_of(package, monkeypatch):
    """The caller's identity, with the package as it stands on disk."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # see `child`
    for cached in (identity._module, identity._file_of, identity._described, identity._registered):
        cached.cache_clear()
    identity.source_identity.cache_clear()
    monkeypatch.syspath_prepend(str(package))
    for name in ("callee_of_test", "caller_of_test"):
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    return identity.function_identity(importlib.import_module("caller_of_test").twice)


@pytest.mark.parametrize(("text", "edited", "counts"), EDITS, ids=[text for text, _, _ in EDITS])
def test_example_edits_that_count(package, monkeypatch, text, edited, counts):
    before = identity_of(package, monkeypatch)
    assert before is not None
    assert CALLEE.count(text) == 1
    (package / "callee_of_test.py").write_text(CALLEE.replace(text, edited))
    assert (identity_of(package, monkeypatch) != before) == counts


GENERATED = """
from headrace.codegen.modules import compiled
from callee_of_test import step

@compiled
def f(x):
    '''Say something.'''
    return step(x)
"""


def test_example_generated_sources_follow_what_they_import(package, monkeypatch):
    def now(source=GENERATED):
        identity_of(package, monkeypatch)
        return identity.source_identity(source)

    before = now()
    assert now(GENERATED.replace("Say something", "Say nothing")) == before
    assert now(GENERATED.replace("step(x)", "step(-x)")) != before
    (package / "callee_of_test.py").write_text(CALLEE.replace("UNUSED = 3", "UNUSED = 4"))
    assert now() == before
    (package / "callee_of_test.py").write_text(CALLEE.replace("STEP = 10", "STEP = 11"))
    assert now() != before


def test_example_user_functions_count_to_the_letter():
    """Their lines are named in errors."""
    source = GENERATED.replace("compiled", "compiled_user").replace("from callee_of_test import step\n", "")
    assert identity.source_identity(source) != identity.source_identity("\n" + source)


def test_example_types_of_arguments_count(package, monkeypatch):
    """A kernel names no bundle, its arguments are some: how their fields are read is part of its code."""
    identity_of(package, monkeypatch)
    reached = {place for place, _ in identity._reached([("caller_of_test", "twice")])}
    assert ("headrace.memory.bundle", "") in reached
    nodes = identity._module("headrace.memory.bundle").registrations
    assert {node.name for node in nodes} >= {"_lower_field", "_BundleModel", "_BundleAttributes", "_unbox"}


def test_example_overloads_count_where_their_function_does():
    reached = {place for place, _ in identity._reached([("headrace.codegen.checked", "checked_int64")])}
    assert ("headrace.codegen.checked", "") in reached
    nodes = identity._module("headrace.codegen.checked").registrations
    assert "_checked_int64" in {node.name for node in nodes}


SOURCES = textwrap.dedent(
    """
    import package_of_test
    from package_of_test import inner as renamed, passed_on
    if True:
        x = 1
    else:
        x = 2
    try:
        (a, b), *c = 1, 2
    except Exception:
        d = 3
    table = {}
    table["k"] = 5
    with open("f") as e:
        pass
    for g in range(3):
        pass
    def f():
        def nested():
            return renamed.g, package_of_test.inner.h, passed_on, table, x
    """
)


def test_example_every_way_to_bind_a_name():
    found = identity._read(SOURCES, "somewhere")
    assert set(found.definitions) == {"x", "a", "b", "c", "d", "table", "e", "g", "f"}
    assert len([n for n in found.definitions["x"] if n.__class__.__name__ == "Assign"]) == 2
    assert len(found.definitions["table"]) == 2
    assert found.imports["renamed"] == ("package_of_test", "inner")


def test_example_names_are_followed_through_packages(tmp_path, monkeypatch):
    package = tmp_path / "package_of_test"
    package.mkdir()
    (package / "__init__.py").write_text("from .inner import passed_on\n")
    (package / "inner.py").write_text("g = 1\nh = 2\npassed_on = 3\nunused = 4\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = identity._read(SOURCES, "")
    used = {place for node in found.definitions["f"] for place in identity._uses(node, found, "")}
    assert ("package_of_test.inner", "g") in used
    assert ("package_of_test.inner", "passed_on") in used
    assert ("package_of_test.inner", "unused") not in used
