"""What the tests train on: passages of this Python's own library, a vocabulary of 512."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from anyorder.codec import SentencePieceCodec, train_vocabulary
from training.corpus import load_texts


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def passages() -> list[str]:
    """Sixty documents of about 1,000 characters, all different."""
    texts = [text[:1000] for text in load_texts(held_out=False)]
    return [f"# document {number}\n{text}" for number, text in enumerate(texts[:240:4])]


@pytest.fixture(scope="session")
def vocabulary(passages: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vocabulary") / "tokenizer.model"
    train_vocabulary(passages, path, vocab_size=512)
    return path


@pytest.fixture(scope="session")
def codec(vocabulary: Path) -> SentencePieceCodec:
    return SentencePieceCodec.from_file(vocabulary)


@pytest.fixture(scope="session")
def folder(passages: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The passages as files."""
    path = tmp_path_factory.mktemp("documents")
    for number, text in enumerate(passages):
        (path / f"{number}.py").write_text(text, encoding="utf-8")
    return path
