"""gs, Grep and Sum: each event reads the records of its keys, or writes them (TStream, section VI-A).

READ for each key, the sum in post-processing; or WRITE for each key. No operation depends on what another one reads.
"""

import headrace as hr
from headrace.apps.app import TIME, App
from headrace.apps.records import records_option
from headrace.reference import transaction_apps as reference


def build(events: hr.Stream, records: int) -> hr.Stream:
    table = hr.table("records", key="key", columns={"value": "int64"}, data=numbered(records))

    def grep(e, t):
        if e.keys is None or None in e.keys:
            t.reject()
        if e.values is None:
            total = 0
            for key in e.keys:
                total += table[key].value
            t.emit(sum=total)
        else:
            if None in e.values or len(e.values) != len(e.keys):
                t.reject()
            for key, value in zip(e.keys, e.values):  # noqa: B905 (compiled, of one length)
                table[key].value = value

    return events.transact(grep, emits={"sum": "int64"})


def numbered(records: int):
    """Return records whose first value is their key."""
    import numpy as np
    import pyarrow as pa

    keys = np.arange(records)
    return pa.table({"key": keys, "value": keys})


APP = App(
    name="gs",
    help="read the records of a list of keys and sum them, or write them",
    left=(TIME, ("keys", "list of integers"), ("values", "list of integers")),
    build=build,
    reference=reference.gs,
    options=[records_option(reference.RECORDS)],
    tables=("records",),
)
