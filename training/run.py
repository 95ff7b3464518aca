"""A run: documents, vocabulary, network, then Lightning until steps or minutes are used up."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

import torch
from lightning.pytorch import Trainer

from anyorder.forbidden import Forbidden
from training.callbacks import Checkpoint, Report
from training.clock import Clock
from training.config import FitConfig
from training.data import FitData
from training.documents import Documents
from training.logs import make_logger
from training.module import FitModule
from training.prepare import measure_characters_per_token, prepare_model
from training.resume import open_run


def fit(config: FitConfig, documents: Documents) -> Path:
    """Train on documents; returns the directory of the best model.

    Raises:
        ValueError: if the start or the options do not work.
    """
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    torch.set_num_threads(config.run.threads)
    clock = Clock(config.run)
    checkpoint = open_run(config)
    model = prepare_model(config, documents)
    characters = config.data.characters_per_token or measure_characters_per_token(
        documents, model.codec, config.run.out / "data.json"
    )
    forbidden = Forbidden.of(model.network.vocab_size, ids=model.settings.forbidden_ids)
    report = Report(model, documents.first(1000, held_out=True), characters, config.run)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning")  # advice on loaders and checkpoints, which are ours
        trainer = Trainer(
            accelerator=config.run.accelerator,
            devices=config.run.devices,
            strategy=config.run.strategy,
            precision=config.run.precision,
            max_epochs=-1,
            logger=make_logger(config.run),
            callbacks=[report, Checkpoint(config.run)],
            default_root_dir=config.run.out,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
        )
        trainer.fit(
            FitModule(model.network, forbidden, config, clock),
            datamodule=FitData(documents, model.codec, characters, config),
            ckpt_path=checkpoint,
        )
    return config.run.out / "best"
