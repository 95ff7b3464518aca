"""Vocabularies and Hugging Face checkpoints that the tests of loading share."""

from __future__ import annotations

import inspect
import shutil
import textwrap
from pathlib import Path

import pytest
import transformers
from formats import FORMATS, write_safetensors
from xlnet_reference import random_reference
from xlnet_vocabulary import train_xlnet

from anyorder.codec import train_vocabulary

SHAPE = {"vocab_size": 500, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64}


@pytest.fixture(scope="session")
def tokenizer_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vocabulary of our own kind with 500 ids."""
    path = tmp_path_factory.mktemp("vocabulary") / "tokenizer.model"
    train_vocabulary([inspect.getsource(textwrap)], path, vocab_size=500)
    return path


@pytest.fixture(scope="session")
def xlnet_tokenizer_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vocabulary with the flags and symbols published with XLNet (its README), 500 ids, under its published name."""
    lines = [*inspect.getsource(textwrap).splitlines(), *["0 1 2 3 4 5 6 7 8 9 a b c d e f"] * 9]
    path = tmp_path_factory.mktemp("vocabulary") / "spiece.model"
    path.write_bytes(train_xlnet(lines, vocab_size=500))
    return path


@pytest.fixture(scope="session")
def reference() -> transformers.XLNetLMHeadModel:
    """Hugging Face's model with random weights, segment tensors and biases included."""
    return random_reference(**SHAPE, seed=5)


@pytest.fixture(params=FORMATS, ids=lambda write: write.__name__)
def written_by_hugging_face(
    request: pytest.FixtureRequest, reference: transformers.XLNetLMHeadModel, tokenizer_file: Path, tmp_path: Path
) -> Path:
    """A checkpoint directory of each format, with our kind of tokenizer beside it."""
    directory = tmp_path / "theirs"
    directory.mkdir()
    request.param(reference, directory)
    shutil.copy(tokenizer_file, directory)
    return directory


@pytest.fixture
def checkpoint(reference: transformers.XLNetLMHeadModel, tokenizer_file: Path, tmp_path: Path) -> Path:
    """A directory as Hugging Face writes it, in one safetensors file; a test may damage it."""
    directory = tmp_path / "checkpoint"
    directory.mkdir()
    write_safetensors(reference, directory)
    shutil.copy(tokenizer_file, directory)
    return directory
