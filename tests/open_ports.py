"""Where a family of processes listens, read from the Linux kernel's tables."""

import os
from pathlib import Path

_LISTENING = "0A"
_LOOPBACK = ("0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F")
"""127.0.0.1, ::1 and ::ffff:127.0.0.1, as a little-endian machine's /proc/net writes them."""


def family(root):
    """Name all processes below one, itself included."""
    parents = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                # The name of the program, in parentheses, may hold anything, parentheses among them.
                parents[int(process.name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it has ended meanwhile
    found = {root}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def open_ports(root):
    """List the addresses at which a process or one below it listens: those on loopback, and the others."""
    own = set()
    for process in family(root):
        try:
            for number in os.listdir(f"/proc/{process}/fd"):
                own.add(os.readlink(f"/proc/{process}/fd/{number}"))
        except OSError:
            continue
    inside, outside = [], []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if not os.path.exists(table):
            continue
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENING and f"socket:[{fields[9]}]" in own:
                (inside if fields[1].split(":")[0] in _LOOPBACK else outside).append(fields[1])
    return inside, outside
