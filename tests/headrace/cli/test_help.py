"""Help for one application has what it takes and nothing else; what is not there is refused with what was meant.

Method: the parser, and help as it is printed, beside what the applications declare; the examples that help prints are read
as a shell reads them, and the input that they make is checked as `headrace run` checks it.
Cannot see: how it reads.
"""

import re
import shlex

import pytest

import headrace_datasets
from headrace import cli
from headrace.apps import APPS
from headrace.apps.arguments import EXAMPLES
from headrace.apps.engines import ENGINES

OWN = {option.name for app in APPS.values() for option in app.options}


def helped(capfd, *arguments):
    assert cli.main([*arguments, "--help"]) == 0
    captured = capfd.readouterr()
    assert captured.err == ""
    return captured.out


@pytest.mark.parametrize("app", APPS.values(), ids=lambda app: app.name)
def test_example_help_for_an_application_has_what_it_takes(capfd, app):
    text = helped(capfd, "run", app.name)
    flags = set(re.findall(r"^ +--([\w-]+)", text, flags=re.MULTILINE))
    takes = {flag.name for flag in ENGINES[app.engine].flags}
    refuses = {flag.name for engine in ENGINES.values() for flag in engine.flags} - takes
    own = {option.name for option in app.options}
    windows = {name for name in ("size", "advance") if getattr(app, name) is not None}
    assert takes | own | windows | {"in", "out", "report", "threads", "sources", "batch", "rate"} <= flags
    assert not flags & (refuses | (OWN - own) | ({"size", "advance"} - windows))
    assert ("right" in flags) == (app.has_right is not False)
    assert ("state" in flags) == bool(app.tables) and ("checkpoint" in flags) == bool(app.tags)
    plain = " ".join(text.split())
    for side in (0, 1) if app.has_right else (0,):
        for column, kind in app.needs(side):
            assert f"{column} ({kind}" in plain
    for name in windows:
        assert f"(default {getattr(app, name)})" in plain
    assert app.name != "flights" or ("in any order" in plain and "sorted by ts" not in plain)  # which are sorted when read
    # What is said of several applications at once stays in the help for all.
    assert "; programs:" not in plain and "; ordered pipelines:" not in plain


def test_example_help_fits_the_terminal(capfd, monkeypatch):
    """But for lines that are to be pasted."""
    for columns in (80, 120):
        monkeypatch.setenv("COLUMNS", str(columns))
        for arguments in ((), ("run",), *(("run", name) for name in APPS)):
            text = helped(capfd, *arguments).partition("to try it:\n")[0]
            assert [line for line in text.splitlines() if len(line) > columns] == [], arguments
    assert max(map(len, text.splitlines())) > 80


def test_example_help_for_an_application_wherever_it_is_asked_for(capfd):
    text = helped(capfd, "run", "longest")
    assert text == helped(capfd, "run", "longest", "--in", "x.parquet", "--threads", "0")
    assert cli.main(["run", "-h", "longest"]) == 0
    assert capfd.readouterr().out == text
    assert cli.main(["run", "longst", "--help"]) == 2
    assert "did you mean longest?" in capfd.readouterr().err


@pytest.mark.parametrize("app", APPS.values(), ids=lambda app: app.name)
def test_example_what_help_says_to_try_can_be_tried(capfd, app):
    _, _, tried = helped(capfd, "run", app.name).partition("to try it:\n")
    *makes, runs = map(shlex.split, tried.splitlines())
    asked = vars(cli._parsed(runs[1:]))
    made = EXAMPLES.get(app.name, ())
    assert len(makes) == len(made) == (0 if app.default_input else 1 + bool(app.has_right))
    for side, (what, line) in enumerate(zip(made, makes, strict=True)):
        assert line[:2] == ["python", "-c"]
        few = re.sub(r"n=[\d_]+", "n=3", what)
        app.check(eval(few, vars(headrace_datasets)).schema, side, what)
        compile(line[2], "line", "exec")
        assert f"{what}.to_parquet('{asked[('left', 'right')[side]]}')" in line[2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "wordcount", "--out", "o", "--thread", "2"], "--thread: headrace run has no such option; did you mean"),
        (["run", "wordcount", "--out", "o", "--thread=2"], "did you mean --threads? see `headrace run wordcount --help`"),
        (["run", "wordcount", "--out", "o", "--colour"], "--colour: headrace run has no such option; see `headrace run"),
        (["run", "wordcount", "in.parquet", "--out", "o"], "'in.parquet' is one argument too many; see `headrace run wordcount"),
        (["run", "wordcount", "--threads", "0"], "see `headrace run wordcount --help`"),
        (["run", "--out", "o"], "headrace: run: required: APP (the application, such as wordcount); see `headrace run --help`"),
        (["run", "wordcount"], "required: --out (the file for the result); see `headrace run wordcount --help`"),
        (["demo", "--transaction"], "did you mean --transactions? see `headrace demo --help`"),
        ([], "headrace: required: COMMAND (demo, tour, run, bench, lab, doctor); see `headrace --help`"),
    ],
)
def test_example_what_is_not_there_is_refused_with_what_was_meant(capfd, arguments, said):
    assert cli.main(arguments) == 2
    error = capfd.readouterr().err
    assert error.startswith("headrace: ") and error.count("\n") == 1 and said in error
