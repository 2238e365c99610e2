"""The declaration of an engine's flag of ``headrace run``, and functions that read the text after a flag."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.apps.app import read_whole
from headrace.names import instead


@dataclass(frozen=True)
class Flag:
    """A flag that the applications of one engine take.

    Parameters
    ----------
    name, help : str
    read : callable, optional
        Reads the text on the command line; raises `argparse.ArgumentTypeError`.
    choices : sequence of str
    metavar : str, optional
    is_switch : bool
        It stands alone, without a text.
    place : {"own", "files", "meaning", "running"}
        Its place in the help: in a group of the engine's own; with the inputs and outputs; with the flags that change the
        result; with those for running any application.
    is_option : bool
        `start` takes it by the same name.
    refusal : str
        Why an application of another engine cannot use it, to follow that one's name; by default the engine's own
        `refusal`.
    """

    name: str
    help: str
    read: Callable[[str], Any] | None = None
    choices: Sequence[str] | None = None
    metavar: str | None = None
    is_switch: bool = False
    place: str = "own"
    is_option: bool = True
    refusal: str = ""

    def add_to(self, group: argparse._ArgumentGroup, more: str = "") -> None:
        """Add the flag to a group of a parser, with `more` at the end of its help."""
        how: dict[str, Any] = {"action": "store_true", "default": None} if self.is_switch else {
            "type": self.read, "choices": self.choices, "metavar": self.metavar,
        }  # fmt: skip
        group.add_argument(f"--{self.name}", help=self.help + more, **how)


def one_of(what: str, names: Collection[str]) -> Callable[[str], str]:
    """Return a function that reads one of some names."""

    def read(text: str) -> str:
        if text not in names:
            there = instead(text, names, f"the {what}s", "{}")
            raise argparse.ArgumentTypeError(f"{text!r}: there is no such {what}; {there}")
        return text

    return read


def whole(name: str, most: int) -> Callable[[str], int]:
    """Read a whole number from 1 on."""

    def read(text: str) -> int:
        number = read_whole(text, most)
        if number is None:
            raise argparse.ArgumentTypeError(f"{text!r}: give a whole number of {name} from 1 to {most}")
        return number

    return read
