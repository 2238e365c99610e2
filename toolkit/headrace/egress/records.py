"""Result records as columns, as they leave the rings; finishers read them in this form."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from headrace.egress.list_words import ListWords

HEAD_COLUMNS = 5
"""`primary`, `a`, `b`, `c`, `at`."""


class Records:
    """Drained result records as columns; `b` and `c` are None where the finisher does not read them.

    `words` has the lists that columns of positions refer to, where there are any. With `index`, the records are the rows at
    these positions of the columns `given`: each column is gathered when it is first read, as most uses need only some.
    """

    def __init__(self, primary, a, b, c, at, values, words: ListWords | None = None, index: np.ndarray | None = None):
        self.given, self._values = (primary, a, b, c, at), values
        self.index, self.words = index, words

    def __len__(self) -> int:
        return len(self.given[0]) if self.index is None else len(self.index)

    def _chosen(self, column: Any) -> Any:
        return column if self.index is None or column is None else column.take(self.index)

    @cached_property
    def primary(self) -> Any:
        return self._chosen(self.given[0])

    @cached_property
    def a(self) -> Any:
        return self._chosen(self.given[1])

    @cached_property
    def b(self) -> Any:
        return self._chosen(self.given[2])

    @cached_property
    def c(self) -> Any:
        return self._chosen(self.given[3])

    @cached_property
    def at(self) -> Any:
        return self._chosen(self.given[4])

    @cached_property
    def values(self) -> list[Any]:
        return [self._chosen(column) for column in self._values]

    def at_places(self, places: np.ndarray) -> Records:
        """Return the records at these positions of the columns given."""
        return Records(*self.given, self._values, self.words, places)


class Ordered:
    """Records in a given order; each column is put in order when it is first read, as most uses need only some."""

    def __init__(self, records: Records, order: np.ndarray):
        self._records, self._order = records, order

    def __len__(self) -> int:
        return len(self._order)

    @cached_property
    def primary(self) -> np.ndarray:
        return self._records.primary.take(self._order)

    @cached_property
    def a(self) -> np.ndarray:
        return self._records.a.take(self._order)

    @cached_property
    def b(self) -> np.ndarray:
        return self._records.b.take(self._order)

    @cached_property
    def values(self) -> list[np.ndarray]:
        return [column.take(self._order) for column in self._records.values]

    @property
    def words(self) -> ListWords:
        """The lists that columns of positions refer to."""
        assert self._records.words is not None
        return self._records.words
