"""What happens between the steps of a MARS run: the log, held-out figures, the models that are kept, the bar."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, Trainer
from tqdm import tqdm

from anyorder.adapters import mars
from anyorder.adapters.causal import CausalModel
from training.mars_config import FitMarsConfig
from training.mars_data import MarsBatch
from training.mars_module import held_out_figures

VOCABULARY = "tokenizer.model"
"""The file of a SentencePiece vocabulary in a run and beside its models."""


class MarsReport(Callback):
    """Log, validate, keep the best model (by clean plus noisy nats, or clean alone where nothing drafts)."""

    def __init__(self, network: CausalModel, codec: Any, held_out: list[MarsBatch], config: FitMarsConfig) -> None:
        self.network, self.codec, self.held_out, self.config = network, codec, held_out, config
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
        run, minutes = self.config.run, module.clock.seconds / 60
        if self._bar is None:
            self._bar = tqdm(total=run.max_steps or round(60 * (run.minutes or 0)), desc=run.out.name, mininterval=1)
        self._bar.n = min(module.steps if run.max_steps else round(60 * minutes), self._bar.total)
        self._bar.set_postfix(
            step=module.steps, noisy=f"{module.train_loss[0]:.3f}", clean=f"{module.train_loss[1]:.3f}"
        )
        due = module.steps % run.validate_every == 0 if run.validate_every else minutes >= self._next
        figures = {"tokens": module.tokens_seen, "minutes": minutes}
        figures |= {"train_noisy": float(module.train_loss[0]), "train_clean": float(module.train_loss[1])}
        if due or trainer.should_stop:
            self._next = minutes + run.validate_minutes
            figures |= self._validate(trainer)
        elif module.steps % run.log_every:
            return
        if trainer.logger is not None:
            trainer.logger.log_metrics(figures, module.steps)

    def _validate(self, trainer: Trainer) -> dict[str, float]:
        """Measure, and write what is best so far and, at the end, what came last."""
        self.network.eval()
        figures = held_out_figures(self.network, self.held_out, self.config.mars.block)
        score = figures["density"] + (figures["noisy"] if self.config.mars.objective == "mars" else 0.0)
        improved, self.best = score < self.best, min(score, self.best)
        for name, wanted in (("best", improved), ("last", trainer.should_stop)):
            if wanted and trainer.is_global_zero:
                self._write(self.config.run.out / name)
        self.network.train()
        return figures

    def _write(self, directory: Path) -> None:
        """Write or replace a model's directory; a kill leaves the old one or the new one."""
        partial, old = directory.with_name(directory.name + ".partial"), directory.with_name(directory.name + ".old")
        for left in (partial, old):
            shutil.rmtree(left, ignore_errors=True)
        mars.save(self.network, partial, base=self.config.run.init_from if self.config.mars.lora_rank else None)
        self.codec.save(partial)
        if directory.exists():
            directory.rename(old)
        partial.rename(directory)
        shutil.rmtree(old, ignore_errors=True)
