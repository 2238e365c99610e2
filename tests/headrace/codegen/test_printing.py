"""``print`` in functions that are compiled: what Python would print, and the run goes on.

Oracle      What was printed, by hand.
Cannot see  The order of lines of several threads, which is none.
"""

from __future__ import annotations

import subprocess
import sys
import uuid

import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import FunctionError
from support.workloads import HANG_S

ROWS = 2_000
PROGRAM = '''
import sys

import headrace as hr
import pyarrow as pa

sys.setswitchinterval(1e-6)  # Python changes threads wherever it may

def shout(t, emit):
    print("100 % of {{x}} is", t.x, t.x / 2, t.x > 1, "{text}")
    print()
    emit(y=t.x)

events = pa.table({{"ts": range({rows}), "x": range({rows})}})
ordered = hr.stream(events, event_time="ts").ordered().map(shout, emits={{"y": "int64"}}).to_arrow(threads=4, batch=1)
print(ordered["y"].to_pylist() == list(range({rows})))
'''


@pytest.mark.slow
def test_example_it_prints_and_the_run_goes_on(tmp_path):
    """Whole lines, of a function that was never compiled before: there it stopped for ever, with Python's lock in its hands."""
    text = f"é {uuid.uuid4().hex}"
    script = tmp_path / "shouts.py"
    script.write_text(PROGRAM.format(text=text, rows=ROWS), encoding="utf-8")
    command = [sys.executable, "-X", "utf8", str(script)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=HANG_S, check=True)
    *lines, is_in_order = done.stdout.splitlines()
    said = [f"100 % of {{x}} is {x} {x / 2} {x > 1} {text}" for x in range(ROWS)]
    assert sorted(lines) == sorted([""] * ROWS + said)
    assert is_in_order == "True"


def prints_a_column_of_strings(t, emit):
    print(t.name)
    emit(y=t.x)


def prints_with_an_option(t, emit):
    print(t.x, sep="")
    emit(y=t.x)


def prints_a_text_with_fields(t, emit):
    print(f"x is {t.x}")
    emit(y=t.x)


def prints_a_pair(t, emit):
    print((t.x, 2))
    emit(y=t.x)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (prints_a_column_of_strings, r"print\(t.name\): t.name is a string; print numbers, and texts that stand in the call"),
        (prints_with_an_option, "sep= of print cannot be compiled; leave it out"),
        (prints_a_text_with_fields, "is a string; print numbers"),
        (prints_a_pair, "is not a number; print its numbers one by one"),
    ],
)
def test_example_what_it_does_not_print(function, words):
    events = pa.table({"ts": [1], "x": [1], "name": ["a"]})
    with pytest.raises(FunctionError, match=words):
        hr.stream(events, event_time="ts").ordered().map(function, emits={"y": "int64"}).to_arrow(threads=1)
