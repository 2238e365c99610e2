"""Strings that are forgotten too early are seen: their bytes are overwritten, their memory is kept, and whoever uses one fails.

For planted mistakes, which run interpreted: without it what is read too late is mostly what was there before, and then is
right; and an id that is forgotten twice is given to two strings, until the table is full and looking for one has no end.
"""

import ctypes

import numpy as np

from headrace.ingress.keys_kernel import FREE
from headrace.ingress.ordered_texts import OrderedTexts

_kept_for_good = []


def overwrite_forgotten_strings(monkeypatch):
    """From now on no string is what it was once it is forgotten."""

    def recycle(self, horizon):
        with self.lock:
            before = self._page_of[: self.id_limit].copy()
            _kept_for_good.extend(page for page, _ in self._pages.values())
            freed = recycle_as_it_is(self, horizon)
            for gone in np.flatnonzero((before != 0) & (self._page_of[: before.size] == 0)):
                ctypes.memset(int(self.addresses[gone]), ord("?"), int(self.lengths[gone]))
            return freed

    def touch(self, ids, ts):
        with self.lock:
            assert not (self._table.last[ids] == FREE).any(), "a string is used that was forgotten"
            return touch_as_it_is(self, ids, ts)

    def use_rows(self, ids, offsets, ts=None):
        with self.lock:
            assert not (self._table.last[ids] == FREE).any(), "a string is used that was forgotten"
            return use_rows_as_it_is(self, ids, offsets, ts)

    recycle_as_it_is, touch_as_it_is, use_rows_as_it_is = OrderedTexts.recycle, OrderedTexts.touch, OrderedTexts.use_rows
    for name, method in (("recycle", recycle), ("touch", touch), ("use_rows", use_rows)):
        monkeypatch.setattr(OrderedTexts, name, method)
