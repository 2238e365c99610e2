"""How outputs that are finished in any order leave in the order of their inputs, and why no thread waits for that."""

from __future__ import annotations

from collections.abc import Sequence

from headrace_widgets.diagrams.shapes import arrow, box, dot, text
from headrace_widgets.diagrams.steps import Step, Steps

EVENTS = (
    ("put", 1, 2),
    ("put", 0, 1),
    ("send",),
    ("put", 1, 3),
    ("clear",),
    ("send",),
    ("clear",),
)
SLOTS = 4
_LEFT, _CELL = 120, 62


def reorder_buffer(
    events: Sequence[tuple] = EVENTS,
    slots: int = SLOTS,
    title: str = "How do outputs come back into the order of their inputs?",
) -> Steps:
    """Draw a reorder buffer, after the paper's figure 4 with the fences that it needs.

    Parameters
    ----------
    events : sequence of tuple
        ``("put", thread, number)``: a thread has finished the input of that number, from 1, puts its output into its slot,
        and takes the flag if the next output is there and the flag is free. ``("send",)``: the holder of the flag passes
        on all outputs up to the first gap. ``("clear",)``: the holder gives the flag back, and looks again: if the next
        output is there, it takes the flag once more.
    slots : int
        Slots of the buffer.
    title : str

    Returns
    -------
    Steps
        One for the start, and one for each event.

    Raises
    ------
    ValueError
        If a number has no slot yet or is put twice, or if no thread has the flag at a send or clear.

    Examples
    --------
    >>> from headrace_widgets import diagrams
    >>> diagrams.reorder_buffer([("put", 1, 2)]).steps[-1].caption.partition(". ")[2]
    'Output 1 is not there yet, so thread 1 passes nothing on and takes another input.'
    """
    state = _State(slots, max((event[2] for event in events if event[0] == "put"), default=1))
    first = (
        f"Threads take inputs in order and finish them in any order. Output n has slot n mod {slots}, and may be passed on "
        f"when all outputs before it have been. The next to be passed on is 1. An input is taken only when its slot is "
        f"free, so input {slots + 1} has to wait until output 1 has been passed on."
    )
    steps = [Step(state.draw(), first)]
    for kind, *given in events:
        said = getattr(state, kind)(*given)
        steps.append(Step(state.draw(), said))
    return Steps(title, 232, steps)


class _State:
    """What is in the slots, which thread has the flag, and what was passed on."""

    def __init__(self, slots: int, inputs: int):
        self.slots, self.inputs = slots, inputs
        self.next = 1
        self.holder: int | None = None
        self.by: dict[int, int] = {}  # number -> the thread that finished it

    def put(self, thread: int, number: int) -> str:
        if not self.next <= number < self.next + self.slots:
            raise ValueError(f"put {number}: next is {self.next}, and there are {self.slots} slots")
        if number in self.by:
            raise ValueError(f"put {number}: it is there already")
        self.by[number] = thread
        said = f"Thread {thread} has finished input {number} and puts the output into its slot. "
        if self.next not in self.by:
            return said + f"Output {self.next} is not there yet, so thread {thread} passes nothing on and takes another input."
        if self.holder is not None:
            return said + (
                f"Thread {self.holder} has the flag. Thread {thread} does not wait for it, as it would for a lock. It takes "
                f"another input, since the thread that has the flag looks again after giving it back."
            )
        self.holder = thread
        return said + (
            f"Output {self.next} is there and the flag is free: thread {thread} takes the flag, and only this thread may pass "
            f"outputs on now."
        )

    def send(self) -> str:
        holder, first = self._held("send"), self.next
        while self.next in self.by:
            self.next += 1
        gone = " and ".join(str(number) for number in range(first, self.next))
        return (
            f"Thread {holder} passes on {gone}. Output {self.next} is not there, so there is nothing more to pass on. Slots are "
            f"free again."
        )

    def clear(self) -> str:
        holder = self._held("clear")
        self.holder = None
        said = f"Thread {holder} gives the flag back, and only then looks again. "
        if self.next in self.by:
            self.holder = holder
            came = f"Output {self.next} came meanwhile, from a thread that found the flag taken"
            return said + f"{came}: thread {holder} takes the flag once more."
        return said + f"Output {self.next} is not there: the thread that finishes it passes it on. Nothing is left behind."

    def _held(self, what: str) -> int:
        if self.holder is None:
            raise ValueError(f"{what}: nobody has the flag")
        return self.holder

    def draw(self) -> str:
        parts = [text(20, 32, "inputs", bold=True), text(20, 102, "slots", bold=True), text(20, 206, "passed on", bold=True)]
        for number in range(1, self.inputs + 1):
            done = number in self.by
            parts.append(box(_LEFT + _CELL * (number - 1), 14, 46, 36, number, self.by.get(number), dashed=not done))
        for slot in range(self.slots):
            # Number n belongs in slot n % slots; the slot of number 1 is drawn first.
            held = [n for n in self.by if n >= self.next and (n - 1) % self.slots == slot]
            x = _LEFT + _CELL * slot
            parts.append(box(x, 84, 46, 36, held[0], self.by[held[0]]) if held else box(x, 84, 46, 36))
        at = _LEFT + _CELL * ((self.next - 1) % self.slots) + 23
        parts += [arrow(at, 152, at, 124), text(at, 164, f"next: {self.next}", "middle")]
        if self.holder is None:
            parts.append(text(470, 102, "flag: free"))
        else:
            parts += [dot(476, 102, self.holder), text(488, 102, f"flag: thread {self.holder}")]
        for number in range(1, self.next):
            parts.append(box(_LEFT + _CELL * (number - 1), 188, 46, 36, number, self.by[number]))
        for thread in sorted(set(self.by.values())):
            parts += [dot(556, 22 + 24 * thread, thread), text(568, 22 + 24 * thread, f"thread {thread}")]
        return "".join(parts)
