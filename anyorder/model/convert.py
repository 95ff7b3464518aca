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
from anyorder.model.linear import Packing
from anyorder.model.xlnet import Layer, XLNet

EMBEDDING = "transformer.word_embedding.weight"
MASK_EMBEDDING = "transformer.mask_emb"
HEAD = "lm_loss.weight"
HEAD_BIAS = "lm_loss.bias"


class Source(NamedTuple):
    """Where a parameter of ours comes from.

    Attributes:
        names: the Hugging Face tensors it is made of.
        shapes: what shape each of them must have.
        build: makes ours from them.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    build: Callable[..., Tensor]


def outer_sources(config: XLNetConfig) -> dict[str, Source]:
    """The parameters outside the layers, by our name."""
    vocabulary, width = config.vocab_size, config.d_model
    sources = {
        "embedding": Source((EMBEDDING,), ((vocabulary, width),), _same),
        "mask_embedding": Source((MASK_EMBEDDING,), ((1, 1, width),), torch.flatten),
        "head.bias": Source((HEAD_BIAS,), ((vocabulary,),), _same),
    }
    if not config.tie_word_embeddings:
        sources["head.weight"] = Source((HEAD,), ((vocabulary, width),), _same)
    return sources


def layer_sources(config: XLNetConfig, depth: int) -> dict[str, Source]:
    """The parameters of one layer, by our name inside the layer."""
    width, inner = config.d_model, config.d_inner
    cube, bias = (width, config.n_head, config.d_head), (config.n_head, config.d_head)
    prefix = f"transformer.layer.{depth}."

    def source(build: Callable[..., Tensor], shape: tuple[int, ...], *names: str) -> Source:
        return Source(tuple(prefix + name for name in names), (shape,) * len(names), build)

    return {
        "attention.query.weight": source(_merge, cube, "rel_attn.q"),
        "attention.query.bias": source(torch.flatten, bias, "rel_attn.r_w_bias"),
        "attention.key_value.weight": source(_merge, cube, "rel_attn.k", "rel_attn.v"),
        "attention.output.weight": source(lambda o: o.flatten(1), cube, "rel_attn.o"),
        "attention.relative": source(_merge, cube, "rel_attn.r"),
        "attention.position_bias": source(torch.flatten, bias, "rel_attn.r_r_bias"),
        "attention.segment_bias": source(_same, bias, "rel_attn.r_s_bias"),
        "attention.segment_embedding": source(_same, (2, *bias), "rel_attn.seg_embed"),
        "attention_norm.weight": source(_same, (width,), "rel_attn.layer_norm.weight"),
        "attention_norm.bias": source(_same, (width,), "rel_attn.layer_norm.bias"),
        "expand.weight": source(_same, (inner, width), "ff.layer_1.weight"),
        "expand.bias": source(_same, (inner,), "ff.layer_1.bias"),
        "contract.weight": source(_same, (width, inner), "ff.layer_2.weight"),
        "contract.bias": source(_same, (width,), "ff.layer_2.bias"),
        "feed_forward_norm.weight": source(_same, (width,), "ff.layer_norm.weight"),
        "feed_forward_norm.bias": source(_same, (width,), "ff.layer_norm.bias"),
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
        for hf_name, tensor, shape in zip(source.names, tensors, source.shapes, strict=True):
            if tuple(tensor.shape) != shape:
                raise ValueError(f"tensor {hf_name} has shape {tuple(tensor.shape)}, config.json asks for {shape}")
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
    config = network.config
    yield EMBEDDING, network.embedding.detach()
    yield MASK_EMBEDDING, network.mask_embedding.detach().view(1, 1, -1)
    yield HEAD_BIAS, _bias(network.head.bias)
    if not config.tie_word_embeddings:
        yield HEAD, network.head.dense_weight()
    for depth in range(config.n_layer):
        yield from _export_layer(network.layer(depth), config, f"transformer.layer.{depth}.")


def _export_layer(layer: Layer, config: XLNetConfig, prefix: str) -> Iterator[tuple[str, Tensor]]:
    attention = layer.attention
    cube, bias = (config.d_model, config.n_head, config.d_head), (config.n_head, config.d_head)
    key, value = attention.key_value.dense_weight().chunk(2)
    for name, matrix in (
        ("q", attention.query.dense_weight()),
        ("k", key),
        ("v", value),
        ("r", attention.relative.detach()),
    ):
        yield f"{prefix}rel_attn.{name}", matrix.t().reshape(cube)
    yield f"{prefix}rel_attn.o", attention.output.dense_weight().reshape(cube)
    yield f"{prefix}rel_attn.r_w_bias", _bias(attention.query.bias).view(bias)
    yield f"{prefix}rel_attn.r_r_bias", attention.position_bias.detach().view(bias)
    yield f"{prefix}rel_attn.r_s_bias", attention.segment_bias
    yield f"{prefix}rel_attn.seg_embed", attention.segment_embedding
    for name, norm in (("rel_attn.layer_norm", layer.attention_norm), ("ff.layer_norm", layer.feed_forward_norm)):
        yield f"{prefix}{name}.weight", norm.weight.detach()
        yield f"{prefix}{name}.bias", norm.bias.detach()
    for name, linear in (("ff.layer_1", layer.expand), ("ff.layer_2", layer.contract)):
        yield f"{prefix}{name}.weight", linear.dense_weight()
        yield f"{prefix}{name}.bias", _bias(linear.bias)


def _bias(bias: Tensor | None) -> Tensor:
    """A layer's bias, which the layers exported here all have."""
    if bias is None:
        raise ValueError("this linear layer has no bias to export")
    return bias.detach()


def _same(tensor: Tensor) -> Tensor:
    return tensor


def _merge(*cubes: Tensor) -> Tensor:
    """(E, H, D) tensors -> one (n * H * D, E) matrix."""
    return torch.cat([cube.flatten(1).t() for cube in cubes])
