"""Serving the dashboard alone as a page: ``python -m headrace_widgets.serve``, which is ``make dashboard``.

Jupyter Server serves it, with Voila as an extension: it listens on loopback only, answers to the names of loopback
only, and admits clients with the token that it makes at its start and prints with the address. Voila's own server has no
such checks. Each visit has a kernel of its own, so their number is limited; a kernel without connections and without
work is ended.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from tornado.web import HTTPError

from headrace.loopback import become_jupyter

MOST_KERNELS = 4
IDLE_S = 120
"""A kernel to which no page is connected is ended when it has been idle for this long."""
PORT = 8866
NOTEBOOK = Path(__file__).with_name("alone.ipynb")

_POLICY = "frame-ancestors 'self'; default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:"
"""The page loads nothing from elsewhere: Voila's page asks for MathJax and a style sheet, and works without them."""
_NOT_NEEDED = ("jupyterlab", "jupyter_lsp", "jupyter_server_terminals", "notebook_shim")


class FewKernels(AsyncMappingKernelManager):
    """A limit of `MOST_KERNELS` kernels, including those being started.

    A page that is left or reloaded cannot report it: Voila's message lacks what Jupyter Server requires against forged
    requests. So when the limit is reached, the kernel whose page left first is ended.
    """

    def __init__(self, **options: Any):
        super().__init__(**options)
        self._starting = 0
        self._left: list[str] = []
        """Kernels to which no page is connected any more, in the order in which they were left."""

    def notify_connect(self, kernel_id: str) -> None:
        super().notify_connect(kernel_id)
        self._forget(kernel_id)

    def notify_disconnect(self, kernel_id: str) -> None:
        super().notify_disconnect(kernel_id)
        if self._kernel_connections.get(kernel_id) == 0:
            self._left.append(kernel_id)

    async def start_kernel(self, **options: Any) -> str:
        self._starting += 1
        try:
            if len(self) + self._starting > MOST_KERNELS:
                await self._make_room()
            return await super().start_kernel(**options)
        finally:
            self._starting -= 1

    async def _make_room(self) -> None:
        while self._left:
            kernel_id = self._left.pop(0)
            if kernel_id in self:
                await self.shutdown_kernel(kernel_id, now=True)
                return
        why = f"{MOST_KERNELS} dashboards are open, each with a kernel of its own: close one of their pages first"
        raise HTTPError(503, why, reason=why)  # Jupyter's responses show the first, Voila's page the second

    def _forget(self, kernel_id: str) -> None:
        if kernel_id in self._left:
            self._left.remove(kernel_id)


def main(arguments: Sequence[str]) -> None:
    """Replace this process by the server."""
    parser = argparse.ArgumentParser(prog="headrace_widgets.serve", description="Serve a dashboard for this machine only.")
    parser.add_argument("notebook", nargs="?", type=Path, default=NOTEBOOK, help="a notebook other than the live stream of posts")
    parser.add_argument("--port", type=int, default=PORT, help="on 127.0.0.1; 0: any free port (default: %(default)s)")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument("--dark", action="store_true", help="dark page and plots")
    asked = parser.parse_args(arguments)
    if not asked.notebook.is_file():
        parser.error(f"notebook {str(asked.notebook)!r}: there is no such file")
    extensions = {"voila.server_extension": True, **dict.fromkeys(_NOT_NEEDED, False)}
    print("The dashboard, for this machine only; the address below carries its token.", flush=True)
    become_jupyter(
        "jupyter_server",
        asked.notebook.resolve().parent,
        [
            f"--ServerApp.jpserver_extensions={extensions}",
            f"--ServerApp.kernel_manager_class={FewKernels.__module__}.{FewKernels.__qualname__}",
            f"--ServerApp.default_url=/voila/render/{quote(asked.notebook.name)}",
            f"--ServerApp.port={asked.port}",
            f"--ServerApp.open_browser={not asked.no_browser}",
            "--ServerApp.answer_yes=True",  # Ctrl-C ends it without a question
            f"--MappingKernelManager.cull_idle_timeout={IDLE_S}",
            "--MappingKernelManager.cull_interval=10",
            "--VoilaConfiguration.file_allowlist=[]",
            f"--VoilaConfiguration.theme={'dark' if asked.dark else 'light'}",
            f"--ServerApp.tornado_settings={{'headers': {{'Content-Security-Policy': {_POLICY!r}}}}}",
        ],
    )


if __name__ == "__main__":
    from headrace_widgets import serve  # not __main__: the server imports its kernels' manager from here

    serve.main(sys.argv[1:])
