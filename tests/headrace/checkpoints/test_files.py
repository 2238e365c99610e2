"""Checkpoints on disk: what was written is what is read, or it is refused.

Property    contents come back as they were; a file with any byte changed, or cut anywhere, is refused; a write that fails or
            is killed at any step leaves the checkpoints that were there before, whole; results behind a mark are nothing
            to it, and results with a byte changed before it are refused
Method      files in a folder; processes that are forked and kill themselves in a step; a limit on the size of files for a
            disk that is full
Cannot see  what a disk does when the machine loses power
"""

import contextlib
import os
import resource
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.checkpoints import file_format, results_log
from headrace.checkpoints.content_sum import content_sum
from headrace.checkpoints.file_format import Contents, pieces, read
from headrace.checkpoints.folder import KEPT, Folder, read_checkpoint
from headrace.checkpoints.results_log import Mark, ResultsLog, read_results
from headrace.errors import CheckpointError, OutputError
from planted_mistakes import fails, planted

SCHEMA = pa.schema([("ts", pa.int64()), ("word", pa.string())])


def some(number=0):
    found = Contents({"number": number, "names": ["a", "é"], "none": None})
    found.arrays = {"words": np.arange(number, number + 7) - 3, "floats": np.array([np.nan, -0.0, 1e300])}
    found.arrays["no rows"] = np.zeros((0, 2), np.int64)
    found.put_texts("texts", ["", "é", "\ud800", "a\0b"])
    return found


def is_same(one, other):
    return (
        one.values == other.values
        and list(one.arrays) == list(other.arrays)
        and all(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
                for a, b in zip(one.arrays.values(), other.arrays.values(), strict=True))
    )  # fmt: skip


def opened(path, goes_on=False):
    found = Folder(path)
    found.begin(goes_on)
    return found


# -- one file


def test_example_contents_come_back(tmp_path):
    whole = Contents()
    whole.put("one", some(1))
    whole.put("two", some(2))
    path = opened(tmp_path).write(1, whole)
    found = read(path)
    assert is_same(found, whole) and is_same(found.part("two"), some(2))
    assert found.part("one").texts("texts") == ["", "é", "\ud800", "a\0b"]


def check_refuses(path, data):
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match="remove the file to resume from the checkpoint before it"):
        read(path)


def damages():
    data = b"".join(bytes(piece) for piece in pieces(some()))
    for at in [*range(0, len(data), 5), len(data) - 1]:
        yield data[:at]
        yield data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    yield data + b"\0"


def test_property_a_file_that_is_cut_or_changed_anywhere_is_refused(tmp_path):
    for data in damages():
        check_refuses(tmp_path / "checkpoint", data)


def test_a_checksum_that_nobody_looks_at_is_found(tmp_path):
    unchecked = "if hashlib.sha256(data[:-_DIGEST]).digest() != data[-_DIGEST:]:"
    with planted(file_format, unchecked, "if False:"), fails("JSONDecodeError: "):
        for data in damages():
            check_refuses(tmp_path / "checkpoint", data)


def test_example_what_is_no_checkpoint_is_said(tmp_path):
    (tmp_path / "words.parquet").write_bytes(b"PAR1")
    with pytest.raises(CheckpointError, match="'.*words.parquet' is not a checkpoint of this version; give the folder of a run"):
        read_checkpoint(tmp_path / "words.parquet")
    with pytest.raises(CheckpointError, match="there is no checkpoint in this folder"):
        read_checkpoint(tmp_path)
    with pytest.raises(CheckpointError, match="there is no such folder or file"):
        read_checkpoint(tmp_path / "nowhere")


# -- a folder


def test_example_the_newest_ones_are_kept(tmp_path):
    kept = opened(tmp_path / "a" / "b")
    for number in range(1, 6):
        kept.write(number, some(number))
    assert kept.numbers() == [5 - KEPT + 1, 5] and read_checkpoint(kept.path)[1].values["number"] == 5
    kept.forget_after(4)
    assert kept.numbers() == [4]


