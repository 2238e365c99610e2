"""Each test of the command line has a folder of its own."""

import pyarrow.parquet as pq
import pytest

from support.command_line import words


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder of its own for each test, with some inputs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADRACE_TRACEBACK", raising=False)
    pq.write_table(words(300), "words.parquet")
    return tmp_path
