"""A headrace command in a terminal of its own: keys are pressed, and its output is read."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time

from support.command_line import COMMAND, ENVIRONMENT


class Terminal:
    """The command, its terminal, and its output so far.

    Parameters
    ----------
    *arguments : str
        Of ``headrace``.
    environment : dict of str to str
        Further environment variables. No browser is started unless one of them says so.
    """

    def __init__(self, *arguments: str, environment: dict[str, str] | None = None):
        self._own, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [*COMMAND, *arguments], env={**ENVIRONMENT, "BROWSER": "true", **(environment or {})},
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self.said = ""

    def read(self, wait_s: float = 0.0) -> str:
        """Read its output; otherwise a full terminal would block the command."""
        while select.select([self._own], [], [], wait_s)[0]:
            try:
                self.said += os.read(self._own, 65_536).decode(errors="replace")
            except OSError:  # the command has ended
                break
            wait_s = 0.0
        return self.said

    def until(self, text: str, seconds: float = 180) -> str:
        """Read until a text has appeared."""
        end = time.monotonic() + seconds
        while text not in self.read(1.0):
            assert time.monotonic() < end, f"{text!r} was not said:\n{self.said}"
            assert self.process.poll() is None or text in self.read(), f"it ended without {text!r}:\n{self.said}"
        return self.said

    def press_enter(self) -> None:
        os.write(self._own, b"\n")

    def close(self) -> None:
        """End the command, if it has not ended."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(180)
        os.close(self._own)
