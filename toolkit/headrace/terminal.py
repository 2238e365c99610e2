"""Lines that fit the terminal, broken between words."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap

MOST = 110
"""Characters of a line at most: longer ones are hard to read."""
_WRITTEN = re.compile(r"( {3})(\S.*)")
"""A line of a paragraph. Figures and Python are indented by more, and tables have gaps."""
_LISTED = re.compile(r"( {3}\S+(?: \S+)* {2,})(\S.*)")
_CALLED = re.compile(r"( {6}\S.*?) +(# .*)")


def width() -> int:
    """Return the characters that a line on stdout may have; a log is no terminal, and has the most."""
    return min(MOST, shutil.get_terminal_size().columns - 1) if sys.stdout.isatty() else MOST


def hung(head: str, text: str, most: int) -> str:
    """Put a text behind its head, and what is too long below the text's beginning.

    Examples
    --------
    >>> print(hung("[1.0 s] ", "flights: identical to the reference", 30))
    [1.0 s] flights: identical to
            the reference
    """
    return textwrap.fill(
        text, max(most, len(head) + 20), initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False
    )


def fitted(text: str, most: int) -> str:
    """Fill paragraphs, whose lines are indented by three spaces, and put comments that are too long below their code.

    Examples
    --------
    >>> print(fitted("2. Title\\n\\n   A line\\n   and the rest of it.\\n\\n      run.rate = 10_000    # the rate", 22))
    2. Title
    <BLANKLINE>
       A line and the rest
       of it.
    <BLANKLINE>
          run.rate = 10_000
          # the rate
    """
    lines: list[str] = []
    paragraph: list[str] = []
    for line in [*text.split("\n"), None]:
        if line is not None and _WRITTEN.fullmatch(line) and not _LISTED.fullmatch(line):
            paragraph.append(line.strip())
            continue
        if paragraph:
            lines.append(hung("   ", " ".join(paragraph), most))
            paragraph = []
        if line is None:
            break
        if len(line) > most and (found := _LISTED.fullmatch(line)):
            lines.append(hung(found[1], found[2], most))
        elif len(line) > most and (found := _CALLED.fullmatch(line)):
            lines += [found[1], hung("      # ", found[2][2:], most).replace("\n        ", "\n      # ")]
        else:
            lines.append(line)
    return "\n".join(lines)
