"""Models of transformers become ours and back: the weights by name, the shape and the rotary frequencies as they are.

The projections that read the same rows are merged (query, key and value; gate and value of the feed-forward), so the
weights are copied: train or pack this model, and turn it back with ``to_transformers`` to save it. This is the one
module of the library that may import transformers, and only when a checkpoint is read or written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from safetensors import SafetensorError
from torch import Tensor

from anyorder.adapters.causal.config import CausalConfig
from anyorder.adapters.causal.network import CausalModel
from anyorder.model.linear import Linear

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
        ValueError: for an architecture this network does not have, or if no model is found by that name.
    """
    try:
        from transformers import AutoModelForCausalLM
    except ImportError as error:
        raise ImportError(_MISSING) from error
    try:
        model = AutoModelForCausalLM.from_pretrained(str(name), revision=revision, dtype=dtype)
    except (
        OSError,
        SafetensorError,
    ) as error:  # not there, out of reach, damaged
        what = "holds no causal model" if Path(name).is_dir() else "is no directory, and the Hub gave none by that name"
        raise ValueError(f"{name} {what}: {str(error).strip().splitlines()[0]}") from error
    return wrap(model).eval()


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


class Merged(NamedTuple):
    """The weight or the bias of a projection of ours, made of one or more of theirs.

    Attributes:
        projection: its name in our network.
        kind: ``"weight"`` or ``"bias"``; not every projection has a bias.
        parts: the names of theirs, and how many rows each has.
    """

    projection: str
    kind: str
    parts: dict[str, int]

    def split(self, whole: Tensor, suffix: str = "") -> dict[str, Tensor]:
        """Views into ours by the names of theirs, with something behind the projection's."""
        names = [f"{part}{suffix}.{self.kind}" for part in self.parts]
        return dict(zip(names, torch.split(whole, list(self.parts.values())), strict=True))


def merged(config: CausalConfig) -> Iterator[Merged]:
    """Every projection of the network, its weight and its bias."""
    width = config.head_width
    queries, keys = config.num_heads * width, config.num_key_heads * width
    names = {
        "attention.inputs": {"self_attn.q_proj": queries, "self_attn.k_proj": keys, "self_attn.v_proj": keys},
        "attention.output": {"self_attn.o_proj": config.width},
        "expand": {"mlp.gate_proj": config.inner, "mlp.up_proj": config.inner},
        "contract": {"mlp.down_proj": config.width},
    }
    for depth, (ours, theirs), kind in product(range(config.num_layers), names.items(), ("weight", "bias")):
        parts = {f"model.layers.{depth}.{part}": size for part, size in theirs.items()}
        yield Merged(f"layers.{depth}.{ours}", kind, parts)


def _norms(config: CausalConfig) -> dict[str, str]:
    """Our norms and theirs."""
    names = {"attention_norm": "input_layernorm.weight", "feed_forward_norm": "post_attention_layernorm.weight"}
    if config.has_head_norms:
        names["attention.query_norm"] = "self_attn.q_norm.weight"
        names["attention.key_norm"] = "self_attn.k_norm.weight"
    layers = [(f"layers.{depth}.", f"model.layers.{depth}.") for depth in range(config.num_layers)]
    return {"norm": "model.norm.weight"} | {
        ours + name: theirs + other for (ours, theirs), (name, other) in product(layers, names.items())
    }


def _ours(theirs: Mapping[str, Tensor], config: CausalConfig) -> dict[str, Tensor]:
    """Their state under our names."""
    ours = {name: theirs[other] for name, other in _norms(config).items()}
    ours["embedding"] = theirs["model.embed_tokens.weight"]
    ours["head.weight"] = ours["embedding"] if config.is_tied else theirs["lm_head.weight"]
    for projection, kind, parts in merged(config):
        found = [theirs[name] for part in parts if (name := f"{part}.{kind}") in theirs]
        if found:
            ours[f"{projection}.base.{kind}"] = torch.cat(found)
    return ours


def _theirs(network: CausalModel) -> dict[str, Tensor]:
    """Our state under their names."""
    state = dict(network.named_parameters())
    theirs = {other: state[name].detach() for name, other in _norms(network.config).items()}
    theirs["model.embed_tokens.weight"] = embedding = network.embedding.detach()
    theirs["lm_head.weight"] = embedding if network.config.is_tied else network.head.dense_weight()
    for item in merged(network.config):
        base = cast("Linear", network.get_submodule(f"{item.projection}.base"))
        whole = base.dense_weight() if item.kind == "weight" else base.bias
        if whole is not None:
            theirs |= item.split(whole.detach())
    return theirs
