"""The outline of the command line, and the commands beside ``run``: bench, lab, doctor.

Method: in this process where the answer is enough. Cannot see: how it feels at a terminal.
"""

import re
import subprocess
import sys

import headrace
from headrace import cli
from headrace.apps import APPS
from support.command_line import ENVIRONMENT


def test_example_help_and_version(capfd):
    assert cli.main(["--version"]) == 0
    assert capfd.readouterr().out == f"headrace {headrace.__version__}\n"
    assert cli.main(["--help"]) == 0
    text = capfd.readouterr().out
    assert all(command in text for command in ("demo", "tour", "run", "bench", "lab", "doctor"))
    assert cli.main(["help", "run"]) == 0
    text = capfd.readouterr().out
    for flag in (
        "--in", "--right", "--out", "--report", "--threads", "--max-threads", "--reconfigure", "--mode", "--gate",
        "--sources", "--batch", "--rate", "--advance", "--size", "--spark", "--distance", "--band",
    ):  # fmt: skip
        assert flag in text
    listed = dict(re.findall(r"^  (\w+) +([a-z].*)$", text.partition("positional arguments")[0], flags=re.MULTILINE))
    assert listed.keys() == APPS.keys()  # one a line
    assert listed["wordcount"] == "count the tuples that contain each word (ts, text)"


def test_agree_the_package_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "headrace", "--help"], env=ENVIRONMENT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and done.stdout.startswith("usage: headrace [-h]"), done.stdout + done.stderr
    wrong = [sys.executable, "-m", "headrace", "dem"]
    done = subprocess.run(wrong, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "see `headrace --help`" in done.stderr, done.stdout + done.stderr


def test_example_help_needs_neither_spark_nor_plots():
    code = (
        "import sys; from headrace import cli; assert cli.main(['--help']) == 0;"
        "print(sorted({m.partition('.')[0] for m in sys.modules} & {'pyspark', 'bokeh', 'tqdm', 'headrace_datasets'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    assert done.stdout.endswith("[]\n"), done.stdout + done.stderr


def test_example_bench_is_dispatched(capfd, monkeypatch):
    import headrace_bench as bench

    asked = []
    monkeypatch.setattr(bench, "main", lambda name, full, json_path, folder: asked.append((name, full, json_path)) or 0)
    assert cli.main(["bench", "gate", "--full", "--json", "g.json"]) == 0
    assert cli.main(["bench", "all"]) == 0
    assert asked == [("gate", True, "g.json"), ("all", False, None)]
    assert cli.main(["bench", "list"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [*bench.NAMES, bench.PEERS, "all"]
    assert all(len(line.split()) > 3 for line in lines)  # and what it measures


def test_example_bench_says_where_it_is_when_it_is_not_installed(capsys, monkeypatch):
    monkeypatch.setattr(cli, "find_spec", lambda name: None)
    assert cli.main(["bench", "gate"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "source tree" in said and "make setup" in said


def test_example_doctor(capfd):
    assert cli.main(["doctor"]) in (0, 1)
    assert "Python" in capfd.readouterr().out
