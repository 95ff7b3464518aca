"""What happens between the steps of a causal run: the log, held-out figures, the models that are kept, the bar."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from lightning.pytorch import Callback, Trainer
from tqdm import tqdm

from anyorder.adapters.causal import CausalModel
from training.config import RunConfig
from training.divergence import refuse_diverged
from training.files import replace_directory
from training.logs import open_bar


class Judge(NamedTuple):
    """What an objective wants to know and to keep.

    Attributes:
        parts: what the two figures of a training step are called.
        measure: held-out figures of the network as it is.
        score: of those figures; the lowest is the best model.
        save: write the model into a fresh directory.
    """

    parts: tuple[str, str]
    measure: Callable[[], dict[str, float]]
    score: Callable[[dict[str, float]], float]
    save: Callable[[Path], None]


class CausalReport(Callback):
    """Log, validate, keep the best model and the last."""

    def __init__(self, network: CausalModel, judge: Judge, run: RunConfig) -> None:
        self.network, self.judge, self.run = network, judge, run
        self.best, self._next = float("inf"), 0.0
        self._bar: tqdm[Any] | None = None

    def state_dict(self) -> dict[str, Any]:
        """What survives a kill."""
        return {"best": self.best, "next": self._next}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """See ``state_dict``."""
        self.best, self._next = state_dict["best"], state_dict["next"]

    def on_train_batch_end(self, trainer: Trainer, module: Any, _out: Any, _batch: Any, _index: int) -> None:
        """After every step."""
        run, minutes = self.run, module.clock.seconds / 60
        parts = dict(zip(self.judge.parts, module.train_loss.tolist(), strict=True))
        if trainer.is_global_zero:
            self._show(module.steps, minutes, parts)
        due = module.steps % run.validate_every == 0 if run.validate_every else minutes >= self._next
        figures = {"tokens": module.tokens_seen, "minutes": minutes}
        figures |= {f"train_{name}": value for name, value in parts.items()}
        if due or trainer.should_stop:
            self._next = minutes + run.validate_minutes
            figures |= self._validate(trainer, module.steps)
        elif module.steps % run.log_every:
            return
        if trainer.logger is not None:
            trainer.logger.log_metrics(figures, module.steps)

    def on_train_end(self, trainer: Trainer, _module: Any) -> None:
        """Close the bar; a run that is over has a best model, or says that it has none."""
        self._close_bar()
        best = self.run.out / "best"
        if trainer.is_global_zero and (not math.isfinite(self.best) or not best.is_dir()):
            raise ValueError(
                f"this run is over and wrote no {best}"
                f"{': what lies there is of an earlier one' if best.is_dir() else ''}; "
                "start over with --resume false, or choose another --out"
            )

    def on_exception(self, _trainer: Trainer, _module: Any, _exception: BaseException) -> None:
        """Close the bar, so that the error has a line of its own."""
        self._close_bar()

    def _show(self, step: int, minutes: float, parts: dict[str, float]) -> None:
        if self._bar is None:
            self._bar = open_bar(self.run)
        self._bar.n = min(step if self.run.max_steps else round(60 * minutes), self._bar.total)
        self._bar.set_postfix(step=step, **{name: f"{value:.3f}" for name, value in parts.items()})

    def _close_bar(self) -> None:
        if self._bar is not None:
            self._bar.close()

    def _validate(self, trainer: Trainer, step: int) -> dict[str, float]:
        """Measure, and write what is best so far and, at the end, what came last.

        Raises:
            ValueError: if the score is no number, after which nothing better can come.
        """
        self.network.eval()
        figures = self.judge.measure()
        score = self.judge.score(figures)
        refuse_diverged(score, figures, step)
        improved, self.best = score < self.best, min(score, self.best)
        for name, wanted in (("best", improved), ("last", trainer.should_stop)):
            if wanted and trainer.is_global_zero:
                replace_directory(self.run.out / name, self.judge.save)
        self.network.train()
        return figures
