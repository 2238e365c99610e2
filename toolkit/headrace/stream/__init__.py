"""The fluent interface: from any table to a running query.

Every call checks what it can at once and returns a new object; nothing runs
until `start`, `to_arrow`, `to_pandas` or `to_spark`.

==================  ======================================================================
``source``          `stream`: begins with a table, a file, a frame, or several of them
``streams``         `Stream`, whose calls are chained; `OrderedStream`, which has stages
``windowed``        `KeyedStream`, `WindowedStream`: a stream with keys, and cut into windows
``running``         how any stream is run: started, or run to the end
``ordered``         the stages of an ordered pipeline
``several_inputs``  `inputs`: one operator with several inputs
``programs``        `program`: dependency-guided synchronization over several inputs; `streams`
``keys``            what `key_by` takes
``joins``           what `join` takes
``together``        `together`: several results of one run
``hints``           names from other libraries, for error messages
``described``       how a stream describes itself
==================  ======================================================================

Each call that appends an operator makes a specification (`headrace.elastic.specs`); `Stream.through`
appends a specification of any other engine.
"""

from headrace.stream.programs import Program, program, streams
from headrace.stream.several_inputs import KeyedInputs, WindowedInputs, inputs
from headrace.stream.source import stream
from headrace.stream.streams import OrderedStream, Stream
from headrace.stream.together import Together, together
from headrace.stream.windowed import KeyedStream, WindowedStream

__all__ = [
    "KeyedInputs", "KeyedStream", "OrderedStream", "Program", "Stream", "Together", "WindowedInputs", "WindowedStream", "inputs",
    "program", "stream", "streams", "together",
]  # fmt: skip
