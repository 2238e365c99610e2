"""`headrace lab`: the copy of the notebooks, and JupyterLab on it.

Method: folders made up for the rules of copying, where each version of a file is a text of its own; the real command
once, asked over HTTP.
Cannot see: what JupyterLab makes of the notebooks; the browser tests do.
"""

import json
import logging
import os
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import warnings
from pathlib import Path

import pytest

from headrace import cli, lab
from headrace.lab import GIVEN, copy
from open_ports import open_ports
from support.workloads import eventually

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(str(ROOT / room) for room in ("toolkit", "datasets", "widgets")),
}


@pytest.fixture
def ours(tmp_path):
    """What the checkout has: two notebooks and a picture."""
    folder = tmp_path / "ours"
    (folder / "images").mkdir(parents=True)
    (folder / "00.ipynb").write_text("first, version 1")
    (folder / "10.ipynb").write_text("second, version 1")
    (folder / "images" / "a.png").write_bytes(b"picture")
    (folder / ".ipynb_checkpoints").mkdir()
    (folder / ".ipynb_checkpoints" / "00-checkpoint.ipynb").write_text("left behind by somebody")
    return folder


@pytest.fixture
def theirs(tmp_path):
    return tmp_path / "theirs"


def found(folder):
    """Every file of the copy but the list, with its text."""
    files = (file for file in folder.rglob("*") if file.is_file() and file.name != GIVEN)
    return {file.relative_to(folder).as_posix(): file.read_text() for file in files}


# -- copying


def test_example_the_first_time_everything_is_copied(ours, theirs):
    done = copy(ours, theirs)
    assert found(theirs) == {"00.ipynb": "first, version 1", "10.ipynb": "second, version 1", "images/a.png": "picture"}
    assert done.new == ["00.ipynb", "10.ipynb", "images/a.png"]
    assert not done.updated and not done.kept
    again = copy(ours, theirs)
    assert list(again.describe()) == []


def test_example_what_was_not_changed_is_brought_up_to_date(ours, theirs):
    copy(ours, theirs)
    (ours / "00.ipynb").write_text("first, version 2")
    done = copy(ours, theirs)
    assert (done.new, done.updated, done.kept) == ([], ["00.ipynb"], {})
    assert found(theirs)["00.ipynb"] == "first, version 2"


def test_example_a_link_stays_one_and_what_it_leads_to_is_brought_up_to_date(ours, theirs, tmp_path):
    copy(ours, theirs)
    elsewhere = tmp_path / "elsewhere.ipynb"
    (theirs / "00.ipynb").rename(elsewhere)
    (theirs / "00.ipynb").symlink_to(elsewhere)
    (ours / "00.ipynb").write_text("first, version 2")
    assert copy(ours, theirs).updated == ["00.ipynb"]
    assert (theirs / "00.ipynb").readlink() == elsewhere and elsewhere.read_text() == "first, version 2"
    assert not list(theirs.glob("*.part")) + list(theirs.glob(".*.part"))


def test_example_what_the_user_changed_stays(ours, theirs):
    copy(ours, theirs)
    (theirs / "00.ipynb").write_text("mine")
    assert list(copy(ours, theirs).describe()) == []
    assert found(theirs)["00.ipynb"] == "mine"


def test_example_a_newer_one_is_put_beside_what_the_user_changed_once(ours, theirs):
    copy(ours, theirs)
    (theirs / "00.ipynb").write_text("mine")
    (ours / "00.ipynb").write_text("first, version 2")
    done = copy(ours, theirs)
    assert done.kept == {"00.ipynb": "00.new.ipynb"}
    assert "you changed it, so yours stays" in " ".join(done.describe())
    assert found(theirs)["00.ipynb"] == "mine" and found(theirs)["00.new.ipynb"] == "first, version 2"
    assert list(copy(ours, theirs).describe()) == []
    (theirs / "00.new.ipynb").write_text("mine as well")
    (ours / "00.ipynb").write_text("first, version 3")
    assert copy(ours, theirs).kept == {"00.ipynb": "00.new2.ipynb"}
    assert found(theirs)["00.new.ipynb"] == "mine as well"


