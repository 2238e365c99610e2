"""Windows of local days: from event time to the number of a day, and back.

The module of an operator whose windows are days of a time zone includes this
file, in place of two kernels that return their argument. Window sizes are then
numbers of days. The rest of windowing is the same, because the two kernels agree:

    to_time(d) <= t   if and only if   d <= to_units(t)

Where several days begin at one instant (the zone skipped a day), `to_units` gives the last of them.
Before the first and after the last day of the table, a day has 24 hours.

Checked     tests/headrace/elastic/test_local_days.py
"""

from headrace.kernel import kernel

DAY_US = 86_400_000_000


@kernel
def to_units(s, t):
    """Which local day holds event time `t`."""
    starts, first = s.day_starts, s.first_day[0]
    last = starts.size - 1
    if t < starts[0]:
        return first + (t - starts[0]) // DAY_US
    if t >= starts[last]:
        return first + last + (t - starts[last]) // DAY_US
    low, high = 0, last  # starts[low] <= t < starts[high]
    while high - low > 1:
        middle = (low + high) // 2
        if starts[middle] <= t:
            low = middle
        else:
            high = middle
    return first + low


@kernel
def to_time(s, day):
    """When a local day begins."""
    starts, place = s.day_starts, day - s.first_day[0]
    last = starts.size - 1
    if place < 0:
        return starts[0] + place * DAY_US
    if place > last:
        return starts[last] + (place - last) * DAY_US
    return starts[place]
