"""Strings that are forgotten too early are seen: their bytes are overwritten, and their memory is kept.

For planted mistakes, which run interpreted: without it what is read too late is mostly what was there before, and then is right.
"""

import ctypes

import numpy as np

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

    recycle_as_it_is = OrderedTexts.recycle
    monkeypatch.setattr(OrderedTexts, "recycle", recycle)
