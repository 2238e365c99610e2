"""How two threads share a partitioned stage: one that finds a bucket taken leaves the tuple to the thread that has it."""

from __future__ import annotations

from collections.abc import Sequence

from headrace_widgets.diagrams.shapes import box, dot, text
from headrace_widgets.diagrams.steps import Step, Steps

KEYS = "abaab"
"""The bucket of each tuple, in the order of the stream."""
EVENTS = (
    (("take", 0),),
    (("take", 1),),
    (("done", 1), ("take", 1)),
    (("take", 1), ("take", 1)),
    (("done", 0),),
    (("done", 0), ("done", 1)),
    (("done", 0),),
)
_LEFT, _CELL, _ROW = 150, 56, 62


def delegation(
    keys: str = KEYS,
    events: Sequence[Sequence[tuple[str, int]]] = EVENTS,
    title: str = "Who runs a tuple whose bucket another thread has?",
) -> Steps:
    """Draw the paper's hybrid queues (section 4.3).

    Parameters
    ----------
    keys : str
        A letter for each tuple: its bucket.
    events : sequence of sequences
        What happens in each step: ``("take", thread)``, an idle thread takes the next tuple of the master queue;
        ``("done", thread)``, a thread has run the tuple that it had in hand.
    title : str

    Returns
    -------
    Steps
        One for the start, and one for each element of `events`.

    Raises
    ------
    ValueError
        If a thread takes a tuple while it has one, is done without one, or takes from an empty queue.

    Examples
    --------
    >>> from headrace_widgets import diagrams
    >>> diagrams.delegation("aa", [[("take", 0)], [("take", 1)]]).steps[-1].caption.partition(". ")[2]
    'The count of bucket a was 1, so thread 0 has it. The count is 2 now: thread 0 will run tuple 2 as well.'
    """
    state = State(keys)
    first = (
        f"{len(keys)} tuples wait at a partitioned stage, each in the master queue and in the queue of its bucket. Tuples of one "
        f"bucket must run one after another, in order. The count of each bucket is 0: no thread has it."
    )
    steps = [Step(state.draw(), first)]
    for together in events:
        said = " ".join(getattr(state, kind)(thread) for kind, thread in together)
        steps.append(Step(state.draw(), said))
    return Steps(title, 84 + _ROW * len(set(keys)), steps)


class State:
    """What was taken from the master queue, the counts of the buckets, and which thread runs which tuple."""

    def __init__(self, keys: str):
        self.keys = keys
        self.taken = 0
        self.count = dict.fromkeys(sorted(set(keys)), 0)
        self.owner: dict[str, int] = {}
        self.queue = {key: [number for number, k in enumerate(keys, start=1) if k == key] for key in self.count}
        self.running: dict[int, int] = {}  # thread -> number of the tuple in hand
        self.ran: dict[int, int] = {}  # number -> thread
        self.delegated = 0

    def take(self, thread: int) -> str:
        if thread in self.running:
            raise ValueError(f"take: thread {thread} has {self.running[thread]} in hand")
        if self.taken == len(self.keys):
            raise ValueError("take: the master queue is empty")
        key = self.keys[self.taken]
        self.taken += 1
        number = self.taken
        self.count[key] += 1
        if self.count[key] > 1:
            self.delegated += 1
            owner = self.owner[key]
            return (
                f"Thread {thread} takes tuple {number}. The count of bucket {key} was {self.count[key] - 1}, so thread {owner} "
                f"has it. The count is {self.count[key]} now: thread {owner} will run tuple {number} as well."
            )
        self.owner[key] = thread
        self.running[thread] = self.queue[key].pop(0)
        return (
            f"Thread {thread} takes tuple {number}. The count of bucket {key} was 0, so the thread has the bucket now, and runs "
            f"tuple {number}."
        )

    def done(self, thread: int) -> str:
        if thread not in self.running:
            raise ValueError(f"done: thread {thread} has nothing in hand")
        number = self.running.pop(thread)
        key = self.keys[number - 1]
        self.ran[number] = thread
        self.count[key] -= 1
        if self.count[key]:
            self.running[thread] = self.queue[key].pop(0)
            return (
                f"Thread {thread} has run tuple {number}. The count of bucket {key} is {self.count[key]} now, not 0: the thread "
                f"keeps the bucket, and runs tuple {self.running[thread]}, the next of the bucket."
            )
        del self.owner[key]
        return f"Thread {thread} has run tuple {number}. The count of bucket {key} is 0: the bucket is free."

    def draw(self) -> str:
        parts = [text(20, 28, "master queue", bold=True)]
        for place, key in enumerate(self.keys):
            gone = place < self.taken
            parts.append(box(_LEFT + _CELL * place, 10, 40, 36, key if not gone else "", dashed=gone))
        for row, (key, count) in enumerate(self.count.items()):
            y = 66 + _ROW * row
            parts.append(text(20, y + 18, f"bucket {key}", bold=True))
            for place, k in enumerate(self.keys):
                number = place + 1
                if k != key:
                    continue
                in_hand = next((thread for thread, has in self.running.items() if has == number), None)
                thread = self.ran.get(number, in_hand)
                waits = thread is None and number <= self.taken
                x = _LEFT + _CELL * place
                parts.append(box(x, y, 40, 36, number, thread, dashed=waits, bold=in_hand is not None))
            who = f", thread {self.owner[key]}" if key in self.owner else ""
            if key in self.owner:
                parts.append(dot(482, y + 18, self.owner[key]))
            parts.append(text(494, y + 18, f"count {key}: {count}{who}"))
        legend = "bold: running · filled: has run · dashed: left to the thread that has the bucket"
        parts.append(text(20, 74 + _ROW * len(self.count), legend, soft=True))
        for thread in (0, 1):
            parts += [dot(494, 18 + 22 * thread, thread), text(506, 18 + 22 * thread, f"thread {thread}")]
        return "".join(parts)
