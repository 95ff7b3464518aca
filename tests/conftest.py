"""Settings all tests share; this file also puts ``tests/`` on the path, where their helpers lie."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import settings

import anyorder
from anyorder.codec import train_vocabulary
from anyorder.codec.load import load_codec
from anyorder.model.config import AnyOrderConfig, XLNetConfig
from anyorder.model.loaded import Model
from anyorder.model.xlnet import XLNet

# Shared machines make timings unreliable: a slow example is no failure.
settings.register_profile("anyorder", deadline=None)
settings.load_profile("anyorder")


@pytest.fixture(autouse=True)
def _same_start() -> None:
    """Whatever a test draws from torch's global generator is the same in every run."""
    torch.manual_seed(0)


CORPUS = Path(__file__).read_text(encoding="utf-8")
"""Enough text for a small vocabulary."""


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint directory with random weights, wide enough apart that its distributions are far from uniform."""
    directory = tmp_path_factory.mktemp("checkpoints") / "tiny"
    directory.mkdir()
    train_vocabulary([CORPUS] * 3, directory / "tokenizer.model", vocab_size=500)
    codec = load_codec("anyorder-sentencepiece", directory / "tokenizer.model")
    config = XLNetConfig(
        vocab_size=codec.vocab_size, d_model=32, n_layer=2, n_head=4, d_inner=64, initializer_range=0.4
    )
    settings = AnyOrderConfig(
        codec=codec.name, mask_id=codec.mask_id, forbidden_ids=tuple(codec.forbidden_ids), max_length=96
    )
    network = XLNet(config).initialise(torch.Generator().manual_seed(0)).eval()
    Model(name="tiny", network=network, codec=codec, settings=settings).save_pretrained(directory)
    return directory


@pytest.fixture(scope="session")
def tiny(tiny_checkpoint: Path) -> Model:
    """The model of ``tiny_checkpoint``."""
    return anyorder.load(tiny_checkpoint)
