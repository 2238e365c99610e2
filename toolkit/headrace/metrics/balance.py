"""The books of an operator: whether every row that came is accounted for, once."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple


class Discarded(NamedTuple):
    """What was in flight when a run was stopped, and was discarded."""

    in_flight: int = 0
    """Added tuples that some active instance had not passed yet."""
    read_ahead: int = 0
    """Rows that were read, or came from the operator before, and were not added."""
    results: int = 0
    """Results that were made and not released."""

    @property
    def rows(self) -> int:
        """Input rows whose contribution to the results is missing or incomplete."""
        return self.in_flight + self.read_ahead

    def __str__(self) -> str:
        if not any(self):
            return "nothing discarded"
        return f"{self.in_flight:,} in flight, {self.read_ahead:,} read ahead and {self.results:,} results discarded"


class Conserved(NamedTuple):
    """The sum of a conserved quantity of an operator: added up exactly, as of one position in its input.

    Examples
    --------
    >>> str(Conserved("accounts.balance", 1_000, 1_000, at_tuple=500, age_s=0.42))
    'accounts.balance sums to 1,000 as at the start (after 500 tuples, 0.4 s ago)'
    >>> lost = Conserved("accounts.balance", 1_000, 990)
    >>> bool(lost.holds), str(lost)
    (False, 'accounts.balance sums to 990 and not to 1,000 as at the start: 10 too little')
    """

    name: str
    """What is added up."""
    first: int
    """Its sum at the start,"""
    now: int
    """and when it was added up last:"""
    at_tuple: int | None = None
    """after so many tuples; None: at the end,"""
    age_s: float = 0.0
    """so long before the books were taken, in seconds."""

    @property
    def holds(self) -> bool:
        return self.now == self.first

    def __str__(self) -> str:
        gap = self.now - self.first
        said = f"{self.name} sums to {self.now:,} {f'and not to {self.first:,} ' if gap else ''}as at the start"
        if gap:
            said += f": {abs(gap):,} too {'much' if gap > 0 else 'little'}"
        return said if self.at_tuple is None else f"{said} (after {self.at_tuple:,} tuples, {self.age_s:.1f} s ago)"


@dataclass(frozen=True)
class Balance:
    """The books of one operator: every row that came is in exactly one place.

    ``arrived + gained = processed + in flight + read ahead + dropped + set aside + filtered``.

    Each number is counted independently, by the thread at that place, so the books can be wrong. A lost row shows up in
    `faults`, while the run goes on (the gate holds fewer tuples than have not been processed) or at its end
    at the latest (something is still in flight); a row that is counted twice makes a number negative.

    Parameters
    ----------
    arrived : int
        Rows that came from its sources, or from the operators before it.
    gained : int
        Rows that a flat_map before it added.
    processed : int
        Tuples that every active instance has passed.
    waiting : int
        Rows on their way to the gate, read ahead: held for reordering, queued, being encoded, or not yet due.
    in_gate : int
        Added tuples that some active instance has not passed yet.
    dropped, set_aside : int
        Late rows.
    filtered : int
        Rows removed by a filter before it.
    faults : tuple of str
        Discrepancies, each in a sentence.
    unreleased : int
        Results that were made and are not released yet.
    is_stopped : bool
        The run ended before its input did: tuples in flight, rows read ahead, and unreleased results
        are discarded.
    conserved : tuple of Conserved
        Sums that must keep their value from the start.

    Examples
    --------
    >>> from dataclasses import replace
    >>> books = Balance(arrived=10, gained=0, processed=6, waiting=1, in_gate=1, dropped=2, set_aside=0, filtered=0)
    >>> bool(books), str(books)
    (True, '10 arrived = 6 processed + 1 in flight + 1 read ahead + 2 dropped')
    >>> stopped = replace(books, unreleased=5, is_stopped=True)
    >>> stopped.discarded, str(stopped)
    (Discarded(in_flight=1, read_ahead=1, results=5), \
'10 arrived = 6 processed + 2 discarded + 2 dropped; stopped: 1 in flight, 1 read ahead and 5 results discarded')
    """

    arrived: int
    gained: int
    processed: int
    waiting: int
    in_gate: int
    dropped: int
    set_aside: int
    filtered: int
    faults: tuple[str, ...] = ()
    unreleased: int = 0
    is_stopped: bool = False
    conserved: tuple[Conserved, ...] = ()

    @property
    def in_flight(self) -> int:
        """Added tuples that some active instance has not passed yet."""
        return self.in_gate

    @property
    def read_ahead(self) -> int:
        """Rows that arrived and have not been added yet."""
        return self.waiting

    @property
    def discarded(self) -> Discarded:
        """What the stop discarded; nothing if the run goes on, or ended by itself."""
        return Discarded(self.in_gate, self.waiting, self.unreleased) if self.is_stopped else Discarded()

    @property
    def holds(self) -> bool:
        """Whether nothing is lost or duplicated."""
        left = self.processed + self.in_flight + self.read_ahead + self.dropped + self.set_aside + self.filtered
        is_conserved = all(each.holds for each in self.conserved)
        return not self.faults and is_conserved and self.arrived + self.gained == left

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        came = f"{self.arrived:,} arrived" + (f" + {self.gained:,} gained" if self.gained else "")
        others = ((self.dropped, "dropped"), (self.set_aside, "set aside"), (self.filtered, "filtered"))
        if self.is_stopped:
            under_way = [f"{self.discarded.rows:,} discarded"]
        else:
            under_way, others = [f"{self.in_flight:,} in flight"], ((self.read_ahead, "read ahead"), *others)
        rest = [f"{number:,} {word}" for number, word in others if number]
        parts = [f"{self.processed:,} processed", *under_way, *rest]
        said = [f"stopped: {self.discarded}"] if self.is_stopped else []
        return "; ".join([f"{came} = {' + '.join(parts)}", *said, *map(str, self.conserved), *self.faults])

    def to_dict(self) -> dict[str, Any]:
        """Return its numbers, what is in flight, and whether it holds, for JSON."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        found: dict[str, Any] = {"in_flight": self.in_flight, "read_ahead": self.read_ahead, "holds": self.holds}
        found["discarded"] = self.discarded._asdict()
        conserved = [each._asdict() for each in self.conserved]
        return own | {"faults": list(self.faults), "conserved": conserved} | found
