"""The fluent interface: from any table to a running query.

Every call returns a new object and checks what it can at once; nothing runs
before `start`, `to_arrow`, `to_pandas` or `to_spark`.

==================  ======================================================================
``source``          `stream`: tables, files, frames, several at a time
``streams``         `Stream`: one call after the other; `OrderedStream`, which has stages
``windowed``        `KeyedStream`, `WindowedStream`: a stream with keys, and cut into windows
``running``         what any stream can do at last: start, or run to the end
``ordered``         the stages of an ordered pipeline
``several_inputs``  `inputs`: one operator with several inputs
``programs``        `program`: dependency-guided synchronization over several inputs; `streams`
``keys``            what `key_by` takes
``joins``           what `join` takes
``together``        `together`: several results of one run
``hints``           what other libraries call it, for errors
``described``       what a stream says of itself
==================  ======================================================================

Each call that appends an operator makes a specification (`headrace.elastic.specs`); one of any other
engine is appended by `Stream.through`.
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
