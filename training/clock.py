"""How far a run is: by steps, by time, or by whichever ends first. What a killed run had used is not forgotten."""

from __future__ import annotations

import time
from collections.abc import Callable

from training.config import RunConfig


class Clock:
    """Counts the minutes of a run over all of its processes' lives.

    Attributes:
        used: seconds that earlier processes used up to the checkpoint.
    """

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._now: Callable[[], float] = time.process_time if config.clock == "processor" else time.monotonic
        self._start = self._now()
        self.used = 0.0

    def start(self) -> None:
        """Training starts now; what came before, reading data and training a vocabulary, does not count."""
        self._start = self._now()

    @property
    def seconds(self) -> float:
        """Seconds used so far, by ``config.clock``."""
        return self.used + self._now() - self._start

    def progress(self, step: int) -> float:
        """The share of the run that is done, 1 or more at its end."""
        by_step = step / self._config.max_steps if self._config.max_steps else 0.0
        by_time = self.seconds / (60 * self._config.minutes) if self._config.minutes else 0.0
        return max(by_step, by_time)

    def is_last(self, step: int) -> bool:
        """Whether a run over steps ends here; one over time ends when the progress that ranks agreed on says so."""
        return self._config.max_steps is not None and step >= self._config.max_steps

    def was_done(self, step: int) -> bool:
        """Whether earlier processes, which did ``step`` steps, used up all there is."""
        minutes = self._config.minutes
        return self.is_last(step) or (minutes is not None and self.used >= 60 * minutes)
