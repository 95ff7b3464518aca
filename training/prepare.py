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
"""The file of a SentencePiece vocabulary in a run and beside its models."""

MARGIN = 1.1
"""Windows are this much wider than the corpus's average says, so that most fill their sequence."""


def open_start(config: FitConfig, name: str) -> Model:
    """The model that a run goes on from, in training mode; a run can be refused for it before it is opened.

    Raises:
        ValueError: if it cannot be loaded.
    """
    loaded = anyorder.load(find_export(name), weights="plain", codec=config.run.codec)
    network = copy.deepcopy(loaded.network)  # load() gives the same one to all callers
    if config.model.dropout is not None:
        network = _with_dropout(network, config.model.dropout)
    max_length = max(*config.data.lengths, loaded.settings.max_length)
    settings = replace(loaded.settings, max_length=max_length, acceptance=())
    return Model(name=config.run.out.name, network=network.train(), codec=loaded.codec, settings=settings)


def fresh_model(config: FitConfig, documents: Documents) -> Model:
    """A model of random weights, in training mode, with everything its checkpoints will say about themselves.

    Raises:
        ValueError: if the vocabulary cannot be trained.
    """
    codec = fresh_codec(config.data, config.run.out, documents)
    generator = keyed_generator(config.run.seed, "weights")
    network = XLNet(_shape(config.model, codec.vocab_size)).initialise(generator)
    if config.model.local_start:
        start_local(network, generator)
    settings = AnyOrderConfig(
        codec=codec.name, mask_id=codec.mask_id, forbidden_ids=codec.forbidden_ids, max_length=max(config.data.lengths)
    )
    return Model(name=config.run.out.name, network=network.train(), codec=codec, settings=settings)


def check_tokenizer(config: DataConfig) -> None:
    """Refuse a vocabulary that was given and cannot be read, before a run is opened for it.

    Raises:
        ValueError: if it cannot.
    """
    if config.tokenizer is not None:
        SentencePieceCodec.from_file(config.tokenizer)


def fresh_codec(config: DataConfig, out: Path, documents: Documents | None) -> SentencePieceCodec:
    """The vocabulary of a fresh model: what was given, or trained on the training side by a run's first process.

    Args:
        config: names the vocabulary, or says how to train one.
        out: the run's directory, which keeps it.
        documents: to train on; not needed where one is given.
    """
    path = config.tokenizer or out / VOCABULARY
    if config.tokenizer is None and not is_first_process():
        while not path.is_file():
            time.sleep(0.2)
    elif config.tokenizer is None and documents is not None and not path.is_file():
        texts = documents.first(config.vocabulary_documents, held_out=False)
        write_atomically(path, train_vocabulary(texts, vocab_size=config.vocab_size))
    return SentencePieceCodec.from_file(path)


def measure_characters_per_token(documents: Documents, codec: Codec, path: Path) -> float:
    """How many characters a token has in these documents, and a little more; measured once a run."""
    if path.is_file():
        value: float = json.loads(path.read_text())["characters_per_token"]
        return value
    texts = [text[:10_000] for text in documents.first(100, held_out=False)]
    value = MARGIN * sum(map(len, texts)) / sum(len(codec.encode(text)) for text in texts)
    write_atomically(path, json.dumps({"characters_per_token": value}).encode())
    return value


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
