"""The four transactional applications as hand-written loops: one thread, plain arrays, no engine.

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


@kernel
def bidding(kinds, lists, stock, rounds, mask, left):
    """Run Online Bidding.

    `kinds`: 0 bid, 1 alter, 2 top. `lists`: for items, prices and quantities, where each event's begin, and all of them.
    `stock`: prices and quantities of the items.
    """
    (offsets, items), (price_offsets, new_prices), (quantity_offsets, new_quantities) = lists
    prices, quantities = stock
    for i in range(kinds.size):
        first, last = offsets[i], offsets[i + 1]
        if kinds[i] == 0:
            k = items[first]
            bid, wanted = new_prices[price_offsets[i]], new_quantities[quantity_offsets[i]]
            if bid < prices[k] or wanted > quantities[k]:
                mask[i] = 1
                continue
            quantities[k] = worked(quantities[k] - wanted, rounds)
            left[i] = quantities[k]
            mask[i] = 6
        elif kinds[i] == 1:
            for n in range(last - first):
                prices[items[first + n]] = worked(new_prices[price_offsets[i] + n], rounds)
            mask[i] = 0
        else:
            for n in range(last - first):
                k = items[first + n]
                quantities[k] = worked(quantities[k] + new_quantities[quantity_offsets[i] + n], rounds)
            mask[i] = 0


@kernel
def tolls(vehicles, segments, speeds, state, limits, rounds, mask, given):
    """Run Toll Processing.

    `state`: sums and numbers of speeds by segment, how many vehicles each has seen, and whether it has seen each vehicle.
    `limits`: from which speed on, and up to how many vehicles, a segment is free. `given`: averages, numbers of vehicles, tolls.
    """
    sums, numbers, counts, has_seen = state
    free_from, free_up_to = limits
    averages, seen, charged = given
    for i in range(vehicles.size):
        segment, vehicle = segments[i], worked(vehicles[i], rounds)
        sums[segment] += worked(speeds[i], rounds)
        numbers[segment] += 1
        if not has_seen[segment, vehicle]:
            has_seen[segment, vehicle] = True
            counts[segment] += 1
        averages[i] = sums[segment] / numbers[segment]
        seen[i] = worked(counts[segment], rounds)
        if averages[i] < free_from and counts[segment] > free_up_to:
            charged[i] = 2 * (counts[segment] - free_up_to) ** 2
        mask[i] = 2 + 4 + 8 + 16
