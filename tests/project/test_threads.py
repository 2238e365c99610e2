"""A thread that is started here is a daemon: Python waits for any other at its exit, before whatever could end it.

A test that fails leaves threads behind that wait for what it would have done next; so does a program whose run nobody
stopped. Their process is to end all the same.

Property    each call of `Thread(...)` in our packages and tests says ``daemon=True``.
Cannot see  threads that a library starts, and those in the text of a program that a test starts.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("toolkit", "widgets", "datasets", "tests")


def kept_waiting_for(text):
    """Lines of the calls that make a thread for whose end Python waits."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    return [
        call.lineno
        for call in calls
        if getattr(call.func, "attr", getattr(call.func, "id", "")) == "Thread"
        and not any(word.arg == "daemon" and getattr(word.value, "value", False) for word in call.keywords)
    ]


def test_example_what_is_found():
    text = "threading.Thread(target=f, daemon=True)\nthreading.Thread(target=f)\nThread(target=f, daemon=False)\nThread.start(t)"
    assert kept_waiting_for(text) == [2, 3]


def test_example_all_threads_are_daemons():
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]
    assert len(files) > 300
    found = {str(file.relative_to(ROOT)): lines for file in files if (lines := kept_waiting_for(file.read_text()))}
    assert not found
