"""The formats in which Hugging Face's XLNet checkpoints lie about."""

from __future__ import annotations

from pathlib import Path

import torch
import transformers


def write_safetensors(model: transformers.XLNetLMHeadModel, directory: Path) -> None:
    model.save_pretrained(directory)
    assert (directory / "model.safetensors").is_file()


def write_shards(model: transformers.XLNetLMHeadModel, directory: Path) -> None:
    model.save_pretrained(directory, max_shard_size="40KB")
    assert len(list(directory.glob("model-*.safetensors"))) > 1
    assert (directory / "model.safetensors.index.json").is_file()


def write_pickle(model: transformers.XLNetLMHeadModel, directory: Path) -> None:
    model.config.save_pretrained(directory)
    torch.save(model.state_dict(), directory / "pytorch_model.bin")


def write_old_pickle(model: transformers.XLNetLMHeadModel, directory: Path) -> None:
    """As PyTorch wrote before 1.6, when XLNet was published."""
    model.config.save_pretrained(directory)
    torch.save(model.state_dict(), directory / "pytorch_model.bin", _use_new_zipfile_serialization=False)


FORMATS = [write_safetensors, write_shards, write_pickle, write_old_pickle]
