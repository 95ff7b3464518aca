"""A view on disk: its weights alone, and beside them which base they were trained on.

``view.safetensors`` names a copy after the projection it is of, ``model.layers.0.self_attn.q_proj_diff.weight`` and so
on, as the published checkpoints do, and adds ``mask_embedding``. ``view.json`` holds the block, the anchor, the
measured acceptance, and the base's place and hash: on another base a view drafts nonsense without any other sign.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import save_file
from torch import Tensor

from anyorder.adapters.causal.added import base_settings, check_base, place_of_base, read_settings, read_weights
from anyorder.adapters.causal.convert import load as load_causal
from anyorder.adapters.causal.convert import merged, wrap
from anyorder.adapters.causal.layers import Routed
from anyorder.adapters.causal.network import CausalModel
from anyorder.adapters.orthrus.view import ViewLinear, attach, check_has_view

_SETTINGS, _WEIGHTS = "view.json", "view.safetensors"


def save_view(model: CausalModel, directory: str | Path, *, base: str) -> None:
    """Write the view, not the base.

    Args:
        model: with a view, its weights not packed.
        directory: made if need be.
        base: where the base can be loaded from; a directory is remembered by its path from ``directory``.

    Raises:
        ValueError: if there is no view, or the weights are packed.
    """
    check_has_view(model)
    directory = Path(directory)
    settings: dict[str, Any] = {
        "block": model.block,
        "anchor": "trainable" if model.anchor_in_view else "frozen",
        "acceptance": list(model.acceptance),
        **base_settings(model, directory, base),
    }
    directory.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.detach().clone().contiguous() for name, tensor in _named(model).items()}
    save_file(weights, directory / _WEIGHTS)
    (directory / _SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def load_view(model: CausalModel | Any, directory: str | Path) -> CausalModel:
    """Attach what ``save_view`` wrote to its base.

    Args:
        model: the base, see ``attach``.
        directory: where the view lies.

    Raises:
        ValueError: if there is no ``view.json``, or the base is not the one it was trained on or cannot take a view; it
            is left as it was.
    """
    settings, network = _settings(directory), wrap(model)
    weights = read_weights(Path(directory) / _WEIGHTS, "orthrus.save_view")
    acceptance = tuple(settings["acceptance"] or ())
    check_base(network, settings, "view")
    _check_complete(network, weights)
    attach(network, block=settings["block"], anchor=settings["anchor"])
    read_view(network, weights)
    network.acceptance = acceptance
    return network.requires_grad_(False).eval()


def load(directory: str | Path, *, base: str | Path | None = None, dtype: torch.dtype = torch.float32) -> CausalModel:
    """A view together with its base, ready to decode.

    Args:
        directory: what ``save_view`` wrote.
        base: the base's place, if it is not where it was.
        dtype: of the weights.

    Raises:
        ValueError: as ``load_view``, or if the base is not where it was.
    """
    return load_view(load_causal(base or base_of(directory), dtype=dtype), directory)


def base_of(directory: str | Path) -> str:
    """Where the base of a saved view is to be loaded from, see ``place_of_base``."""
    return place_of_base(Path(directory), _settings(directory)["base"])


def read_view(model: CausalModel, weights: Mapping[str, Tensor]) -> None:
    """Give a view its weights, by the published names; names of the base beside them are not read.

    Args:
        model: with a view.
        weights: the copies, and ``mask_embedding``. A published checkpoint has a row of its embedding instead: pass
            ``weights | {"mask_embedding": weights["model.embed_tokens.weight"][mask_token_id]}``.

    Raises:
        ValueError: if a copy is missing or has another shape.
    """
    check_has_view(model)
    _check_complete(model, weights)
    with torch.no_grad():
        for name, tensor in _named(model).items():
            tensor.copy_(weights[name])


def _check_complete(model: CausalModel, weights: Mapping[str, Tensor]) -> None:
    """Refuse weights that do not fit the view of a model, or one that it is yet to get."""
    for name, tensor in _named(model).items():
        found = weights.get(name)
        if found is None or found.shape != tensor.shape:
            got = "nothing" if found is None else f"shape {tuple(found.shape)}"
            raise ValueError(f"the view needs {name} of shape {tuple(tensor.shape)}; got {got}")


def _settings(directory: str | Path) -> dict[str, Any]:
    needed = ("block", "anchor", "acceptance", "base", "base_hash", "base_hash_of")
    return read_settings(Path(directory) / _SETTINGS, needed, "orthrus.save_view")


def _named(model: CausalModel) -> dict[str, Tensor]:
    """Views into the trained tensors by their published names; those of the base, if there is no view to train."""
    named: dict[str, Tensor] = {"mask_embedding": model.mask_embedding}
    for item in merged(model.config):
        if ".attention." in item.projection:
            routed = cast("Routed", model.get_submodule(item.projection))
            own = routed.for_masks.own if isinstance(routed.for_masks, ViewLinear) else routed.base
            whole = getattr(own, item.kind)
            named |= {} if whole is None else item.split(whole, "_diff")
    for depth in range(model.config.num_layers):
        attention = model.layer(depth).attention
        norms = attention.for_masks
        query, key = (attention.query_norm, attention.key_norm) if norms is None else (norms.query, norms.key)
        if query is not None and key is not None:
            named[f"model.layers.{depth}.self_attn.q_norm_diff.weight"] = query
            named[f"model.layers.{depth}.self_attn.k_norm_diff.weight"] = key
    return named
