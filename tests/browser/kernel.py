"""Ask the notebook's own kernel, beside the browser: what the engine says, not what the page shows."""

from __future__ import annotations

import queue
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient


class Kernel:
    """A second client of a kernel that a page has started."""

    def __init__(self, runtime: Path):
        (file,) = runtime.glob("kernel-*.json")
        self._client = BlockingKernelClient(connection_file=str(file))
        self._client.load_connection_file()
        self._client.start_channels()
        self._until_ready()

    def _until_ready(self, seconds: float = 180) -> None:
        """Wait until it answers, and what it publishes arrives here.

        The client's own `wait_for_ready` then waits for a pause of 0.2 s in what is published, which a dashboard never makes.
        """
        end = time.monotonic() + seconds
        while True:
            self._client.kernel_info(reply=True, timeout=max(0.0, end - time.monotonic()))
            with suppress(queue.Empty):
                self._client.get_iopub_msg(timeout=1)
                return
            if time.monotonic() > end:
                raise AssertionError(f"nothing that the kernel publishes arrived in {seconds} s")

    def run(self, code: str, seconds: float = 180) -> None:
        """Execute and wait; an exception there is one here."""
        reply = self._client.execute_interactive(code, timeout=seconds, output_hook=lambda message: None)
        content = reply["content"]
        if content["status"] != "ok":
            raise AssertionError(f"in the kernel: {content.get('ename')}: {content.get('evalue')}")

    def begin(self, code: str) -> None:
        """Execute without waiting."""
        self._client.execute(code, silent=True)

    def ask(self, expression: str, seconds: float = 180) -> Any:
        """Evaluate an expression of plain values; to the kernel this is no cell."""
        reply = self._client.execute_interactive(
            "",
            silent=True,
            user_expressions={"value": f"({expression})"},
            timeout=seconds,
            output_hook=lambda message: None,
        )
        value = reply["content"]["user_expressions"]["value"]
        if value["status"] != "ok":
            raise AssertionError(f"in the kernel: {expression}: {value.get('evalue')}")
        return eval(value["data"]["text/plain"], {"nan": float("nan"), "inf": float("inf")})

    def close(self) -> None:
        """Leave the kernel alone."""
        self._client.stop_channels()
