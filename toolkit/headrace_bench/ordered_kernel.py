"""The pipeline of `staged` as a hand-written loop (one thread, plain arrays, no engine), and scheduling decisions alone."""

from headrace.kernel import kernel
from headrace.memory.atomics import now_ns
from headrace.ordering.schedule_kernel import choose
from headrace_bench.transactions_kernel import worked

TOTALS_EVERY = 64
"""The last stage gives one result for this many tuples."""


@kernel
def four_stages(ts, keys, values, rounds, of_key, out_ts, out_seen, out_total):
    """Run all rows, and write the results one after another. Returns the number of results.

    Parameters
    ----------
    ts, keys, values : int64[n]
        Columns of the rows; `values` fit 32 bits.
    rounds : int
        Steps of each unit of work: two units in the first stage, four in the second, one in the third and the last.
    of_key : int64[keys]
        State of the partitioned stage.
    out_ts, out_seen, out_total : int64[n // 64 + 1]
        Written.
    """
    seen = total = results = 0
    for i in range(ts.size):
        v = worked(values[i], 2 * rounds)
        v = worked(v, 4 * rounds)
        of_key[keys[i]] += v & 7
        v ^= of_key[keys[i]]
        if worked(v, rounds) & 1 == 0:
            seen += 1
            total += worked(v, rounds)
            if seen % TOTALS_EVERY == 0:
                out_ts[results] = ts[i]
                out_seen[results] = seen
                out_total[results] = total
                results += 1
    return results


@kernel
def decide(c, times, is_timed, chosen):
    """Choose a stage `times` times, count each choice in `chosen`, and "none" in its last entry. `is_timed`: read the clock."""
    for i in range(times):
        chosen[choose(0, c, 0, now_ns() if is_timed else i)] += 1


__all__ = ["TOTALS_EVERY", "decide", "four_stages"]
