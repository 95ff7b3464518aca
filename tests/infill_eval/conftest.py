"""What the tests of left-to-right tasks share: a tiny causal model on disk, and a view of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_causal import network, save_run, save_view

from anyorder.codec import SentencePieceCodec


@pytest.fixture(scope="session")
def causal_codec(tiny_checkpoint: Path) -> SentencePieceCodec:
    return SentencePieceCodec.from_file(tiny_checkpoint / "tokenizer.model")


@pytest.fixture(scope="session")
def causal_run(causal_codec: SentencePieceCodec, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("causal") / "best"
    return save_run(directory, causal_codec, network(causal_codec.vocab_size, max_length=2048))


@pytest.fixture(scope="session")
def causal_view(causal_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_view(tmp_path_factory.mktemp("view") / "best", causal_run)
