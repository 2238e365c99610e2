"""The process that runs tests without the compiler: a test that ends it, or never answers, is told apart and explained."""

import pytest

from support.interpreter import Interpreter

TESTS = """
import ctypes, threading

def test_right():
    pass

def test_wrong():
    assert 1 + 1 == 3

def test_reads_what_is_no_memory():
    ctypes.string_at(8)

def test_waits_for_ever():
    threading.Event().wait()
"""


@pytest.fixture
def interpreter():
    interpreter = Interpreter()
    yield interpreter
    interpreter.close()


def test_example_a_test_that_takes_the_process_along_is_explained(interpreter, tmp_path):
    tests = tmp_path / "test_made_up.py"
    tests.write_text(TESTS)
    assert interpreter.run(f"{tests}::test_right")[0]
    passed, said = interpreter.run(f"{tests}::test_wrong")
    assert not passed and "assert (1 + 1) == 3" in said

    passed, said = interpreter.run(f"{tests}::test_reads_what_is_no_memory")
    assert not passed and "ended with status -11" in said and "in test_reads_what_is_no_memory" in said
    assert interpreter.run(f"{tests}::test_right")[0]  # by a new process

    interpreter.seconds = 5  # enough to begin the test: only then does it report where it waits
    passed, said = interpreter.run(f"{tests}::test_waits_for_ever")
    assert not passed and "gave no answer within 5 s" in said and "Fatal Python error: Aborted" in said
