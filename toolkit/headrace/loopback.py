"""What listens on this machine and for it alone: the address, the names it answers to, and how Jupyter is started.

A page on loopback is out of reach for other machines, and not for a browser here that shows a foreign page: such a
page can have its own name lead to 127.0.0.1 (DNS rebinding) and then reads what is served. The request's ``Host`` still
says the foreign name, so whatever is served answers to the names of loopback only.
"""

from __future__ import annotations

import ipaddress
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

LOOPBACK = "127.0.0.1"

_HOST = re.compile(r"\[(?P<six>[^\]]*)\](?::\d*)?|(?P<name>[^:]*)(?::\d*)?")


def names_loopback(host: str) -> bool:
    """Whether a request's ``Host`` names this machine's loopback interface, whatever the port.

    Examples
    --------
    >>> [names_loopback(host) for host in ("127.0.0.1:9000", "localhost", "[::1]:80", "evil.example", "")]
    [True, True, True, False, False]
    """
    parts = _HOST.fullmatch(host)
    if parts is None:
        return False
    name = parts["six"] if parts["six"] is not None else parts["name"]
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return parts["six"] is None and name.lower().rstrip(".") == "localhost"


def become_jupyter(module: str, folder: Path, options: Sequence[str] = ()) -> None:
    """Replace this process by a Jupyter application on loopback, which makes its own token and prints it.

    Parameters
    ----------
    module : str
        ``"headrace.lab"``, which is JupyterLab, or ``"jupyter_server"``.
    folder : Path
        What it serves.
    options : sequence of str
        More of them; the last one of a name counts.
    """
    command = [sys.executable, "-m", module, f"--ServerApp.ip={LOOPBACK}", f"--ServerApp.root_dir={folder}"]
    if os.geteuid() == 0:  # a container: Jupyter refuses root without being told, and here is nobody else
        command.append("--allow-root")
    os.execv(sys.executable, [*command, *options])
