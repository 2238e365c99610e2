"""An engine that declares itself to the command line is taken without a change of any other file of it.

Method: an engine and an application of it are made up here, beside those there are. What the command does for one of them
(help, refusals, checks, options of `start`, the report) it does for this one by what it declares.
Cannot see: applications whose inputs are opened in a way of their own, as those of programs are.
"""

import json
from contextlib import contextmanager

import pyarrow.parquet as pq
import pytest

from headrace import cli
from headrace.apps import APPS, App
from headrace.apps.engines import ENGINES, Engine
from headrace.apps.flag import Flag, whole
from headrace.errors import ParameterError
from support.command_line import left_behind, run, words

DONE = []


class Painting(Engine):
    """It runs words by the elastic engine, whose gate it chooses by a flag of its own."""

    name = "painting"
    runs, title = "pictures", "paintings"
    flags = (
        Flag("colour", "of the gate (default red)", choices=("red", "blue"), is_option=False),
        Flag("layers", "of colour", whole("layers", 9), metavar="N", place="running", is_option=False, refusal="has no layers"),
        Flag("capacity", "room of a gate", whole("tuples", 1 << 20), metavar="N"),
    )
    refusal = "is no picture"
    lacking, lacks = "is a picture: ", {"mode": "nobody shares a brush"}
    batch = "strokes at a time"

    def check(self):
        if self.given("layers") == 9:
            raise ParameterError("--layers 9: it would not dry; give fewer")

    @contextmanager
    def around(self):
        yield lambda run: DONE.append(run.metrics().tuples_out)

    def start_options(self):
        return {**super().start_options(), "gate": {"red": "log", "blue": "scalegate"}[self.given("colour") or "red"]}

    def figures(self, run, operator, seconds):
        return {"colour": self.given("colour") or "red"}


class Picture(App):
    engine = "painting"


@pytest.fixture(autouse=True)
def painting(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    pq.write_table(words(20), "words.parquet")
    monkeypatch.setitem(ENGINES, "painting", Painting)
    monkeypatch.setitem(APPS, "picture", Picture(**{**vars(APPS["wordcount"]), "name": "picture"}))
    DONE.clear()


def helped(capfd, *arguments):
    assert cli.main(["run", *arguments, "--help"]) == 0
    return " ".join(capfd.readouterr().out.split())


def test_example_help_has_its_flags(capfd):
    of_all = helped(capfd)
    assert "options of picture: --colour {red,blue} of the gate" in of_all and "--layers N of colour" in of_all
    assert "(default vsn); not of transactions, pipelines, programs, pictures" in of_all
    assert "; paintings: strokes at a time" in of_all
    own = helped(capfd, "picture")
    assert "how it runs, too; options of paintings: --colour" in own and "--batch B strokes at a time" in own
    assert "--mode" not in own and "--colour" not in helped(capfd, "wordcount")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["wordcount", "--colour", "red"], "--colour red: wordcount is no picture; leave it out"),
        (["wordcount", "--layers", "2"], "--layers 2: wordcount has no layers; leave it out"),
        (["picture", "--scheme", "lock"], "--scheme lock: picture runs no transactions, and has no tables; leave it out"),
        (["picture", "--mode", "sn"], "--mode sn: picture is a picture: nobody shares a brush; leave it out"),
        (["picture", "--layers", "9"], "--layers 9: it would not dry; give fewer"),
    ],
)
def test_example_what_cannot_be_meant_is_refused(capfd, arguments, said):
    assert run(*arguments, "--in", "words.parquet", "--out", "o.parquet") == 2
    assert capfd.readouterr().err == f"headrace: {said}\n"
    assert left_behind(".") == [] and DONE == []


def test_agree_its_application_runs():
    assert run("wordcount", "--in", "words.parquet", "--out", "same.parquet") == 0
    flags = ["--colour", "blue", "--capacity", 4096]
    assert run("picture", "--in", "words.parquet", "--out", "o.parquet", "--report", "r.json", *flags) == 0
    rows = pq.read_table("o.parquet")
    assert rows.equals(pq.read_table("same.parquet"))
    with open("r.json") as file:
        report = json.load(file)
    assert report["app"] == "picture" and list(report)[-1] == "colour" and report["colour"] == "blue"
    assert DONE == [rows.num_rows]
