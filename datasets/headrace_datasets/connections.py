"""Network connections, few of them attacks: what the outlier detection of Flumina's case study looks for (Kallas et al.).

"Stream Processing with Dependency-Guided Synchronization", appendix A.1. Fitted to 20,000 connections of the KDD Cup of
1999, one a second, which its authors use: the shares of services and flags, and for each service the bytes sent and received,
whose logarithms are normally distributed. Two of those connections are attacks, by telnet, that last minutes. Here, too, each
attack uses a rare service, and it sends more bytes than any other connection.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from headrace_datasets.dataset import TIME, Dataset
from headrace_datasets.events import BLOCK_ROWS, Columns, blocks, call_of, stream_of
from headrace_datasets.parameters import explains_arguments, share

TEXT, INTEGER = pa.string(), pa.int64()
SCHEMA = pa.schema(
    {
        "ts": TIME, "protocol": TEXT, "service": TEXT, "flag": TEXT, "duration": INTEGER, "src_bytes": INTEGER,
        "dst_bytes": INTEGER, "attack": pa.bool_(),
    }
)  # fmt: skip


class Service(NamedTuple):
    """The connections of a service: shares, medians of bytes, and the standard deviations of the bytes' logarithms."""

    protocol: str
    name: str
    share: float
    lasting: float
    """Share of the connections that take a second or more."""
    sent: float
    sent_deviation: float
    received: float
    received_deviation: float


SERVICES = (
    Service("tcp", "http", 0.9132, 0.004, 240, 0.23, 1718, 1.27),
    Service("tcp", "smtp", 0.0448, 0.244, 1234, 0.59, 332, 0.23),
    Service("udp", "domain_u", 0.0132, 0.209, 33, 0.51, 60, 0.9),
    Service("tcp", "ftp", 0.0059, 0.9, 200, 0.9, 600, 0.9),
    Service("tcp", "finger", 0.0054, 0.5, 10, 0.3, 60, 0.9),
    Service("icmp", "ecr_i", 0.0049, 0.0, 60, 0.9, 1, 0.0),
    Service("udp", "ntp_u", 0.0040, 0.2, 48, 0.0, 48, 0.0),
    Service("tcp", "auth", 0.0038, 0.05, 10, 0.2, 20, 0.3),
    Service("tcp", "telnet", 0.0018, 0.95, 1500, 0.9, 3000, 0.9),
    Service("tcp", "other", 0.0018, 0.3, 5, 1.0, 1, 0.0),
    Service("icmp", "eco_i", 0.0012, 0.0, 20, 0.3, 1, 0.0),
)
FLAGS, OF_FLAGS = ("SF", "REJ", "S1", "S2"), (0.9975, 0.0018, 0.0006, 0.0001)
DURATION_S, DURATION_DEVIATION = 5.0, 2.1
ATTACK_S, ATTACK_BYTES = (100, 2_000), (10**7, 10**9)
ATTACKED = "telnet"


@explains_arguments
def connections(n: int = 20_000, seed: int = 7, rate: float = 1.0, *, attacks: float = 0.0001) -> Dataset:
    """Connections of a local network, some of which are attacks.

    Parameters
    ----------
    n : int
        Rows.
    seed : int
        Another seed gives other connections.
    rate : float
        Connections a second, with exponential gaps.
    attacks : float
        Share of the connections that are attacks.

    Returns
    -------
    Dataset
        ts; protocol, service, flag, string; duration, in seconds, src_bytes and dst_bytes, int64; attack, bool. Event times
        are whole milliseconds.

    Raises
    ------
    ValueError
        A parameter is out of its range; the text names it and says what to give.

    Examples
    --------
    >>> from headrace_datasets import connections
    >>> connections(n=2, attacks=1).to_arrow()["service"].to_pylist()
    ['telnet', 'telnet']
    """
    made = stream_of(n, seed, rate) | {"attacks": share("attacks", attacks)}
    return Dataset(call_of("connections", **made), SCHEMA, partial(_blocks, **made))


def generate(n: int, seed: int, rate: float = 1.0, **parameters: Any) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows of `connections`, with its parameters, in blocks."""
    return connections(n, seed, rate, **parameters).batches(BLOCK_ROWS)


def _blocks(n: int, seed: int, rate: float, attacks: float) -> Iterator[pa.RecordBatch]:
    def columns() -> Columns:
        shares = np.array([one.share for one in SERVICES])
        lasting, sent, sent_by, received, received_by = (
            np.array([getattr(one, name) for one in SERVICES])
            for name in ("lasting", "sent", "sent_deviation", "received", "received_deviation")
        )
        telnet = next(number for number, one in enumerate(SERVICES) if one.name == ATTACKED)
        protocols, services = (pa.array([getattr(one, name) for one in SERVICES]) for name in ("protocol", "name"))

        def draw(rng: np.random.Generator) -> list[pa.Array]:
            is_attack = rng.random(BLOCK_ROWS) < attacks
            of = np.where(is_attack, telnet, rng.choice(len(SERVICES), BLOCK_ROWS, p=shares / shares.sum()))
            flag = rng.choice(len(FLAGS), BLOCK_ROWS, p=OF_FLAGS)
            normal = rng.standard_normal((3, BLOCK_ROWS))
            seconds = 1 + DURATION_S * np.exp(DURATION_DEVIATION * normal[0])
            duration = np.where(rng.random(BLOCK_ROWS) < lasting[of], np.minimum(seconds, 40_000), 0)
            duration = np.where(is_attack, rng.integers(*ATTACK_S, BLOCK_ROWS), duration)
            src = np.where(is_attack, rng.integers(*ATTACK_BYTES, BLOCK_ROWS), sent[of] * np.exp(sent_by[of] * normal[1]))
            dst = received[of] * np.exp(received_by[of] * normal[2])
            numbers = (pa.array(np.floor(each).astype(np.int64)) for each in (duration, src, dst))
            of_row = pa.array(of)
            return [
                protocols.take(of_row), services.take(of_row), pa.array(FLAGS).take(pa.array(flag)), *numbers,
                pa.array(is_attack),
            ]  # fmt: skip

        return draw

    return blocks(n, seed, rate, SCHEMA, columns)