def test_example_a_folder_is_of_one_run(tmp_path):
    kept = opened(tmp_path)
    kept.write(1, some())
    kept._hidden.write_bytes(b"half of the next one")
    with pytest.raises(OutputError, match="another run keeps its checkpoints there"):
        opened(tmp_path, goes_on=True)
    assert kept._hidden.read_bytes() == b"half of the next one"
    kept.end()
    with pytest.raises(OutputError, match="there are checkpoints of another run; resume from them"):
        opened(tmp_path)
    opened(tmp_path, goes_on=True).end()
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="file' cannot be written"):
        opened(tmp_path / "file")


def in_a_process(body):
    """Run it in a forked process; returns its status, below 0 if it was killed."""
    child = os.fork()
    if child == 0:
        status = 99
        with contextlib.suppress(BaseException):
            status = body() or 0
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def half(file, contents):
    file.write(b"".join(bytes(piece) for piece in pieces(contents))[:100])
    file.flush()
    die()


STEPS = {
    "_fill": die, "half of it": half, "_flush": die, "_rename": die, "_flush_folder": die, "after the rename": None,
}  # fmt: skip


@pytest.mark.parametrize("step", STEPS)
def test_property_a_killed_process_leaves_what_was_there(tmp_path, step):
    kept = opened(tmp_path)
    kept.write(1, some(1))
    kept.end()

    def body():
        writer = opened(tmp_path, goes_on=True)
        if step == "half of it":
            writer._fill = half
        elif step == "after the rename":
            rename = writer._rename
            writer._rename = lambda *arguments: (rename(*arguments), die())
        else:
            setattr(writer, step, die)
        writer.write(2, some(2))

    assert in_a_process(body) == -signal.SIGKILL
    is_named = step in ("_flush_folder", "after the rename")
    assert Folder(tmp_path).numbers() == ([1, 2] if is_named else [1])
    number = 2 if is_named else 1
    assert is_same(read_checkpoint(tmp_path)[1], some(number))
    after = opened(tmp_path, goes_on=True)
    after.write(3, some(3))
    assert is_same(read_checkpoint(tmp_path)[1], some(3)) and not list(tmp_path.glob(".*"))


def test_property_a_full_disk_leaves_what_was_there(tmp_path):
    kept = opened(tmp_path)
    kept.write(1, some(1))
    kept.end()

    def body():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        writer = opened(tmp_path, goes_on=True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
        try:
            writer.write(2, some(2))
        except OutputError as error:
            return 7 if "make room, and resume from the one before it" in str(error) else 8

    assert in_a_process(body) == 7
    assert Folder(tmp_path).numbers() == [1] and is_same(read_checkpoint(tmp_path)[1], some(1))
    assert not list(tmp_path.glob(".*"))


def test_example_a_folder_that_is_gone_is_no_full_disk(tmp_path):
    kept = opened(tmp_path / "kept")
    kept.path.rename(tmp_path / "moved")
    with pytest.raises(OutputError, match="No such file or directory.; restore the folder, or repair it, and resume"):
        kept.write(1, some())


# -- results


def batch(*words):
    return pa.record_batch([pa.array(range(len(words)), pa.int64()), pa.array(words, pa.string())], schema=SCHEMA)


def words_upto(path, mark):
    return [word for one in read_results(path, mark, SCHEMA) for word in one.column("word").to_pylist()]


def begun(path, *after):
    log = ResultsLog(path, SCHEMA)
    log.begin(*after)
    return log


def test_example_results_are_those_up_to_the_mark(tmp_path):
    log = begun(tmp_path)
    none = log.mark()
    log.write(batch("a", None))
    first = log.mark()
    log.write(batch("b"))
    second = log.mark()
    log.write(batch("never"))
    log.flush()
    assert [words_upto(tmp_path, mark) for mark in (none, first, second)] == [[], ["a", None], ["a", None, "b"]]
    assert (none, first.rows, second.rows) == (Mark(), 2, 3)
    log.end()
    log = begun(tmp_path, first, tmp_path)
    log.write(batch("c", "d"))
    third = log.mark()
    log.flush()
    assert words_upto(tmp_path, third) == ["a", None, "c", "d"] and words_upto(tmp_path, first) == ["a", None]
    with pytest.raises(CheckpointError, match="are damaged"):
        words_upto(tmp_path, second)


def test_example_a_run_may_go_on_in_another_folder(tmp_path):
    log = begun(tmp_path)
    log.write(batch("a"))
    mark = log.mark()
    log.write(batch("never"))
    log.end()
    (tmp_path / "other").mkdir()
    log = begun(tmp_path / "other", mark, tmp_path)
    log.write(batch("b"))
    after = log.mark()
    log.flush()
    assert words_upto(tmp_path / "other", after) == ["a", "b"] and words_upto(tmp_path, mark) == ["a"]


def test_example_a_folder_is_the_same_by_another_path(tmp_path, monkeypatch):
    log = begun(tmp_path)
    log.write(batch("a"))
    mark = log.mark()
    log.end()
    monkeypatch.chdir(tmp_path)
    log = begun(Path(), mark, tmp_path)
    log.write(batch("b"))
    after = log.mark()
    log.flush()
    assert words_upto(tmp_path, after) == ["a", "b"]


def test_property_results_that_are_changed_or_missing_are_refused(tmp_path):
    log = begun(tmp_path)
    log.write(batch("a", "b"))
    mark = log.mark()
    log.end()
    data = log.path.read_bytes()
    for at in range(0, len(data), 7):
        for damaged in (data[:at], data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]):
            log.path.write_bytes(damaged)
            with pytest.raises(CheckpointError, match="start without resume to begin again"):
                words_upto(tmp_path, mark)
    log.path.unlink()
    with pytest.raises(CheckpointError, match="cannot be read"):
        words_upto(tmp_path, mark)
    log.path.write_bytes(data)
    with pytest.raises(CheckpointError, match="have the columns ts, word, and this run gives ts"):
        list(read_results(tmp_path, mark, SCHEMA.remove(1)))


