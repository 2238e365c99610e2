"""Servers on loopback: their address, the names they answer to, and how Jupyter is started.

Other machines cannot reach a server on loopback, but a browser on this machine that shows a foreign page can: such a page
can make its own name resolve to 127.0.0.1 (DNS rebinding) and then read what is served. The request's ``Host`` is still
the foreign name, so servers answer only to the names of loopback.
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
        The folder that it serves.
    options : sequence of str
        Further options; of several with one name the last counts.
    """
    command = [sys.executable, "-m", module, f"--ServerApp.ip={LOOPBACK}", f"--ServerApp.root_dir={folder}"]
    if os.geteuid() == 0:  # a container: Jupyter refuses to run as root unless told, and there is no other user
        command.append("--allow-root")
    os.execv(sys.executable, [*command, *options])
