"""Lightning's trainer as every run here uses it: endless, with our own checkpoints, bar and order of the data."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer

from training.callbacks import Checkpoint
from training.config import RunConfig
from training.logs import make_logger


def train(
    module: LightningModule, data: LightningDataModule, report: Callback, config: RunConfig, checkpoint: Path | None
) -> None:
    """Train until the module says that it is enough, from a checkpoint if there is one."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning")  # advice on loaders and checkpoints, which are ours
        trainer = Trainer(
            accelerator=config.accelerator,
            devices=config.devices,
            strategy=config.strategy,
            precision=config.precision,
            max_epochs=-1,
            logger=make_logger(config),
            callbacks=[report, Checkpoint(config)],
            default_root_dir=config.out,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
        )
        trainer.fit(module, datamodule=data, ckpt_path=checkpoint)
