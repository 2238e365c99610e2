"""The file format of checkpoints: numbers and arrays in one file, with a checksum.

::

    MAGIC       what the file is, and the version of this format
    8 bytes     length of the header, little-endian
    header      JSON: the values given; name, type and shape of each array
    arrays      one after the other, as they are in memory, little-endian
    32 bytes    SHA-256 of everything before
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headrace.errors import CheckpointError

MAGIC = b"headrace checkpoint, format 1\n"
_LENGTH = 8
_DIGEST = hashlib.sha256().digest_size


@dataclass
class Contents:
    """The contents of a checkpoint.

    Parameters
    ----------
    values : dict
        Values that JSON can hold: dicts with strings as keys, lists, strings, numbers, bools, None.
    arrays : dict of str to ndarray
    """

    values: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    def put(self, name: str, part: Contents) -> None:
        """Add the contents of another one under a name."""
        self.values[name] = part.values
        self.arrays |= {f"{name}/{own}": array for own, array in part.arrays.items()}

    def part(self, name: str) -> Contents:
        """Return the contents that were `put` under a name."""
        prefix = f"{name}/"
        arrays = {own[len(prefix) :]: array for own, array in self.arrays.items() if own.startswith(prefix)}
        return Contents(self.values[name], arrays)

    def put_texts(self, name: str, texts: Sequence[str]) -> None:
        """Add strings under a name, as two arrays."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        self.arrays[f"{name}.bytes"] = np.frombuffer(b"".join(encoded), np.uint8)
        self.arrays[f"{name}.lengths"] = np.array([len(one) for one in encoded], np.int64)

    def texts(self, name: str) -> list[str]:
        """Return the strings that `put_texts` added under a name."""
        data, ends = self.arrays[f"{name}.bytes"].tobytes(), np.cumsum(self.arrays[f"{name}.lengths"])
        begins = [0, *ends[:-1].tolist()] if len(ends) else []
        return [data[a:b].decode("utf-8", "surrogatepass") for a, b in zip(begins, ends.tolist(), strict=True)]


def pieces(contents: Contents) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a file, piece by piece."""
    digest = hashlib.sha256()
    for piece in _checked_pieces(contents):
        digest.update(piece)
        yield piece
    yield digest.digest()


def _checked_pieces(contents: Contents) -> Iterator[bytes | memoryview]:
    arrays = {name: np.ascontiguousarray(array) for name, array in contents.arrays.items()}
    described = [[name, array.dtype.newbyteorder("<").str, list(array.shape)] for name, array in arrays.items()]
    header = json.dumps({"values": contents.values, "arrays": described}).encode()
    yield MAGIC
    yield len(header).to_bytes(_LENGTH, "little")
    yield header
    for array in arrays.values():
        if array.size:
            little = array.astype(array.dtype.newbyteorder("<"), copy=False)
            yield memoryview(little.reshape(-1).view(np.uint8))


def read(path: Path) -> Contents:
    """Read a file, and verify that it is whole.

    Raises
    ------
    CheckpointError
        The file is not a checkpoint, or is damaged.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointError(
            f"checkpoint {str(path)!r} cannot be read ({error.strerror}); give the folder of a run, or one of its checkpoints"
        ) from None
    if not data.startswith(MAGIC):
        kind = "is empty" if not data else "is not a checkpoint of this version"
        # Another file that was given by mistake is not to be removed.
        fix = _FIX if path.name.startswith("checkpoint") else "give the folder of a run, or one of its checkpoints"
        raise CheckpointError(f"checkpoint {str(path)!r} {kind}; {fix}")
    if hashlib.sha256(data[:-_DIGEST]).digest() != data[-_DIGEST:]:
        raise CheckpointError(f"checkpoint {str(path)!r} is damaged: its {len(data):,} bytes are not those written; {_FIX}")
    at = len(MAGIC) + _LENGTH
    length = int.from_bytes(data[len(MAGIC) : at], "little")
    header = json.loads(data[at : at + length])
    at += length
    arrays = {}
    for name, dtype, shape in header["arrays"]:
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(data, np.dtype(dtype), count, at).reshape(shape)
        at += arrays[name].nbytes
    return Contents(header["values"], arrays)


_FIX = "remove the file to resume from the checkpoint before it, or start without resume to begin again"


__all__ = ["Contents", "pieces", "read"]
