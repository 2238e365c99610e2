"""Cells of `words` that a merged log has beside those of `membership_kernel`.

Only the holder of FLAG writes them, except FLAG and AGAIN.
"""

from headrace.gates.membership_kernel import WORD_COUNT
from headrace.memory.atomics import CELL

END = 0 * CELL
FLAG = 1 * CELL
AGAIN = 2 * CELL
FLOOR = 4 * CELL  # every active reader is at least here
LAST_TS = 5 * CELL  # ts of the last record in the log; where LEAD is above 0, of the last watermark
LIMIT = 10 * CELL  # tuples allowed in the log now: the smaller of the two bounds
LAST_SOURCE = 11 * CELL  # source of the last record in the log, controls aside
SCANNED = (WORD_COUNT - 3) * CELL  # END when the readers were last scanned

# Where records are delivered as they arrive (`arrival_kernel`).
LEAD = (WORD_COUNT - 2) * CELL  # how far one may be ahead of the last watermark; 0: records are merged. Never changes
MOVED_FIRST = (WORD_COUNT - 1) * CELL  # the source whose records are moved first the next time
