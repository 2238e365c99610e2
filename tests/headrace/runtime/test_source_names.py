"""What sources are called: the same in the plan, in metrics and in errors, and no two of a run alike.

Oracle      names written out by hand, with and without `name=`.
Not seen    how a plot shows them; tests/widgets and tests/browser look there.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.errors import DisorderError, InputError, LateRowError, ParameterError, SchemaError
from support.workloads import Steered, eventually

TABLE = pa.table({"ts": [0, 1, 2], "k": [1, 1, 1]})


def rows(*batches):
    """A generator: it has no name of its own."""
    yield from batches or TABLE.to_batches()


def stream(source, **options):
    return hr.stream(source, event_time="ts", **options)


def counts(stream):
    return stream.key_by("k").window(10).aggregate(n=hr.count())


def names(stream):
    return [branch.source for branches in counts(stream).plan().branches.values() for branch in branches]


def test_example_without_a_name_it_is_told_by_number_and_kind():
    assert names(stream(rows())) == ["source 1 (generator)"]
    assert names(stream([rows(), TABLE])) == ["source 1 (generator)", "source 2 (Table)"]
    assert names(stream(rows()).union(stream([TABLE, rows()]))) == [
        "source 1 (generator)",
        "source 2 (Table)",
        "source 3 (generator)",
    ]


def test_example_a_file_is_called_by_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(TABLE, "a.parquet")
    one = stream("a.parquet")
    assert names(one.union(one, stream(rows()))) == ["a.parquet", "a.parquet (source 2)", "source 3 (generator)"]


def test_example_a_name_of_the_users():
    assert names(stream(rows(), name="bids").union(stream([rows(), TABLE], name=["asks", "bids"]))) == [
        "bids",
        "asks",
        "bids (source 3)",
    ]
    # A name that would be another's number is not given twice.
    assert names(stream([TABLE, TABLE, TABLE], name=["a (source 2)", "a", "a"])) == ["a (source 2)", "a", "a (source 3)"]


@pytest.mark.parametrize("name", ["", [], ["a", "b"], [3], "ab"])
def test_example_names_that_do_not_fit(name):
    with pytest.raises(ParameterError, match="name="):
        stream([TABLE, TABLE, TABLE] if name == "ab" else TABLE, name=name)


def test_example_metrics_call_them_so():
    left, right = Steered(TABLE, [1]), Steered(TABLE, [1])
    with counts(stream([left, right], name=["left", "right"])).start() as run:
        left.let()
        eventually(lambda: run.metrics().operators["aggregate"].added == 1, 180)
        right.let(3)
        eventually(lambda: run.metrics().operators["aggregate"].holds_back == "left", 180)
        assert set(run.metrics().operators["aggregate"].watermark_gap) == {"left", "right"}
        assert {"gap_left", "gap_right"} <= set(run.metrics().to_pandas().columns)
        left.let_all()
        assert run.wait(180)


BACK = pa.record_batch({"ts": [0], "k": [1]})
BATCH = TABLE.to_batches()[0]
FAULTS = {
    "disorder": (DisorderError, [BATCH, BACK], {}),
    "late": (LateRowError, [BATCH, BACK], {"lateness": 1}),
    "column": (SchemaError, [BATCH, BATCH.select(["ts"])], {}),
    "batch": (InputError, [BATCH, 7], {}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_example_an_error_names_the_source_by_its_number_in_the_run(fault):
    """The faulty one is the first of its stream and the second of the run."""
    kind, batches, options = FAULTS[fault]
    two = stream(rows(), **options).union(stream(rows(*batches), **options))
    with pytest.raises(kind, match=r"source 2 \(generator\)"):
        counts(two).to_arrow()


def test_example_a_stream_that_was_read_is_named():
    stream_ = counts(stream(rows()))
    stream_.to_arrow()
    with pytest.raises(InputError, match=r"source 1 \(generator\) is a stream and was read already"):
        stream_.to_arrow()
