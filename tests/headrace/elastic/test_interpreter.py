"""Every kernel has a plain-Python body: whole queries run with the compiler switched off.

Property    with NUMBA_DISABLE_JIT=1 an aggregate and a join, on several threads
            and reconfigured, give what they give compiled.
Oracle      the compiled run of the same script.
"""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import headrace as hr, pyarrow as pa
posts = pa.table({"ts": [0, 1, 2, 30, 40], "tags": [["a"], ["a", "b"], ["b"], [], ["c"]], "chars": [5, 9, 7, None, 3]})
posts_stream = hr.stream(posts, event_time="ts")
windows = posts_stream.key_by(tag=hr.each("tags")).window(size=4, advance=3)
query = windows.aggregate(chars=hr.max("chars"), n=hr.count(), mean=hr.mean("chars"))
print(query.to_arrow(threads=2, reconfigure=[(2, 3), (4, 1)], max_threads=4).to_pylist())
left = posts_stream.select("ts", "chars")
print(left.join(left, 10, hr.band("chars", "chars", 4)).to_arrow(threads=2).to_pylist())
"""


@pytest.mark.slow
def test_agree_interpreted_and_compiled():
    outputs = []
    for disabled in ("0", "1"):
        environment = {**os.environ, "NUMBA_DISABLE_JIT": disabled}
        environment["PYTHONPATH"] = os.pathsep.join(sys.path)
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert outputs[0].count("'tag'") >= 4
