"""Chooses the scheme, the punctuation and the sharing of chains by trial: the fastest choice is kept for a while."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from headrace.arguments import check_seconds
from headrace.control.observation import Observation
from headrace.control.policy import Policy
from headrace.control.requests import Request
from headrace.errors import NotSupportedError, ParameterError
from headrace.transactions.arrays import MOST_PUNCTUATION
from headrace.transactions.configuration import SHARINGS

TRIED = ("chains", "lock", "mvlk", "partition", "speculative", "serial")
"""All schemes but ``none``, whose results are wrong."""
LEAST_PUNCTUATION = 32
_STEP = 4
_TWO_SOCKETS = 4
"""Least number of threads with which each of two groups has more than one."""
_PATIENCE = 20
"""Observations after which a trial that has not begun is given up."""
_STEADY = 0.1
"""Fraction by which two measurements that agree may differ."""
_MOST_PIECES = 8
"""Measurements of a trial, at most: if no two successive ones agree, the last two count."""
_NEAR = 0.8
"""Fraction of the fastest choice's speed from which the third fastest is measured once more, too."""


@dataclass
class _Piece:
    events: float = 0.0
    seconds: float = 0.0

    @property
    def speed(self) -> float:
        return self.events / self.seconds if self.seconds > 0 else math.nan


@dataclass
class _Trial:
    controls: dict[str, Any]
    pieces: list[_Piece] = field(default_factory=list)

    def add(self, observation: Observation, piece_s: float) -> None:
        """Add the events executed and the time in which the executors had input, in pieces of `piece_s` seconds."""
        if observation.processed <= 0:
            return
        if not self.pieces or self.pieces[-1].seconds >= piece_s:
            self.pieces.append(_Piece())
        self.pieces[-1].events += observation.processed * observation.interval_s
        self.pieces[-1].seconds += (1 - observation.idle) * observation.interval_s

    def is_over(self, piece_s: float) -> bool:
        """Whether the two newest pieces agree, or there were enough of them: caches and branch predictors warm up first."""
        if len(self.pieces) < 2 or self.pieces[-1].seconds < piece_s:
            return False
        before, now = self.pieces[-2].speed, self.pieces[-1].speed
        return abs(now - before) <= _STEADY * max(now, before) or len(self.pieces) >= _MOST_PIECES

    @property
    def seconds(self) -> float:
        """For how long it was measured."""
        return sum(piece.seconds for piece in self.pieces)

    @property
    def events(self) -> float:
        """How many events were executed in this time."""
        return sum(piece.events for piece in self.pieces)

    @property
    def speed(self) -> float:
        """Events per second of the time in which the executors had input, over the two newest pieces."""
        return _both(self.pieces)

    def __str__(self) -> str:
        return f"{' '.join(str(value) for value in self.controls.values())} {_spoken(self.speed)}"


