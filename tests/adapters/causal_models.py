"""Tiny models of transformers with weights far enough apart that no distribution is flat, and ours made from them."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from anyorder.adapters.causal import CausalModel, wrap

FAMILIES = ("qwen2", "qwen3", "llama")
VOCAB = 37
SHAPE = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "eos_token_id": 0,
    "bos_token_id": None,
    "pad_token_id": 0,
}


def make(family: str, *, seed: int = 0, dtype: torch.dtype = torch.float32, std: float = 0.3, **options: Any) -> Any:
    """A model of transformers with weights N(0, std)."""
    import transformers

    name = {"qwen2": "Qwen2", "qwen3": "Qwen3", "llama": "Llama"}[family]
    settings = SHAPE | ({} if family == "qwen2" else {"head_dim": 12}) | options
    model = getattr(transformers, f"{name}ForCausalLM")(getattr(transformers, f"{name}Config")(**settings))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, std, generator=generator)
    return model.to(dtype).eval()


@cache
def reference(family: str) -> Any:
    """The model of a family that most tests share; nobody may change it."""
    return make(family)


def network(family: str, *, sharpness: float = 1.0, **options: Any) -> CausalModel:
    """Ours, a fresh copy; ``sharpness`` multiplies the logits."""
    model = wrap(make(family, **options) if options else reference(family))
    with torch.no_grad():
        model.norm.mul_(sharpness)
        model.mask_embedding.normal_(0.0, 0.3, generator=torch.Generator().manual_seed(7))
    return model.requires_grad_(False)


def ragged_prompts(count: int, *, longest: int = 9, seed: int = 3, vocab: int = VOCAB) -> list[Tensor]:
    """Prompts of 1 to ``longest`` tokens, the id that ends a text among them."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (count,), generator=generator)
    return [torch.randint(0, vocab, (int(length),), generator=generator) for length in lengths]


def greedy_by_transformers(model: Any, prompts: list[Tensor], max_new_tokens: int) -> list[list[int]]:
    """What ``generate(do_sample=False)`` continues with, up to and including what ends the text."""
    width = max(map(len, prompts))
    ids = torch.stack([torch.nn.functional.pad(prompt, (width - len(prompt), 0)) for prompt in prompts])
    seen = torch.stack([torch.arange(width) >= width - len(prompt) for prompt in prompts]).long()
    out = model.generate(ids, attention_mask=seen, do_sample=False, max_new_tokens=max_new_tokens, pad_token_id=0)
    return [row[: row.index(0) + 1] if 0 in row else row for row in out[:, width:].tolist()]


def causal_logits(model: CausalModel, tokens: Tensor) -> Tensor:
    """(B, L, V) of an ordinary pass over (B, L) tokens."""
    positions = torch.arange(tokens.shape[1])
    hidden = model(tokens, positions.expand_as(tokens), (positions[:, None] >= positions)[None])
    return model.logits(hidden)


class CountedModel:
    """A network that counts its passes and notes how many rows each sequence had in them."""

    def __init__(self, model: CausalModel) -> None:
        self._model = model
        self.passes: list[list[int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def step(self, tokens: Tensor, rows: Any, cache: Any, *, asked: Tensor) -> Tensor:
        self.passes.append((rows.slots < cache.num_slots).sum(1).tolist())
        return self._model.step(tokens, rows, cache, asked=asked)
