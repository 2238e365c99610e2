"""The bridge to Spark: a quiet session, DataFrames in and out, and the text work that Spark does well.

`session` starts Spark on this machine; a session of the user's own works everywhere ours does. `hashtags`
and `words` are column expressions that turn text into the lists that ``key_by`` takes; `live` makes a
streaming DataFrame the source of a run.

=============  ==========================================================
``session``    a session on loopback, with Arrow
``java``       finds the Java that Spark needs
``functions``  `hashtags`, `words`
``source``     a batch DataFrame as a source
``streaming``  a streaming DataFrame as a source: `live`
``arrow``      rows of either as Arrow record batches, and Spark's errors
``sink``       results as a DataFrame
=============  ==========================================================

Importing this package imports neither PySpark nor Java: a stream of Parquet files or Arrow tables needs neither.
It makes DataFrames known to `headrace.ingress.readers`, which lies below and knows nothing of Spark.
"""

from headrace.ingress import readers
from headrace.spark.functions import hashtags, words
from headrace.spark.session import session
from headrace.spark.source import open_dataframe
from headrace.spark.streaming import live

readers.register("pyspark", open_dataframe)

__all__ = ["hashtags", "live", "session", "words"]
