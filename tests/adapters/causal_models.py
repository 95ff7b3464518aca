"""Tiny models of transformers with weights far enough apart that no distribution is flat, and ours made from them."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import torch
from torch import Tensor

from anyorder.adapters import orthrus
from anyorder.adapters.causal import CausalConfig, CausalModel, to_transformers
from anyorder.adapters.causal.added import added
from anyorder.draft_length import DraftLengthPolicy, PassCosts

NAMES = {"qwen2": "Qwen2", "qwen3": "Qwen3", "llama": "Llama"}
FAMILIES = tuple(NAMES)
VOCAB = 13
EAGER = DraftLengthPolicy(
    costs=PassCosts(rows=(1, 100), costs=(1.0, 1.5)), acceptance=(0.6, 0.5, 0.4), prior_weight=1.0
)
"""Drafts as long as drafts are kept."""
MOODY = DraftLengthPolicy(costs=PassCosts(rows=(1, 2), costs=(1.0, 1.3)), acceptance=(0.5, 0.4), prior_weight=0.5)
"""Changes its mind after a draft or two."""
SHAPE: dict[str, Any] = {
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
    """A model of transformers, weights N(0, std), norms around one: its greedy text wanders and does not repeat."""
    import transformers

    name = NAMES[family]
    settings = SHAPE | ({} if family == "qwen2" else {"head_dim": 12}) | options
    model = getattr(transformers, f"{name}ForCausalLM")(getattr(transformers, f"{name}Config")(**settings))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(float("norm" in name), std, generator=generator)
    return model.to(dtype).eval()


def network(family: str, *, sharpness: float = 1.0, dtype: torch.dtype = torch.float32, **changes: Any) -> CausalModel:
    """Ours, made without transformers, whose import costs more than most tests; ``sharpness`` scales the logits."""
    config = CausalConfig(
        family=family,
        vocab_size=VOCAB,
        width=SHAPE["hidden_size"],
        inner=SHAPE["intermediate_size"],
        num_layers=SHAPE["num_hidden_layers"],
        num_heads=SHAPE["num_attention_heads"],
        num_key_heads=SHAPE["num_key_value_heads"],
        head_width=8 if family == "qwen2" else 12,
        eps=1e-6,
        input_bias=family == "qwen2",
        output_bias=False,
        feed_forward_bias=False,
        has_head_norms=family == "qwen3",
        is_tied=False,
        max_length=2048,
        eos_ids=(0,),
    )
    config = dataclasses.replace(config, **changes)
    model, generator = CausalModel(config), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(float("norm" in name), 0.3, generator=generator)
        model.norm.mul_(sharpness)
    model.frequencies = 10000.0 ** -(torch.arange(0, config.head_width, 2) / config.head_width)
    return model.requires_grad_(False).to(dtype).eval()


@cache
def reference(family: str) -> Any:
    """``network(family)`` as a model of transformers; nobody may change it."""
    import transformers

    model = network(family)
    options = {} if family == "qwen2" else {"head_dim": 12}
    settings = SHAPE | options | {"rms_norm_eps": 1e-6, "max_position_embeddings": 2048}
    model.source = getattr(transformers, f"{NAMES[family]}Config")(**settings).to_dict()
    return to_transformers(model)


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


def stubborn(token: int, drafted: int) -> CausalModel:
    """A model that always says ``token``, and whose mask rows always draft ``drafted``."""
    model = network("qwen2")
    with torch.no_grad():
        for routed in model.routed():
            routed.base.weight.zero_()  # type: ignore[union-attr]
        model.norm.fill_(1.0)
        model.embedding.zero_()[:, 0] = 1.0
        model.mask_embedding.zero_()[1] = 1.0
        model.head.weight.zero_()[token, 0] = 1.0  # type: ignore[union-attr]
        model.head.weight[drafted, 1] = 1.0  # type: ignore[index]
    return model


VIEWS = ("frozen", "trainable")
"""Where the anchor of an Orthrus view stands."""


def with_view(
    family: str, anchor: orthrus.Anchor = "frozen", *, block: int = 4, std: float | None = 0.3, **options: Any
) -> CausalModel:
    """``network`` with a view: as it is attached (``std=None``), zero, or random."""
    model = orthrus.attach(network(family, **options), block=block, anchor=anchor)
    generator = torch.Generator().manual_seed(1)
    if std is not None:
        with torch.no_grad():
            for name, tensor in added(model).items():
                tensor.normal_(float(".for_masks.query" in name or ".for_masks.key" in name), std, generator=generator)
    return model.requires_grad_(False).eval()
