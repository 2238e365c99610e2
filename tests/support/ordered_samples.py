"""Real clicks, sales and calls for the ordered applications. They are not part of the project, nor ours to redistribute.

``HEADRACE_DATA`` names their folder; without it, a test that asks for a sample is skipped. Event times are milliseconds,
and rows are in their order.
"""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

_QUERIES = {
    "clicks": (
        "retentioneering_ecom_clickstream.csv.gz",
        """SELECT epoch_ms("timestamp") AS ts, substr(user_id, 6)::BIGINT AS "user", hash(event) % 100 AS item,
            CASE event WHEN 'product_view' THEN 'view' WHEN 'add_to_cart' THEN 'cart' WHEN 'purchase' THEN 'buy'
            ELSE event END AS kind
        FROM read_csv('{file}') ORDER BY ts, user_id, session_id""",
    ),
    "sales": (
        "tpcds_sf001_store_sales.parquet",
        """SELECT ss_sold_date_sk * 86400000 + ss_sold_time_sk * 1000 AS ts, ss_ticket_number AS ticket, ss_item_sk AS item,
            (ss_net_paid * 100)::BIGINT AS amount
        FROM '{file}' WHERE ts IS NOT NULL ORDER BY ts, ticket, item""",
    ),
    "sales, some without a time": (
        "tpcds_sf001_store_sales.parquet",
        """SELECT ss_sold_date_sk * 86400000 + ss_sold_time_sk * 1000 AS ts, ss_ticket_number AS ticket, ss_item_sk AS item,
            (ss_net_paid * 100)::BIGINT AS amount
        FROM '{file}' ORDER BY ts, ticket, item""",
    ),
    "items": ("tpcds_sf001_item.parquet", "SELECT i_item_sk AS item, i_category_id AS category FROM '{file}'"),
    "calls": (
        "bandicoot_u_test_cdr.csv",
        """SELECT epoch_ms(column4) AS ts, column2 AS caller, column3 AS callee, 1 AS area, column6 AS caller_lat,
            column7 AS caller_lon, column6 AS callee_lat, column7 AS callee_lon
        FROM read_csv('{file}') ORDER BY ts""",
    ),
}
"""Name -> file, and what is read from it: pages stand in for items; a call has the place of its antenna."""

SAMPLE_OF = {
    "sold_together": "sales", "viewed_together": "clicks", "viewed_before": "clicks", "abandoned": "clicks",
    "declining": "sales", "mobility": "calls",
}  # fmt: skip
"""Application -> the sample that it runs on."""


def sample(name: str) -> pa.Table:
    """Read a sample, or skip the test."""
    file, query = _QUERIES[name]
    folder = os.environ.get("HEADRACE_DATA")
    if folder is None or not Path(folder, file).is_file():
        pytest.skip(f"needs {file} in the folder that HEADRACE_DATA names")
    return duckdb.sql(query.format(file=str(Path(folder, file)))).to_arrow_table()