@dataclass
class AdaptiveScheme(Policy):
    """Try the schemes of a transactional operator, then shorter and longer batches and ways to share; keep the fastest.

    A scheme's speed is the number of events it executes per second in which there is input, so that it can be measured even
    when input comes slowly. Schemes are tried again when the speed or the threads have changed, and every `again_s` seconds.
    A trial goes on until two successive measures agree, since the first batches after a change cost more than later ones.
    The decision's ``figures["regret"]``, the column ``figure_regret`` of ``run.decisions.to_pandas()``, is the cost of the
    trials: how many more events the best choice would have executed meanwhile.
    With one thread there is nothing to choose: one executor runs events in their order, whatever the scheme.
    ``start(scheme="adaptive")`` attaches a controller that knows which schemes can run the functions: if keys depend on what
    is read, it tries "speculative" and "serial".

    Parameters
    ----------
    schemes : sequence of str
        Schemes to try, except ``none``. Those that the operator does not have are skipped.
    punctuations : bool
        Also try batches of a quarter and of four times the length, as long as that is better.
    sharings : bool
        If chains are fastest, try the other ways in which threads may share them, too; "socket" with four threads or more.
    trial_s : float
        Least seconds of a trial, counting time in which there is input: two halves that must agree. A trial that does not
        become steady takes four times as long, and no longer.
    again_s : float
        Seconds after which all are tried again.
    changed : float
        Fraction by which the speed must have changed, in two trials' time, for all to be tried at once.
    gain : float
        Fraction by which a choice must be faster than the one in force before.

    Raises
    ------
    NotSupportedError
        By `start`, `run.control` and `decide`: the operator does not run transactions.

    Examples
    --------
    >>> AdaptiveScheme(schemes=("chains", "lock"), trial_s=1.0).schemes
    ('chains', 'lock')
    """

    needs: ClassVar[str] = "scheme"

    schemes: Sequence[str] = TRIED
    punctuations: bool = True
    sharings: bool = True
    trial_s: float = 0.4
    again_s: float = 30.0
    changed: float = 0.25
    gain: float = 0.05
    _round: Iterator[Request | None] | None = field(default=None, init=False, repr=False)
    _seen: Observation | None = field(default=None, init=False, repr=False)
    _kept: _Trial | None = field(default=None, init=False, repr=False)
    _now: _Trial | None = field(default=None, init=False, repr=False)
    _threads: int = field(default=0, init=False, repr=False)
    _until_s: float = field(default=-math.inf, init=False, repr=False)
    _odd: int = field(default=0, init=False, repr=False)

    def __post_init__(self):
        wrong = [scheme for scheme in self.schemes if scheme not in TRIED]
        if isinstance(self.schemes, str) or wrong or not self.schemes:
            raise ParameterError(f"schemes={self.schemes!r}: give some of {', '.join(TRIED)}")
        check_seconds("trial_s", self.trial_s, 0.01)
        check_seconds("again_s", self.again_s, 0.1)
        for name in ("changed", "gain"):
            if not 0 < getattr(self, name) < 1:
                raise ParameterError(f"{name}={getattr(self, name)!r}: give a fraction, above 0 and below 1")

    def decide(self, observation: Observation) -> Request | None:
        """Ask for the next trial, or for the fastest choice; None while a trial is measured.

        Parameters
        ----------
        observation : Observation
            Of the interval that has just ended.

        Raises
        ------
        NotSupportedError
            The operator has no scheme.
        """
        if "scheme" not in observation.configuration:
            raise NotSupportedError(
                "AdaptiveScheme chooses a scheme of transactions, and this operator has none; attach it to an operator made by"
                " transact()"
            )
        self._seen = observation
        if observation.threads == 1:
            self._round = self._kept = None
            return None
        if self._round is None and not self._is_due(observation):
            return None
        if self._round is None:
            self._round, self._threads = self._tried(), observation.threads
        request = next(self._round, None)
        if observation.threads != self._threads:
            self._round = self._kept = None  # what was measured holds no longer
            return None
        return request

    def _is_due(self, observation: Observation) -> bool:
        """Whether to try all again; the configuration in force is measured meanwhile."""
        kept = self._kept
        if kept is None or observation.threads != self._threads or observation.at_s >= self._until_s:
            return True
        if self._now is None or not _is_in_force(kept, observation):
            self._now = _Trial(kept.controls)
            return False
        self._now.add(observation, self.trial_s / 2)
        if self._now.seconds < self.trial_s:
            return False
        is_odd = abs(self._now.speed / kept.speed - 1) > self.changed
        self._odd = self._odd + 1 if is_odd else 0
        self._now = _Trial(kept.controls)
        return self._odd >= 2

    def _observed(self) -> Observation:
        assert self._seen is not None
        return self._seen

    def _tried(self) -> Iterator[Request | None]:
        """Try all, then request the best: each step receives a later observation."""
        before = dict(self._observed().configuration)
        first = {"scheme": before["scheme"], "punctuation": before["punctuation"]}
        others = [{**first, "scheme": scheme} for scheme in self.schemes if scheme != first["scheme"]]
        trials = [_Trial(first)]
        yield from self._measured(trials[0], None)
        for controls in others:
            yield from self._measured(_Trial(controls), trials)
        best = _best(trials, self.gain)
        for factor in (1 / _STEP, _STEP) if self.punctuations and best.controls["scheme"] != "serial" else ():
            while True:
                length = int(best.controls["punctuation"] * factor)
                if not LEAST_PUNCTUATION <= length <= MOST_PUNCTUATION:
                    break
                yield from self._measured(_Trial({**best.controls, "punctuation": length}), trials)
                if _best([best, trials[-1]], self.gain) is best:
                    break
                best = trials[-1]
        if self.sharings and best.controls["scheme"] == "chains" and "sharing" in before:
            best.controls["sharing"] = before["sharing"]  # named, so that it is requested again if the others are slower
            with_best = [best]
            for sharing in SHARINGS if self._threads >= _TWO_SOCKETS else SHARINGS[:2]:
                if sharing != before["sharing"]:
                    yield from self._measured(_Trial({**best.controls, "sharing": sharing}), with_best)
            trials += with_best[1:]
            best = _best(with_best, self.gain)
        best, newer = yield from self._once_more(best, trials)
        trials += newer
        self._kept, self._now, self._odd, self._round = best, None, 0, None
        self._until_s = self._observed().at_s + self.again_s
        regret = max(0.0, sum(best.speed * trial.seconds - trial.events for trial in trials))
        yield Request(
            controls=best.controls,
            metric="speed",
            value=best.speed,
            threshold=trials[0].speed,
            reason=f"events/s of {self._threads} threads: {'; '.join(map(str, trials))}; trying them cost"
            f" {_spoken(regret)} events",
            predicted={"speed": best.speed},
            figures={"regret": regret},
        )

    def _once_more(
        self, best: _Trial, trials: Sequence[_Trial]
    ) -> Generator[Request | None, None, tuple[_Trial, list[_Trial]]]:
        """Measure the fastest and its close rivals again: the first measurements are from the run's beginning, or old."""
        others = [each for each in trials if each.seconds and each is not best]
        others = sorted(others, key=lambda each: each.speed, reverse=True)[:2]
        rivals = [each for place, each in enumerate(others) if place == 0 or each.speed >= _NEAR * best.speed]
        newer = [best]
        for each in (*reversed(rivals), best) if rivals else ():
            yield from self._measured(_Trial({**best.controls, **each.controls}), newer)
        is_complete = len(newer) == len(rivals) + 2
        return (_best([newer[-1], *newer[1:-1]], self.gain) if is_complete else best), newer[1:]

    def _measured(self, trial: _Trial, trials: list[_Trial] | None) -> Iterator[Request | None]:
        """Request a configuration to try, wait until it is in force, and measure it; append it to the trials."""
        if trials is not None:
            if not _is_in_force(trial, self._observed()):
                said = f"a trial, after {trials[-1]} events/s"
                yield Request(controls=trial.controls, metric="speed", value=trials[-1].speed, reason=said)
            for _ in range(_PATIENCE):
                if _is_in_force(trial, self._observed()):
                    break
                yield None
            else:
                return
            trials.append(trial)
            yield None  # the interval in which it came into force mixes two configurations
        while not trial.is_over(self.trial_s / 2):
            if not _is_in_force(trial, self._observed()):
                return  # another request has changed the configuration
            trial.add(self._observed(), self.trial_s / 2)
            if not trial.is_over(self.trial_s / 2):
                yield None


def _both(pieces: Sequence[_Piece]) -> float:
    """Speed over the two newest pieces."""
    newest = pieces[-2:]
    return _Piece(sum(piece.events for piece in newest), sum(piece.seconds for piece in newest)).speed


def _is_in_force(trial: _Trial, observation: Observation) -> bool:
    now: Mapping[str, Any] = observation.configuration
    return not observation.is_changing and all(now[name] == value for name, value in trial.controls.items())


def _best(trials: Sequence[_Trial], gain: float) -> _Trial:
    """The fastest trial if it gains more than `gain` on the first, which was in force before; else the first."""
    best = max((trial for trial in trials if trial.seconds), key=lambda trial: trial.speed, default=trials[0])
    return best if best.speed > trials[0].speed * (1 + gain) else trials[0]


def _spoken(number: float) -> str:
    if math.isnan(number):
        return "not measured"
    return f"{number / 1e6:.2f} M" if number >= 1e6 else f"{number / 1e3:.0f} k" if number >= 1e4 else f"{number:.0f}"
