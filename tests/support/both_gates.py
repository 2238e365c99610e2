"""What tests of the gates' handles share."""

from __future__ import annotations

import pytest

from headrace.gates import MergedLog, ScaleGate

both = pytest.mark.parametrize("Gate", [MergedLog, ScaleGate])


def drain(gate, reader):
    """Take all records that a reader can get now."""
    records = []
    while (record := gate.get(reader)) is not None:
        records.append(record)
    return records
