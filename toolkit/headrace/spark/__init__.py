"""The bridge to Spark: a quiet session, and the text work that Spark does well.

`session` starts Spark on this machine; a session of the user's own works everywhere ours does. `hashtags`
and `words` are column expressions that turn text into the lists that ``key_by`` takes; `live` makes a
streaming DataFrame the source of a run. `java` finds the Java that Spark needs.

Importing this room imports neither PySpark nor Java: a stream of Parquet files or Arrow tables needs neither.
"""

from headrace.spark.functions import hashtags, words
from headrace.spark.session import session
from headrace.spark.streaming import live

__all__ = ["hashtags", "live", "session", "words"]
