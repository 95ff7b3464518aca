"""Progress of a call: a bar on the terminal, or a function of the caller's, told after every round of every batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from anyorder.decoding import Progress

OnProgress = Callable[[Progress], None]


class Meter:
    """Adds up the progress of batches that run one after the other.

    Args:
        on_progress: whom to tell; ``None`` is nobody.
        targets: tokens to decide in all batches together.
    """

    def __init__(self, on_progress: OnProgress | None, targets: int) -> None:
        self._tell, self._targets = on_progress, targets
        self._decided = self._rounds = 0

    def next_batch(self) -> OnProgress | None:
        """The callback for the next batch."""
        tell = self._tell
        if tell is None:
            return None
        before, rounds = self._decided, self._rounds

        def on_round(progress: Progress) -> None:
            self._decided, self._rounds = before + progress.decided, rounds + progress.rounds
            tell(Progress(rounds=self._rounds, decided=self._decided, targets=self._targets))

        return on_round


@contextmanager
def reporting(progress: bool | OnProgress) -> Iterator[OnProgress | None]:
    """Turn the public ``progress`` option into a callback: nobody, a tqdm bar for the duration, or the caller's own.

    Raises:
        TypeError: if it is neither a bool nor callable.
    """
    if callable(progress):
        yield progress
    elif not isinstance(progress, bool):
        raise TypeError(f"progress must be True, False or a function that takes a Progress; got {progress!r}")
    elif not progress:
        yield None
    else:
        from tqdm import tqdm

        with tqdm(unit="token") as bar:

            def advance(state: Progress) -> None:
                bar.total = state.targets
                bar.update(state.decided - bar.n)

            yield advance
