"""What a run starts from: its documents, its vocabulary, its network, fresh or another model's."""

from __future__ import annotations

import copy
import json
import math
import time
from dataclasses import replace
from pathlib import Path

import torch

import anyorder
from anyorder.codec import Codec, SentencePieceCodec, train_vocabulary
from anyorder.model.config import AnyOrderConfig, XLNetConfig
from anyorder.model.loaded import Model
from anyorder.model.xlnet import XLNet
from training.config import DataConfig, FitConfig, ModelConfig
from training.documents import Documents
from training.exports import find_export
from training.files import write_atomically
from training.keyed import keyed_generator
from training.locality import start_local
from training.resume import is_first_process

VOCABULARY = "tokenizer.model"

MARGIN = 1.1
"""Windows are this much wider than the corpus's average says, so that most fill their sequence."""


def prepare_model(config: FitConfig, documents: Documents) -> Model:
    """The model a run trains, in training mode, with everything its checkpoints will say about themselves.

    Raises:
        ValueError: if ``init_from`` cannot be loaded or the vocabulary cannot be trained.
    """
    max_length = max(config.data.lengths)
    if config.run.init_from is not None:
        loaded = anyorder.load(find_export(config.run.init_from), weights="plain", codec=config.run.codec)
        network = copy.deepcopy(loaded.network)  # load() gives the same one to all callers
        if config.model.dropout is not None:
            network = _with_dropout(network, config.model.dropout)
        settings = replace(loaded.settings, max_length=max(max_length, loaded.settings.max_length), acceptance=())
        return Model(name=config.run.out.name, network=network.train(), codec=loaded.codec, settings=settings)
    codec = SentencePieceCodec.from_file(_vocabulary(config.run.out / VOCABULARY, config.data, documents))
    generator = keyed_generator(config.run.seed, "weights")
    network = XLNet(_shape(config.model, codec.vocab_size)).initialise(generator)
    if config.model.local_start:
        start_local(network, generator)
    settings = AnyOrderConfig(
        codec=codec.name, mask_id=codec.mask_id, forbidden_ids=codec.forbidden_ids, max_length=max_length
    )
    return Model(name=config.run.out.name, network=network.train(), codec=codec, settings=settings)


def measure_characters_per_token(documents: Documents, codec: Codec, path: Path) -> float:
    """How many characters a token has in these documents, and a little more; measured once a run."""
    if path.is_file():
        value: float = json.loads(path.read_text())["characters_per_token"]
        return value
    texts = [text[:10_000] for text in documents.first(100, held_out=False)]
    value = MARGIN * sum(map(len, texts)) / sum(len(codec.encode(text)) for text in texts)
    write_atomically(path, json.dumps({"characters_per_token": value}).encode())
    return value


def _vocabulary(path: Path, config: DataConfig, documents: Documents) -> Path:
    """The run's vocabulary file: what was given, or trained on the training side by the first process of a run."""
    if config.tokenizer is not None:
        return config.tokenizer
    if path.is_file():
        return path
    if not is_first_process():
        while not path.is_file():
            time.sleep(0.2)
        return path
    texts = documents.first(config.vocabulary_documents, held_out=False)
    write_atomically(path, train_vocabulary(texts, vocab_size=config.vocab_size))
    return path


def _shape(config: ModelConfig, vocab_size: int) -> XLNetConfig:
    return XLNetConfig(
        vocab_size=vocab_size,
        d_model=config.width,
        n_layer=config.layers,
        n_head=config.heads,
        d_inner=config.inner or 4 * config.width,
        dropout=config.dropout or 0.0,
        initializer_range=config.initializer_range or 1 / math.sqrt(config.width),
    )


def _with_dropout(network: XLNet, dropout: float) -> XLNet:
    """The same weights under another dropout."""
    changed = XLNet(replace(network.config, dropout=dropout))
    with torch.no_grad():
        changed.load_state_dict(network.state_dict())
    return changed
