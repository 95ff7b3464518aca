"""Models of transformers become ours and back: the weights by name, the shape and the rotary frequencies as they are.

The projections that read the same rows are merged (query, key and value; gate and value of the feed-forward), so the
weights are copied: train or pack this model, and turn it back with ``to_transformers`` to save it. This is the one
module of the library that may import transformers, and only when a checkpoint is read or written.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyorder.adapters.causal.config import CausalConfig
from anyorder.adapters.causal.network import CausalModel

_MISSING = "reading and writing checkpoints of transformers needs transformers: pip install 'transformers>=5'"


def wrap(model: Any) -> CausalModel:
    """Our network with a copy of the weights of a transformers Qwen2, Qwen3 or Llama causal language model.

    Raises:
        TypeError: if it is no such model.
        ValueError: for an architecture or option this network does not have; see ``CausalConfig.from_transformers``.
    """
    if isinstance(model, CausalModel):
        return model
    if not hasattr(model, "lm_head") or not hasattr(model, "config"):
        raise TypeError(f"a causal language model of transformers is wanted; got {type(model).__name__}")
    config = CausalConfig.from_transformers(model.config, _eos_ids(model))
    network = CausalModel(config)
    network.source = model.config.to_dict()
    rotary = model.model.rotary_emb
    network.rotary_scale = float(rotary.attention_scaling)
    weights = model.state_dict()
    like = weights["model.embed_tokens.weight"]
    network.to(device=like.device, dtype=like.dtype)
    network.frequencies = rotary.inv_freq.detach().to(like.device, torch.float32).clone()
    network.load_state_dict(_ours(weights, config), strict=False)
    with torch.no_grad():
        network.mask_embedding.copy_(network.embedding.mean(0))
    return network.train(model.training)


def load(name: str | Path, *, revision: str | None = None, dtype: torch.dtype = torch.float32) -> CausalModel:
    """A Hub id or a local directory, ready to decode.

    Args:
        name: what ``from_pretrained`` of transformers takes.
        revision: a commit, branch or tag of the Hub.
        dtype: of the weights.

    Raises:
        ImportError: without transformers.
        ValueError: for an architecture this network does not have.
    """
    try:
        from transformers import AutoModelForCausalLM
    except ImportError as error:
        raise ImportError(_MISSING) from error
    return wrap(AutoModelForCausalLM.from_pretrained(str(name), revision=revision, dtype=dtype)).eval()


def to_transformers(network: CausalModel) -> Any:
    """The same model as transformers has it, with a copy of the weights; the mask embedding has no place there.

    Raises:
        ImportError: without transformers.
        ValueError: if packing has rounded the weights.
    """
    try:
        from transformers import AutoConfig, AutoModelForCausalLM
    except ImportError as error:
        raise ImportError(_MISSING) from error
    source = dict(network.source)
    model = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
        AutoConfig.for_model(source.pop("model_type"), **source)
    )
    model = model.to(device=network.device, dtype=network.embedding.dtype)
    model.load_state_dict(_theirs(network), strict=not network.config.is_tied)
    model.generation_config.eos_token_id = list(network.config.eos_ids) or None
    return model.train(network.training)


def _eos_ids(model: Any) -> tuple[int, ...]:
    """The ids that end a text: the generation config's, else the config's."""
    generation = getattr(model, "generation_config", None)
    found = getattr(generation, "eos_token_id", None)
    if found is None:
        found = getattr(model.config, "eos_token_id", None)
    if found is None:
        return ()
    return tuple(found) if isinstance(found, list | tuple) else (int(found),)


def parts_of_projections(config: CausalConfig) -> dict[str, tuple[tuple[str, int], ...]]:
    """Our merged projections: which of theirs they hold, and how many rows each has."""
    width = config.head_width
    queries, keys = config.num_heads * width, config.num_key_heads * width
    return {
        "attention.inputs.base": (
            ("self_attn.q_proj", queries),
            ("self_attn.k_proj", keys),
            ("self_attn.v_proj", keys),
        ),
        "attention.output.base": (("self_attn.o_proj", config.width),),
        "expand.base": (("mlp.gate_proj", config.inner), ("mlp.up_proj", config.inner)),
        "contract.base": (("mlp.down_proj", config.width),),
    }


def _norms(config: CausalConfig) -> dict[str, str]:
    """Our norms and theirs."""
    names = {"attention_norm": "input_layernorm.weight", "feed_forward_norm": "post_attention_layernorm.weight"}
    if config.has_head_norms:
        names["attention.query_norm"] = "self_attn.q_norm.weight"
        names["attention.key_norm"] = "self_attn.k_norm.weight"
    return names


def _ours(theirs: Mapping[str, Tensor], config: CausalConfig) -> dict[str, Tensor]:
    """Their state under our names."""
    ours = {"embedding": theirs["model.embed_tokens.weight"], "norm": theirs["model.norm.weight"]}
    ours["head.weight"] = ours["embedding"] if config.is_tied else theirs["lm_head.weight"]
    for depth in range(config.num_layers):
        for name, parts in parts_of_projections(config).items():
            for kind in ("weight", "bias"):
                found = [theirs.get(f"model.layers.{depth}.{part}.{kind}") for part, _ in parts]
                tensors = [tensor for tensor in found if tensor is not None]
                if tensors:
                    ours[f"layers.{depth}.{name}.{kind}"] = torch.cat(tensors)
        for name, other in _norms(config).items():
            ours[f"layers.{depth}.{name}"] = theirs[f"model.layers.{depth}.{other}"]
    return ours


def _theirs(network: CausalModel) -> dict[str, Tensor]:
    """Our state under their names."""
    config = network.config
    theirs = {"model.embed_tokens.weight": network.embedding.detach(), "model.norm.weight": network.norm.detach()}
    theirs["lm_head.weight"] = network.embedding.detach() if config.is_tied else network.head.dense_weight()
    for depth in range(config.num_layers):
        layer = network.layer(depth)
        linears = dict(zip(parts_of_projections(config), layer.routed().values(), strict=True))
        for name, parts in parts_of_projections(config).items():
            base = linears[name].base
            sizes = [size for _, size in parts]
            for kind, whole in (("weight", base.dense_weight()), ("bias", base.bias)):
                if whole is not None:
                    for (part, _), piece in zip(parts, torch.split(whole.detach(), sizes), strict=True):
                        theirs[f"model.layers.{depth}.{part}.{kind}"] = piece
        state = dict(layer.named_parameters())
        for name, other in _norms(config).items():
            theirs[f"model.layers.{depth}.{other}"] = state[name].detach()
    return theirs
