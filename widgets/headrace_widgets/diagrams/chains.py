"""How one batch of transfers becomes chains, one for each account; a transfer runs when it is first in both of its chains."""

from __future__ import annotations

from headrace_widgets.diagrams.shapes import arrow, box, dot, text
from headrace_widgets.diagrams.steps import Step, Steps

FIRST = {"A": 10, "B": 10, "C": 10, "D": 10}
"""Account -> its balance at first."""
TRANSFERS = (("A", "B", 6), ("C", "D", 3), ("B", "A", 12), ("D", "C", 20), ("A", "C", 8))
"""Who pays whom, and how much; in the order of the events."""
REJECTED = 3
"""Index of the transfer that is rejected, from 0."""

# For each transfer the thread that ran it, None while it waits; whether chains are drawn; and the caption.
STEPS = (
    ((None,) * 5, False,
        "Five transfers, in the order of their events, and four accounts that hold 10 each. In transfer 1, A pays 6 to B. In "
        "transfer 3, B pays 12 to A, which B has only after transfer 1.",
    ),
    ((None,) * 5, True,
        "The batch is full: a punctuation ends it. Each transfer is put into the chains of both of its accounts, in the order "
        "of events. Nothing is locked, and nothing has run yet.",
    ),
    ((0, 1, None, None, None), True,
        "Transfers 1 and 2 are each first in both of their chains, and they have no account in common. Thread 0 runs transfer 1 "
        "while thread 1 runs transfer 2.",
    ),
    ((0, 1, 0, 1, None), True,
        "Now transfers 3 and 4 are first. A has paid B, and B pays A in the same batch. That is no deadlock, since whole "
        "transfers wait, not whole chains. Transfer 4 needs 20, but D has 13: it is rejected, changes nothing, and leaves its "
        "chains like any other.",
    ),
    ((0, 1, 0, 1, 0), True,
        "Transfer 5 waited for transfer 3 in the chain of A, and for the rejected transfer 4 in the chain of C. The balances are "
        "those of one transfer after another, whichever thread was faster, and their sum is 40, as before.",
    ),
)  # fmt: skip
_PLACE, _ROW, _CELL = 190, 54, 120


def chains() -> Steps:
    """Draw one batch of five transfers on two threads.

    Examples
    --------
    >>> from headrace_widgets import diagrams
    >>> diagrams.chains().title
    'How do two threads share one batch of transfers?'
    """
    return Steps("How do two threads share one batch of transfers?", 310, [Step(_draw(*one[:2]), one[2]) for one in STEPS])


def balances(ran: tuple[int | None, ...]) -> dict[str, int]:
    """Return the balances of the accounts after these transfers."""
    found = dict(FIRST)
    for (source, target, amount), thread, number in zip(TRANSFERS, ran, range(len(TRANSFERS)), strict=True):
        if thread is not None and number != REJECTED:
            found[source] -= amount
            found[target] += amount
    return found


def _draw(ran: tuple[int | None, ...], is_chained: bool) -> str:
    parts = []
    for number, (source, target, amount) in enumerate(TRANSFERS):
        words = f"{number + 1}: {source} → {target} {amount}"
        parts.append(box(20 + 130 * number, 14, 120, 34, words, ran[number], dashed=_is_out(ran, number)))
        if _is_out(ran, number):
            parts.append(text(80 + 130 * number, 60, "rejected", "middle", soft=True))
    for row, (account, balance) in enumerate(balances(ran).items()):
        y = 84 + _ROW * row
        parts.append(box(20, y, 110, 38, f"{account}: {balance}", bold=True))
        if not is_chained:
            continue
        chain = [number for number, transfer in enumerate(TRANSFERS) if account in transfer[:2]]
        for place, number in enumerate(chain):
            x = _PLACE + _CELL * place
            parts.append(arrow(x - (_CELL - 64 if place else 56), y + 19, x - 4, y + 19))
            parts.append(box(x, y, 64, 38, number + 1, ran[number], dashed=_is_out(ran, number)))
    for thread in (0, 1):
        parts += [dot(556, 200 + 26 * thread, thread), text(568, 200 + 26 * thread, f"thread {thread}")]
    return "".join(parts)


def _is_out(ran: tuple[int | None, ...], number: int) -> bool:
    return number == REJECTED and ran[number] is not None