def test_example_a_file_that_was_there_before_the_first_copy_is_the_users(ours, theirs):
    theirs.mkdir()
    (theirs / "00.ipynb").write_text("something else of this name")
    assert copy(ours, theirs).kept == {"00.ipynb": "00.new.ipynb"}
    assert found(theirs)["00.ipynb"] == "something else of this name"


@pytest.mark.parametrize("text", [None, "", "not JSON", "[1, 2]"])
def test_example_without_the_list_what_differs_is_the_users(ours, theirs, text):
    copy(ours, theirs)
    if text is None:
        (theirs / GIVEN).unlink()
    else:
        (theirs / GIVEN).write_text(text)
    (ours / "00.ipynb").write_text("first, version 2")
    done = copy(ours, theirs)
    assert done.kept == {"00.ipynb": "00.new.ipynb"} and not done.updated
    assert found(theirs)["00.ipynb"] == "first, version 1"


def test_example_what_the_user_deleted_comes_back(ours, theirs):
    copy(ours, theirs)
    (theirs / "10.ipynb").unlink()
    assert copy(ours, theirs).new == ["10.ipynb"]


# -- the command


@pytest.fixture
def started(tmp_path, monkeypatch):
    """What the process would have become; home and working directory are folders of the test."""
    commands = []
    monkeypatch.setattr(os, "execv", lambda program, arguments: commands.append(arguments))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return commands


def test_example_the_command_says_where_the_copy_is(started, tmp_path, capfd):
    assert cli.main(["lab"]) == 0
    place = tmp_path / "home" / "headrace-notebooks"
    said = capfd.readouterr().out
    assert f"your own copy of the notebooks, {place}" in said and re.search(r"copied: \d+ files", said)
    assert (place / "00_first_stream.ipynb").read_bytes() == (ROOT / "notebooks" / "00_first_stream.ipynb").read_bytes()
    assert f"--ServerApp.root_dir={place}" in started[0]
    assert "--ServerApp.ip=127.0.0.1" in started[0]
    assert not any("token" in argument for argument in started[0])


def test_example_the_first_time_the_first_notebook_is_opened(started):
    assert cli.main(["lab"]) == cli.main(["lab"]) == cli.main(["lab", "--here"]) == 0
    opened = [[argument for argument in command if "default_url" in argument] for command in started]
    assert opened == [["--LabApp.default_url=/lab/tree/00_first_stream.ipynb"], [], []]


def test_example_another_folder(started, tmp_path):
    assert cli.main(["lab", "--folder", "mine"]) == 0
    assert f"--ServerApp.root_dir={tmp_path / 'mine'}" in started[0]
    assert (tmp_path / "mine" / "00_first_stream.ipynb").exists() and not (tmp_path / "home").exists()


def test_example_the_checkouts_own(started, tmp_path, capfd):
    assert cli.main(["lab", "--here"]) == 0
    assert f"--ServerApp.root_dir={ROOT / 'notebooks'}" in started[0]
    assert list(tmp_path.iterdir()) == [] and not (ROOT / "notebooks" / GIVEN).exists()
    assert cli.main(["lab", "--folder", str(ROOT / "notebooks")]) == 2
    assert "--here" in capfd.readouterr().err and not (ROOT / "notebooks" / GIVEN).exists()


def test_example_a_port_and_no_browser(started, capfd):
    assert cli.main(["lab", "--here"]) == cli.main(["lab", "--here", "--no-browser", "--port", "9000"]) == 0
    plain, asked = started
    assert asked == [*plain, "--ServerApp.port=9000", "--no-browser"]
    assert cli.main(["lab", "--here", "--port", "70000"]) == 2
    assert "--port 70000: give a number from 0 to 65535" in capfd.readouterr().err and len(started) == 2


