"""A run: documents, vocabulary, network, then Lightning until steps or minutes are used up."""

from __future__ import annotations

from pathlib import Path

import torch

from anyorder.forbidden import Forbidden
from training.callbacks import Report
from training.clock import Clock
from training.config import FitConfig
from training.data import FitData
from training.documents import Documents
from training.flags import flat
from training.module import FitModule
from training.prepare import check_tokenizer, fresh_model, measure_characters_per_token, open_start
from training.resume import open_run
from training.trainer import train


def fit(config: FitConfig, documents: Documents) -> Path:
    """Train on documents; returns the directory of the best model.

    Raises:
        ValueError: if the start or the options do not work.
    """
    torch.set_num_threads(config.run.threads)
    clock = Clock(config.run)
    start = None if config.run.init_from is None else open_start(config, config.run.init_from)
    if start is None:
        check_tokenizer(config.data)
    checkpoint = open_run(config.run, flat(config))
    model = start or fresh_model(config, documents)
    characters = config.data.characters_per_token or measure_characters_per_token(
        documents, model.codec, config.run.out / "data.json"
    )
    forbidden = Forbidden.of(model.network.vocab_size, ids=model.forbidden_ids)
    report = Report(model, documents.first(1000, held_out=True), characters, config.run)
    module = FitModule(model.network, forbidden, config, clock)
    train(module, FitData(documents, model.codec, characters, config), report, config.run, checkpoint)
    return config.run.out / "best"
