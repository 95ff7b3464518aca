"""What happens between steps: checkpoints, validation, reports, the progress bar, the end."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer
from tqdm import tqdm

import anyorder
from anyorder.model.loaded import Model
from training.allocator import release_freed_memory
from training.config import RunConfig
from training.data import FitData
from training.divergence import refuse_diverged
from training.exports import export
from training.logs import log_text, open_bar
from training.module import FitModule
from training.resume import LAST
from training.validation import evaluate, held_out_set


class Checkpoint(Callback):
    """Note the place in the data after every step, and write ``last.ckpt`` every so many steps and at the end.

    The file is complete before it takes the name, so a kill at any moment leaves the one before or the new one.
    """

    def __init__(self, config: RunConfig) -> None:
        self.config = config

    def on_train_batch_end(self, trainer: Trainer, module: Any, _out: Any, batch: Any, _index: int) -> None:
        """After every step."""
        data: FitData = trainer.datamodule  # type: ignore[attr-defined]
        data.record([part.place for part in batch])
        if module.steps % self.config.checkpoint_every == 0 or trainer.should_stop:
            save(trainer, self.config.out / LAST)


def save(trainer: Trainer, path: Path) -> None:
    """Write a checkpoint that takes its name only when it lies on the disk; every rank must call it."""
    partial = path.with_suffix(".tmp")
    trainer.save_checkpoint(partial)
    trainer.strategy.barrier()
    if trainer.is_global_zero:
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    trainer.strategy.barrier()


class Report(Callback):
    """Log, validate, keep the best model, show progress.

    Attributes:
        best: the lowest held-out density cost so far.
    """

    def __init__(self, model: Model, texts: list[str], characters_per_token: float, config: RunConfig) -> None:
        self.model, self.config, self.texts = model, config, texts
        self.best = float("inf")
        self._sets = held_out_set(model.codec, texts, characters_per_token, config.validate_windows)
        self._loss = torch.zeros(2)
        self._count = 0
        self._next_validation = 0.0
        self._bar: tqdm[Any] | None = None
        self._begin = (0.0, 0)

    def state_dict(self) -> dict[str, Any]:
        """What survives a kill."""
        return {"best": self.best, "next": self._next_validation, "loss": self._loss.tolist(), "count": self._count}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """See ``state_dict``."""
        self.best, self._next_validation = state_dict["best"], state_dict["next"]
        self._loss, self._count = torch.tensor(state_dict["loss"]), state_dict["count"]

    def on_train_start(self, trainer: Trainer, module: Any) -> None:
        """Open the bar."""
        self._begin = (module.clock.used, module.tokens_seen)
        if trainer.is_global_zero:
            self._bar = open_bar(self.config)

    def on_train_batch_end(self, trainer: Trainer, module: Any, _out: Any, _batch: Any, _index: int) -> None:
        """After every step."""
        self._loss, self._count = self._loss + module.train_loss, self._count + 1
        is_end = trainer.should_stop
        self._show(module)
        validates = is_end or self._is_due(module)
        if validates or module.steps % self.config.log_every == 0:
            figures = self._training_figures(module)
            if validates:
                figures |= self._validate(trainer, module, is_end=is_end)
            if trainer.logger is not None:
                trainer.logger.log_metrics(figures, module.steps)
            self._loss, self._count = torch.zeros(2), 0

    def on_train_end(self, _trainer: Trainer, _module: Any) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()

    def _is_due(self, module: FitModule) -> bool:
        if self.config.validate_every:
            return module.steps % self.config.validate_every == 0
        if module.clock.seconds < self._next_validation:
            return False
        self._next_validation = module.clock.seconds + 60 * self.config.validate_minutes
        return True

    def _show(self, module: FitModule) -> None:
        if self._bar is None:
            return
        done = module.clock.progress(module.steps)
        self._bar.n = min(round(done * self._bar.total), self._bar.total)
        joint = self._loss[0] / self._count
        self._bar.set_postfix(step=module.steps, loss=f"{joint:.3f}", tokens_per_s=f"{self._speed(module):.0f}")

    def _speed(self, module: FitModule) -> float:
        seconds, tokens = self._begin
        return (module.tokens_seen - tokens) / max(module.clock.seconds - seconds, 1e-9)

    def _training_figures(self, module: FitModule) -> dict[str, float]:
        joint, draft = (self._loss / max(self._count, 1)).tolist()
        return {
            "tokens": module.tokens_seen,
            "minutes": module.clock.seconds / 60,
            "tokens_per_s": self._speed(module),
            "train": joint,
            "train_draft": draft,
        }

    def _validate(self, trainer: Trainer, module: FitModule, *, is_end: bool) -> dict[str, float]:
        """Measure, export what is best so far and, at the end, what came last; every rank does, rank 0 writes.

        Raises:
            ValueError: if the density is no number.
        """
        network = module.network.eval()
        figures, kept = evaluate(network, self._sets, module.forbidden)
        refuse_diverged(figures["density"], figures, module.steps)
        improved, self.best = figures["density"] < self.best, min(figures["density"], self.best)
        if trainer.is_global_zero:
            model = replace(self.model, network=network)
            card = _card(self.config, module, figures)
            for name, wanted in (("best", improved), ("last", is_end)):
                if wanted:
                    dtype = getattr(torch, self.config.export_dtype)
                    export(model, self.config.out / name, acceptance=kept, card=card, dtype=dtype)
            log_text(trainer.logger, self.config.out, "infills", _infills(model, self.texts), module.steps)
        network.train()
        release_freed_memory()
        return figures


def _infills(model: Model, texts: list[str], count: int = 3) -> str:
    """The middle of a few held-out passages, filled in by the model; what it wrote stands in double brackets."""
    parts = []
    for seed, text in enumerate(texts[:count]):
        passage = text[:240]
        tokens = len(model.tokenize(passage))
        blank = list(range(tokens // 2, min(tokens // 2 + min(8, model.max_length // 4), tokens)))
        result = anyorder.infill(passage, blank, model=model, seed=seed, marker=None, context="crop")
        filled = result.spans[0]
        parts.append(f"{result.text[: filled.start]}[[{filled.text}]]{result.text[filled.end :]}")
    return "\n---\n".join(parts)


def _card(config: RunConfig, module: FitModule, figures: dict[str, float]) -> str:
    lines = "\n".join(f"| {name} | {value:.3f} |" for name, value in figures.items())
    return (
        f"# {config.out.name}\n\nAn any-subset autoregressive model trained by anyorder's `training/fit.py`: "
        f"{module.steps} steps, {module.tokens_seen / 1e6:.2f} M tokens, {module.clock.seconds / 60:.1f} minutes. "
        f"`config.yaml` of the run holds all its options.\n\n| held-out figure | |\n| --- | --- |\n{lines}\n"
    )
