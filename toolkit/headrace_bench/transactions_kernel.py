"""Grep and Sum, and the Streaming Ledger, as hand-written loops: one thread, plain arrays, no engine.

This is the lower bound of a transaction's cost: columns in order, no nulls but those that the generators make, no unknown
keys, no overflow. Each operation takes `rounds` dependent steps, as in the benchmarks' own functions.
"""

from headrace.kernel import kernel

BYTES = 0xFFFFFFFF


@kernel
def worked(value, rounds):
    """Make `rounds` steps of an xorshift generator (Marsaglia), which LLVM cannot shorten; returns `value` unchanged."""
    x = (value & BYTES) | 1
    for _ in range(rounds):
        x ^= (x & 0x7FFFF) << 13
        x ^= x >> 17
        x ^= (x & 0x7FFFFFF) << 5
    return value if x != 0 else value + 1


@kernel
def grep_and_sum(offsets, keys, is_read, values, table, rounds, mask, sums):
    """Run Grep and Sum; writes `sums`, and `mask` as in the engine's rows: 2 + 4 where there is a sum, else 0."""
    at = 0
    for i in range(is_read.size):
        if is_read[i]:
            total = 0
            for k in range(offsets[i], offsets[i + 1]):
                total += worked(table[keys[k]], rounds)
            sums[i] = total
            mask[i] = 6
        else:
            for k in range(offsets[i], offsets[i + 1]):
                table[keys[k]] = worked(values[at], rounds)
                at += 1
            mask[i] = 0


@kernel
def ledger(columns, accounts, assets, rounds, mask, balances, quantities):
    """`columns`: is_transfer, source, target, source_asset, target_asset, amount, quantity. Returns the number of rejections."""
    is_transfer, source, target, source_asset, target_asset, amount, quantity = columns
    rejected = 0
    for i in range(amount.size):
        if is_transfer[i]:
            if accounts[source[i]] < amount[i] or assets[source_asset[i]] < quantity[i]:
                mask[i] = 1
                rejected += 1
                continue
            accounts[source[i]] = worked(accounts[source[i]] - amount[i], rounds)
            assets[source_asset[i]] = worked(assets[source_asset[i]] - quantity[i], rounds)
        accounts[target[i]] = worked(accounts[target[i]] + amount[i], rounds)
        assets[target_asset[i]] = worked(assets[target_asset[i]] + quantity[i], rounds)
        balances[i] = accounts[target[i]]
        quantities[i] = assets[target_asset[i]]
        mask[i] = 14
    return rejected
