"""How a reader waits for records: the same wait for instances, routers, benchmarks and tests.

Written for the merged log; `headrace.gates.variants` puts it on other kernels.

Ordering    W1 check; W2 READERS_WAITING += 1, draw the ticket, fence
            (`event_count.prepare`); W3 check again; W4 sleep until DATA_EVENT changes
            (source)  publish, fence, read READERS_WAITING
                    if the source's fence comes before that of W2, W3 sees the
                    record; else the source sees the waiting reader and wakes it
Progress    W4 ends after `DATA_WAIT_NS` at the latest. `stop` is read between
            W2 and W4: the thread that sets it signals DATA_EVENT afterwards.
Checked     tests/headrace/gates/test_interleave.py, tests/litmus/test_gates.py
"""

from headrace.gates.merged_log_kernel import DATA_EVENT, READERS_WAITING, peek
from headrace.kernel import kernel
from headrace.memory.atomics import load_acquire, pause
from headrace.memory.event_count import cancel, prepare, sleep

DATA_WAIT_NS = 20_000_000


@kernel
def await_records(g, reader, position, spins, stop):
    """Wait until there is a record at `position`, the run stops, or a while has passed.

    Parameters
    ----------
    g : LogArrays, or those of another gate
    reader, position : int
        As for `peek`.
    spins : int
        How often to check before sleeping; 0 where another thread could use the core.
    stop : int64[]
        ``stop[0]`` is not 0 once no thread is to sleep any more.
    """
    for _ in range(spins):  # W1
        _, count = peek(g, reader, position, 1)
        if count > 0:
            return
        pause()
    ticket = prepare(g.words, READERS_WAITING, g.event, DATA_EVENT)  # W2
    _, count = peek(g, reader, position, 1)  # W3
    if count > 0 or load_acquire(stop, 0) != 0:
        cancel(g.words, READERS_WAITING)
        return
    sleep(g.words, READERS_WAITING, g.event, DATA_EVENT, ticket, DATA_WAIT_NS)  # W4


__all__ = ["await_records"]
