"""What the evaluation's tests share: a tiny causal model on disk with a view of it, and modules of a user's own."""

from __future__ import annotations

import sys
from collections.abc import Callable
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


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Writes a module (name, source) where a user of ``--infiller`` would: in the directory of the command."""

    def write(name: str, source: str) -> None:
        (tmp_path / f"{name}.py").write_text(source)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", list(sys.path))
        monkeypatch.delitem(sys.modules, name, raising=False)

    return write