def test_results_committed_without_their_checkpoint_are_found(tmp_path):
    """A log that goes on behind what came out after the checkpoint has results that no state belongs to."""
    with planted(results_log, "_file.truncate(after.bytes)", "_file.seek(0, 2)"), pytest.raises(CheckpointError, match="damaged"):
        test_example_results_are_those_up_to_the_mark(tmp_path)


# -- rows that are read again


COLUMNS = st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.booleans()), max_size=30)


def columns_of(rows):
    values, valid = np.array([value for value, _ in rows], np.int64), np.array([ok for _, ok in rows], np.uint8)
    return {"x": (values, valid), "y": (values.astype(np.float64), None), "z": (valid, None)}


@settings(max_examples=60)
@given(COLUMNS, st.integers(0, 30), st.integers(0, 2**40))
def test_property_a_sum_is_that_of_its_parts(rows, cut, first):
    cut, columns = min(cut, len(rows)), columns_of(rows)
    parts = content_sum(first, columns, 0, cut) + content_sum(first, columns, cut)
    later = content_sum(first + cut, columns_of(rows[cut:]))
    assert content_sum(first, columns) == parts % 2**64
    assert later == content_sum(first, columns, cut)


@settings(max_examples=60)
@given(COLUMNS.filter(len), st.data())
def test_property_a_sum_tells_other_rows(rows, data):
    at = data.draw(st.integers(0, len(rows) - 1))
    value, ok = rows[at]
    other = [*rows[:at], (value ^ 1, True) if ok else (value, True), *rows[at + 1 :]]
    assert content_sum(0, columns_of(rows)) != content_sum(0, columns_of(other))
    if rows != rows[::-1] and all(ok for _, ok in rows):
        assert content_sum(0, columns_of(rows)) != content_sum(0, columns_of(rows[::-1]))


def test_example_a_null_is_no_value():
    one = {"x": (np.array([1, 5]), np.array([1, 0], np.uint8))}
    other = {"x": (np.array([1, 6]), np.array([1, 0], np.uint8))}
    assert content_sum(0, one) == content_sum(0, other)
    assert content_sum(0, one) != content_sum(0, {"x": (np.array([1, 5]), None)})
