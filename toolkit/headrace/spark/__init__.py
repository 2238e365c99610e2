"""The bridge to Spark: a quiet session, DataFrames in and out, and text processing that Spark does well.

`session` starts Spark on this machine; a user's own session works everywhere, too. `hashtags`
and `words` are column expressions that turn text into the lists that ``key_by`` takes; `live` makes a
streaming DataFrame the source of a run.

=============  ==========================================================
``session``    a session on loopback, with Arrow
``java``       finds a Java for Spark
``functions``  `hashtags`, `words`
``source``     a batch DataFrame as a source
``streaming``  a streaming DataFrame as a source: `live`
``arrow``      rows of either as Arrow record batches, and Spark's errors
``sink``       results as a DataFrame
=============  ==========================================================

Importing this package imports neither PySpark nor Java: a stream of Parquet files or Arrow tables needs neither.
It registers DataFrames with `headrace.ingress.readers`, which lies below and does not depend on Spark.
"""

from headrace.ingress import readers
from headrace.spark.functions import hashtags, words
from headrace.spark.session import session
from headrace.spark.source import open_dataframe
from headrace.spark.streaming import live

readers.register("pyspark", open_dataframe)

__all__ = ["hashtags", "live", "session", "words"]
