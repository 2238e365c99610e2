"""What a checkpoint of a program has: the state, joined at the root, and which rows of each input are processed.

Cut         The processed events are closed under dependence: with an event, all earlier ones that it depends on are
            processed (the rule of `mailbox_kernel`). They are a prefix of each implementation tag's events, but need not be a
            prefix of an input. So the state is what processing them one after another gives, and the rest may follow, under
            any plan.
Results     What came out is a prefix of the results. Results that later events have already given are held back in the
            collector and belong to the checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np

from headrace.checkpoints.file_format import Contents
from headrace.checkpoints.placed_state import SavedTexts, known_again, restore_state, save_state
from headrace.codegen.written import checksum
from headrace.egress.containers import state_objects
from headrace.errors import CheckpointError
from headrace.memory.arena import CLASSES
from headrace.memory.atomics import CELL
from headrace.memory.cells import read_cell
from headrace.runtime.feeding import Stopped
from headrace.synchronization import words
from headrace.synchronization.definition import Definition
from headrace.synchronization.holding import Holding
from headrace.synchronization.inputs import Input
from headrace.synchronization.layout import Layout
from headrace.synchronization.replanning import waiting
from headrace.synchronization.resuming import Frontier, Reread

_HEADS = ("primary", "a", "b", "c", "at")
_AT = 4


class Cut(Protocol):
    """What `ProgramCuts` needs of a running program; see `headrace.synchronization.section.ProgramSection`."""

    arrays: Any
    layout: Layout
    states: Any
    inlets: Any
    ticks: Any
    widths: list[int]
    feeders: Any
    holding: Holding
    collector: Any
    directories: Any
    bound: Any
    options: Any

    def hold_back(self, columns: list[np.ndarray | None]) -> None: ...


class ProgramCuts:
    """A `headrace.runtime.sections.Checkpointed` program.

    Parameters
    ----------
    section : Cut
    inputs : sequence of Input
        One for each inlet; ticks of periodic tags have frontiers of their own.
    """

    def __init__(self, section: Cut, inputs: list[Input]):
        self._section, self._inputs = section, inputs
        self._frontiers = [Frontier() for _ in inputs]
        self._of_ticks = [Frontier() for _ in section.ticks]

    @property
    def identity(self) -> dict[str, str]:
        """The program, what its inputs bring, and its use of event time: ticks themselves are not compared on resuming."""
        section = self._section
        brought = "; ".join("/".join(one.tags) for one in self._inputs)
        found = {"a program with checksum": checksum_of(section.bound.program)[:16], "inputs that bring": brought}
        return found | ({"ticks every": ", ".join(map(str, section.widths))} if section.widths else {})

    def begin(self) -> None:
        """Have inputs look at the rows that they give."""
        section = self._section
        for number, (inlet, frontier) in enumerate(zip(section.inlets, self._frontiers, strict=True)):
            columns = replace(self._inputs[number], stream_column=None).columns(section.bound)
            kinds = {name: column.kind for name, column in columns.items()}
            inlet.read_again(Reread(frontier, section.states.texts, kinds, inlet.branch.source))
        for tick, frontier in zip(section.ticks, self._of_ticks, strict=True):
            tick.reread = Reread(frontier, None, {}, "periodic events")

    # -- taking one

    def allow(self, events: int | None) -> None:
        """How many events may be processed until everything comes to rest by itself."""
        self._section.holding.allow(events)

    def await_due(self, seconds: float) -> bool:
        """Wait until these are processed."""
        return self._section.holding.await_use(seconds)

    def wake(self) -> None:
        """Wake the thread in `await_due`."""
        self._section.holding.wake()

    def ask(self) -> bool:
        """Ask for everything to come to rest."""
        return self._section.holding.ask(self)

    @property
    def is_over(self) -> bool:
        """Whether every event is processed."""
        return self._section.holding.is_over

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """A context in which inputs, workers and collector are at rest."""
        section = self._section
        with section.holding.at_rest(section.feeders), section.collector.at_rest() as is_whole:
            if not is_whole:
                raise Stopped
            yield

    def let_go(self) -> None:
        """Go on."""
        self._section.holding.let_go(self)

    @property
    def _root(self) -> int:
        return len(self._section.layout.places) - 1

    def state(self) -> Any:
        """The state, joined at the root, with its fields as attributes."""
        states = self._section.states
        place = int(states.bundle.places[self._root])
        return SimpleNamespace(**state_objects(states.bound.program.state, states.bundle.arena, place, states.texts))

    def cut(self) -> Contents:
        """Copy state, frontier, and results that are held back."""
        section, states = self._section, self._section.states
        texts = SavedTexts(states.texts)
        frontiers = [self._frontier(feeder) for feeder in section.feeders]
        events = sum(one.processed for one in frontiers[len(section.ticks) :])
        found = Contents({"events": events, "inputs": [], "is_ordered": section.options.is_ordered})
        for number, one in enumerate(frontiers):
            found.values["inputs"].append({"read": one.read, "summed": one.summed, "total": one.total})
            found.arrays[f"rest {number}"] = one.rest
        place = int(states.bundle.places[self._root])
        found.put("state", save_state(states.bound.program.state, states.bundle.arena, place, texts))
        held = self._held_back()
        for column in self._text_columns():
            held[column] = texts.places(held[column])
        found.arrays |= {f"held {number}": column for number, column in enumerate(held)}
        found.put_texts("texts", texts.strings)
        return found

    def _frontier(self, feeder: Any) -> Frontier:
        section, number = self._section, feeder.number
        read = int(read_cell(section.arrays.input, number * words.INPUT_CELLS * CELL + words.ADMITTED))
        return feeder.reread.frontier(read, rows_waiting(section.arrays, section.directories, number))

    def _held_back(self) -> list[np.ndarray]:
        """Results that wait for their release."""
        columns = self._section.collector.held_back()
        return [np.zeros(len(columns[0]), np.int64) if column is None else column for column in columns]

    def _text_columns(self) -> list[int]:
        """Which columns of results are ids of strings."""
        return [len(_HEADS) + at for at, kind in enumerate(self._section.bound.emits.values()) if str(kind) == "string"]

    # -- going on from one

    def restore(self, contents: Contents) -> None:
        """Begin where a checkpoint was taken."""
        section, states = self._section, self._section.states
        if section.options.is_ordered and not contents.values["is_ordered"]:
            raise CheckpointError(
                "order='events': the run before had order='none', and gave results in any order; resume it with order='none'"
            )
        ids = known_again(states.texts, contents.texts("texts"))
        place = int(states.bundle.places[self._root])
        restore_state(
            contents.part("state"), states.bound.program.state, states.bundle.arena_free, states.bundle.arena,
            self._root * CLASSES, place, ids,
        )  # fmt: skip
        saved = [
            Frontier(rest=contents.arrays[f"rest {number}"], **given) for number, given in enumerate(contents.values["inputs"])
        ]
        count = len(self._of_ticks)
        self._of_ticks, self._frontiers = saved[:count], saved[count:]
        count = len(_HEADS) + len(section.bound.emits)
        columns: list[Any] = [contents.arrays[f"held {number}"].copy() for number in range(count)]
        for at in self._text_columns():
            columns[at] = ids[columns[at]]
        columns[_AT] = np.full(len(contents.arrays["held 0"]), time.monotonic_ns())
        section.hold_back(columns)


def rows_waiting(c: Any, x: np.ndarray, number: int) -> np.ndarray:
    """int64[n]: rows of an input in mailboxes that no node has processed, rising. Called while everything is at rest."""
    runs = waiting(c, x, number)
    return np.concatenate([np.empty(0, np.int64), *(np.arange(*run) for run in runs[:, [words.FIRST, words.END]].tolist())])


def checksum_of(program: Definition) -> str:
    """A checksum of all that makes two programs the same: functions, tags, state, outputs, dependence."""
    functions: dict[str, Callable] = {}
    for name, function in program.update.items():
        if isinstance(function, Mapping):
            functions |= {f"update {name} of {of}": each for of, each in function.items()}
        else:
            functions[f"update {name}"] = function
    also = {"fork": program.fork, "join": program.join}
    also |= {f"fork {types}": function for types, function in program.forks.items()}
    also |= {f"join {types}": function for types, function in program.joins.items()}
    functions |= {name: function for name, function in also.items() if function is not None}
    tags = [(one.name, one.by, one.parts, sorted(one.columns.items())) for one in program.tags.values()]
    states = [
        (of, sorted(program.processes.get(of, ())), name, repr(one.kind), repr(one.first))
        for of, fields in program.types.items()
        for name, one in fields.items()
    ]
    emits = [(name, repr(kind)) for name, kind in program.emits.items()]
    return checksum(functions, tags, states, emits, sorted(program.dependence.items()))


__all__ = ["ProgramCuts", "checksum_of"]
