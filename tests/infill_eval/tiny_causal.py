"""Causal models with random weights as directories, as a training run and as transformers leave them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from anyorder.adapters import causal, mars, orthrus
from anyorder.adapters.causal import CausalModel
from anyorder.adapters.causal.added import added
from anyorder.codec import SentencePieceCodec


def network(
    vocab_size: int, *, family: str = "Qwen2", seed: int = 0, max_length: int = 160, eos_id: int | None = None
) -> Any:
    """A random model of transformers, its logits far enough apart that greedy text wanders."""
    import transformers

    config = getattr(transformers, f"{family}Config")(
        vocab_size=vocab_size,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=max_length,
        bos_token_id=None,
        eos_token_id=eos_id,
    )
    model = getattr(transformers, f"{family}ForCausalLM")(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(float("norm" in name), 0.3, generator=generator)
    return model.eval()


def save_run(directory: Path, codec: SentencePieceCodec, model: Any, *, block: int | None = 4) -> Path:
    """What ``training/fit_mars.py`` leaves behind."""
    wrapped = causal.wrap(model)
    wrapped.block = block
    mars.save(wrapped, directory)
    codec.save(directory)
    return directory


def save_view(directory: Path, base: Path, *, block: int = 4) -> Path:
    """A random view of a base."""
    model: CausalModel = orthrus.attach(causal.load(base), block=block)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for tensor in added(model).values():
            tensor.normal_(0.0, 0.3, generator=generator)
    orthrus.save_view(model, directory, base=str(base))
    return directory