def test_example_installed_from_a_wheel_it_opens_the_working_directory(started, tmp_path, monkeypatch):
    monkeypatch.setattr(lab, "shipped", lambda: None)
    assert cli.main(["lab"]) == 0
    (tmp_path / "notebooks").mkdir()
    assert cli.main(["lab"]) == 0
    roots = [argument for command in started for argument in command if "root_dir" in argument]
    assert roots == [f"--ServerApp.root_dir={tmp_path}", f"--ServerApp.root_dir={tmp_path / 'notebooks'}"]


def test_example_a_copy_that_cannot_be_written(started, tmp_path, capfd):
    (tmp_path / "taken").write_text("a file")
    assert cli.main(["lab", "--folder", "taken"]) == 2
    said = capfd.readouterr().err
    assert "taken" in said and "--folder" in said and said.count("\n") == 1
    assert started == []


def test_example_two_things_are_not_said_and_all_others_are(monkeypatch, caplog):
    said = []
    monkeypatch.setattr(warnings, "showwarning", lambda message, *_: said.append(str(message)))
    log = logging.getLogger("ServerApp")
    monkeypatch.setattr(log, "filters", [])
    lab.be_quiet()
    for text in ("ServerApp.token config is deprecated in jupyter-server 2.0.", "ServerApp.password config is deprecated"):
        warnings.showwarning(DeprecationWarning(text), DeprecationWarning, "traitlets.py", 1)
        log.warning(text)
    log.warning("Skipped non-installed server(s): pylsp")
    log.warning("Skipped a %s", "notebook")
    assert said == ["ServerApp.password config is deprecated"]
    assert [record.getMessage() for record in caplog.records if record.name == "ServerApp"] == [
        "ServerApp.token config is deprecated in jupyter-server 2.0.", "ServerApp.password config is deprecated",
        "Skipped a notebook",
    ]  # fmt: skip


@pytest.mark.slow
def test_example_lab_opens_on_the_copy_for_this_machine_only(tmp_path):
    """The real thing: it comes up, lists the notebooks to a client with the token, and listens on loopback."""
    state = {f"JUPYTER_{name}_DIR": str(tmp_path / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    server = subprocess.Popen(
        [sys.executable, "-m", "headrace.cli", "lab", "--no-browser", "--port=0"], cwd=tmp_path,
        env={**ENVIRONMENT, **state, "HOME": str(tmp_path)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    stuck = threading.Timer(400, server.kill)
    stuck.start()
    try:
        said, address = "", None
        for line in server.stdout:
            said += line
            if address := re.search(r"http://(127\.0\.0\.1:\d+)/lab/tree/00_first_stream\.ipynb\?token=(\w{20,})", line):
                break
        assert address, said
        place, token = address.groups()
        listing = f"http://{place}/api/contents"

        def names():
            try:
                with urllib.request.urlopen(f"{listing}?token={token}", timeout=30) as answer:
                    return {entry["name"] for entry in json.load(answer)["content"]}
            except urllib.error.URLError:
                return set()  # it says its address a moment before it listens

        eventually(lambda: "00_first_stream.ipynb" in names(), 180)
        assert (tmp_path / "headrace-notebooks" / "00_first_stream.ipynb").exists()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(listing, timeout=30)
        inside, outside = open_ports(server.pid)
        assert len(inside) == 1 and outside == []
        server.terminate()
        server.wait(180)
        said += server.stdout.read()
        assert "jupyter_lsp | extension was successfully loaded" in said and "Shutting down" in said, "what it says else stays"
        assert "DeprecationWarning" not in said and "Skipped non-installed" not in said and "No web browser" not in said
    finally:
        stuck.cancel()
        server.kill()
        server.wait(180)
        server.stdout.close()
