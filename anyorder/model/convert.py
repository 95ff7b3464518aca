"""Hugging Face's names and shapes of XLNet weights, and ours: the only place where the two meet.

Ours merge key and value, turn (E, H, D) tensors into matrices, and make ``r_w_bias`` the bias of the query layer. The
segment tensors, which no computation here reads, are carried along so that a checkpoint survives loading and saving.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from anyorder.model.config import XLNetConfig
from anyorder.model.linear import Linear, Packing
from anyorder.model.xlnet import XLNet


class Source(NamedTuple):
    """Where a parameter of ours comes from.

    Attributes:
        names: the Hugging Face tensors it is made of.
        theirs: the shape each of them must have.
        ours: the shape of the parameter, which has their values in their order;
        is_merged: unless it is the (n * H * D, E) matrix of n tensors (E, H, D), one under the other.
    """

    names: tuple[str, ...]
    theirs: tuple[int, ...]
    ours: tuple[int, ...]
    is_merged: bool = False

    def build(self, *tensors: Tensor) -> Tensor:
        """Ours, made from theirs."""
        if self.is_merged:
            return torch.cat([cube.flatten(1).t() for cube in tensors])
        return tensors[0].reshape(self.ours)

    def undo(self, value: Tensor) -> list[Tensor]:
        """Theirs, made from ours."""
        parts = [matrix.t() for matrix in value.chunk(len(self.names))] if self.is_merged else [value]
        return [part.reshape(self.theirs) for part in parts]


def outer_sources(config: XLNetConfig) -> dict[str, Source]:
    """The parameters outside the layers, by our name."""
    matrix, vector = (config.vocab_size, config.d_model), (config.vocab_size,)
    sources = {
        "embedding": Source(("transformer.word_embedding.weight",), matrix, matrix),
        "mask_embedding": Source(("transformer.mask_emb",), (1, 1, config.d_model), (config.d_model,)),
        "head.bias": Source(("lm_loss.bias",), vector, vector),
    }
    if not config.tie_word_embeddings:
        sources["head.weight"] = Source(("lm_loss.weight",), matrix, matrix)
    return sources


def layer_sources(config: XLNetConfig, depth: int) -> dict[str, Source]:
    """The parameters of one layer, by our name inside the layer."""
    width, inner, heads = config.d_model, config.d_inner, (config.n_head, config.d_head)
    cube, flat = (width, *heads), config.n_head * config.d_head
    prefix = f"transformer.layer.{depth}."

    def same(name: str, *shape: int) -> Source:
        return Source((prefix + name,), shape, shape)

    def reshaped(name: str, theirs: tuple[int, ...], *ours: int) -> Source:
        return Source((prefix + name,), theirs, ours)

    def merged(*names: str) -> Source:
        return Source(tuple(prefix + name for name in names), cube, (len(names) * flat, width), is_merged=True)

    return {
        "attention.query.weight": merged("rel_attn.q"),
        "attention.query.bias": reshaped("rel_attn.r_w_bias", heads, flat),
        "attention.key_value.weight": merged("rel_attn.k", "rel_attn.v"),
        "attention.output.weight": reshaped("rel_attn.o", cube, width, flat),
        "attention.relative": merged("rel_attn.r"),
        "attention.position_bias": reshaped("rel_attn.r_r_bias", heads, flat),
        "attention.segment_bias": same("rel_attn.r_s_bias", *heads),
        "attention.segment_embedding": same("rel_attn.seg_embed", 2, *heads),
        "attention_norm.weight": same("rel_attn.layer_norm.weight", width),
        "attention_norm.bias": same("rel_attn.layer_norm.bias", width),
        "expand.weight": same("ff.layer_1.weight", inner, width),
        "expand.bias": same("ff.layer_1.bias", inner),
        "contract.weight": same("ff.layer_2.weight", width, inner),
        "contract.bias": same("ff.layer_2.bias", width),
        "feed_forward_norm.weight": same("ff.layer_norm.weight", width),
        "feed_forward_norm.bias": same("ff.layer_norm.bias", width),
    }


def fill_module(module: nn.Module, sources: Mapping[str, Source], read: Callable[[str], Tensor], like: Tensor) -> None:
    """Put weights into a module built on the meta device, one parameter at a time.

    Args:
        module: what to fill.
        sources: where each parameter or buffer comes from.
        read: gives a Hugging Face tensor by name; raises ValueError where there is none.
        like: device and dtype wanted.

    Raises:
        ValueError: if a tensor has another shape than the config says.
    """
    for name, source in sources.items():
        tensors = [read(hf_name) for hf_name in source.names]
        for hf_name, tensor in zip(source.names, tensors, strict=True):
            if tuple(tensor.shape) != source.theirs:
                raise ValueError(
                    f"tensor {hf_name} has shape {tuple(tensor.shape)}, config.json asks for {source.theirs}"
                )
        value = source.build(*tensors).to(device=like.device, dtype=like.dtype).contiguous()
        owner_name, _, attribute = name.rpartition(".")
        owner = module.get_submodule(owner_name)
        if attribute in dict(owner.named_buffers(recurse=False)):
            setattr(owner, attribute, value)
        else:
            setattr(owner, attribute, nn.Parameter(value))


def build(config: XLNetConfig, read: Callable[[str], Tensor], like: Tensor, packing: Packing) -> XLNet:
    """A network in evaluation mode, built without memory, then filled and packed layer by layer.

    Args:
        config: the shape.
        read: see ``fill_module``.
        like: device and dtype wanted.
        packing: how linear layers hold their weights.

    Raises:
        ValueError: if a tensor is missing or has another shape than the config says.
    """
    with torch.device("meta"):
        network = XLNet(config)
    fill_module(network, outer_sources(config), read, like)
    if config.tie_word_embeddings:
        network.head.weight = network.embedding
    for depth in range(config.n_layer):
        layer = network.layer(depth)
        fill_module(layer, layer_sources(config, depth), read, like)
        layer.pack(packing)
    return network.pack(packing).eval()


def export(network: XLNet) -> Iterator[tuple[str, Tensor]]:
    """The Hugging Face tensors of a network, whatever packing its linear layers have.

    Raises:
        ValueError: for weights packed in half precision, which cannot be read back.
    """
    yield from _taken_apart(network, outer_sources(network.config))
    for depth in range(network.config.n_layer):
        yield from _taken_apart(network.layer(depth), layer_sources(network.config, depth))


def _taken_apart(module: nn.Module, sources: Mapping[str, Source]) -> Iterator[tuple[str, Tensor]]:
    """What ``fill_module`` put into a module."""
    for name, source in sources.items():
        owner_name, _, attribute = name.rpartition(".")
        owner = module.get_submodule(owner_name)
        if isinstance(owner, Linear) and attribute == "weight":
            value = owner.dense_weight()
        else:
            value = getattr(owner, attribute).detach()
        yield from zip(source.names, source.undo(value), strict=True)
