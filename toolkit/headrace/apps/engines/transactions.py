"""Transactions on the command line: schemes, batches of events, and the tables after the last one."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from headrace.apps.engines.engine import Engine
from headrace.apps.flag import Flag, one_of, whole
from headrace.apps.state import check_folder, state_files
from headrace.errors import ParameterError, UnsafeResultsWarning
from headrace.transactions.configuration import SCHEMES, SHARINGS
from headrace.transactions.options import (
    ADAPTIVE,
    CHAIN_KINDS,
    DEFAULT_PUNCTUATION,
    DEFAULT_SCHEME,
    MOST_PUNCTUATION,
    TransactionOptions,
)


class Transactions(Engine):
    """The engine of transactions."""

    name = "transactions"
    runs = title = "transactions"
    flags = (
        Flag(
            "scheme", f"{', '.join(SCHEMES)}, or {ADAPTIVE}: tries them (default {DEFAULT_SCHEME})",
            one_of("scheme", (*SCHEMES, ADAPTIVE)), metavar="NAME",
        ),
        Flag(
            "punctuation", f"events of a batch (default {DEFAULT_PUNCTUATION})", whole("events", MOST_PUNCTUATION), metavar="N"
        ),
        Flag("sharing", "which chains a thread may take from other threads (default nothing)", choices=SHARINGS),
        Flag(
            "chains", "how operation chains are made, where there are any (default radix); skiplist: as in the paper",
            choices=CHAIN_KINDS,
        ),
        Flag("unsafe", "allow --scheme none, whose results are wrong", is_switch=True, place="meaning"),
        Flag(
            "state", "write the tables after the last event, DIR/NAME.parquet each", metavar="DIR", place="files",
            is_option=False,
        ),
    )  # fmt: skip
    refusal = "runs no transactions, and has no tables"
    lacking, lacks = "is transactional, and ", TransactionOptions.lacks

    def check(self) -> None:
        if self.given("scheme") != "none":
            return
        if not self.given("unsafe"):
            raise ParameterError(
                "--scheme none takes no locks and keeps no order, so its results are wrong; add --unsafe if that is what you"
                " want to see, or give another scheme"
            )
        print("headrace: --scheme none takes no locks and keeps no order: THE RESULTS ARE WRONG", file=sys.stderr, flush=True)

    def check_paths(self, others: Sequence[str]) -> None:
        if self.given("state") is not None:
            check_folder(self.given("state"), self.app.tables, others)

    @contextmanager
    def around(self) -> Iterator[Callable[[Any], None]]:
        with state_files(self.given("state"), self.app.tables) as write, warnings.catch_warnings():
            warnings.simplefilter("ignore", UnsafeResultsWarning)  # `check` has already warned
            yield lambda run: self._complete(write, run)

    def _complete(self, write: Callable[[Any], None], run: Any) -> None:
        write(run)
        if self._scheme != self._asked_scheme:  # said at the end, since a command that fails says one line
            said = f"--scheme {self._asked_scheme}: {self.app.name} was run by {self._scheme}, {self.app.not_speculative}"
            print(f"headrace: {said}", file=sys.stderr, flush=True)

    @property
    def _asked_scheme(self) -> str:
        return self.given("scheme") or DEFAULT_SCHEME

    @property
    def _scheme(self) -> str:
        """Return the scheme that is used: not one that cannot run the application, as the result is the same with any."""
        return DEFAULT_SCHEME if self._asked_scheme == "speculative" and self.app.not_speculative else self._asked_scheme

    def start_options(self) -> dict[str, Any]:
        return {**super().start_options(), "scheme": self._scheme}

    def figures(self, run: Any, operator: Any, seconds: float) -> dict[str, Any]:
        return {
            "rejected": operator.rejected,
            "transactions_per_s": operator.transactions / seconds if seconds > 0 else None,
            "scheme": self._scheme,
            "punctuation": self.given("punctuation") or DEFAULT_PUNCTUATION,
        }
