"""A trained model on disk: the base as transformers stores it, and beside it what MARS added.

``mars.json`` says how it was trained, ``mars.safetensors`` holds the mask embedding and the LoRA, if there is one. A
LoRA can be saved without its base, which it then names together with a hash of its weights: on another base it would
draft nonsense without any other sign.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from anyorder.adapters.causal.added import added, base_settings, check_base, place_of_base, read_settings, read_weights
from anyorder.adapters.causal.convert import load as load_causal
from anyorder.adapters.causal.convert import to_transformers
from anyorder.adapters.causal.network import CausalModel
from anyorder.adapters.mars.lora import attach_lora, loras

_SETTINGS, _WEIGHTS = "mars.json", "mars.safetensors"


def save(model: CausalModel, directory: str | Path, *, base: str | None = None) -> None:
    """Write the model.

    Args:
        model: a trained model, not packed to half precision.
        directory: made if need be.
        base: where the frozen base can be loaded from; a directory is remembered by its path from ``directory``. With
            it only what a LoRA added is written.

    Raises:
        ValueError: if ``base`` is given for a model without LoRA, whose own weights have changed, or for packed
            weights; or for a view.
    """
    added_loras = loras(model)
    if model.routes_masks and not added_loras:
        raise ValueError("this model's masks go through a view of their own: orthrus.save_view saves that")
    if base is not None and not added_loras:
        raise ValueError("only a LoRA can be saved without its base: full fine-tuning has changed every weight")
    directory = Path(directory)
    settings: dict[str, Any] = {
        "block": model.block,
        "sees_both_ways": model.sees_both_ways,
        "mask_id": model.mask_id,
        "acceptance": list(model.acceptance),
        "lora": {"rank": added_loras[0].rank, "alpha": added_loras[0].alpha} if added_loras else None,
        **({"base": None, "base_hash": None} if base is None else base_settings(model, directory, base)),
    }
    directory.mkdir(parents=True, exist_ok=True)
    if base is None:
        to_transformers(model).save_pretrained(directory)
    save_file({name: tensor.detach().contiguous() for name, tensor in added(model).items()}, directory / _WEIGHTS)
    (directory / _SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def load(directory: str | Path, *, base: str | Path | None = None, dtype: torch.dtype = torch.float32) -> CausalModel:
    """Read what ``save`` wrote.

    Args:
        directory: where it lies.
        base: the frozen base's place, if it is not where it was.
        dtype: of the weights.

    Raises:
        ValueError: if there is no ``mars.json`` or it lacks something, the base is not where it was, or it is not the
            one that was trained on.
    """
    settings, directory = _settings(directory), Path(directory)
    model = load_causal(base or base_of(directory) or directory, dtype=dtype)
    if settings["base_hash"] is not None:
        check_base(model, settings, "LoRA")
    if settings["lora"] is not None:
        attach_lora(model, rank=settings["lora"]["rank"], alpha=settings["lora"]["alpha"])
    model.load_state_dict(read_weights(directory / _WEIGHTS, "mars.save"), strict=False)
    model.block, model.sees_both_ways, model.mask_id = (settings[key] for key in ("block", "sees_both_ways", "mask_id"))
    model.acceptance = tuple(settings["acceptance"] or ())
    return model.requires_grad_(False).eval()


def base_of(directory: str | Path) -> str | None:
    """Where the base of a saved LoRA is to be loaded from, see ``place_of_base``; ``None`` if it was saved with it."""
    base = _settings(directory)["base"]
    return place_of_base(Path(directory), base) if base else None


def _settings(directory: str | Path) -> dict[str, Any]:
    needed = ("block", "sees_both_ways", "mask_id", "acceptance", "lora", "base", "base_hash")
    return read_settings(Path(directory) / _SETTINGS, needed, "mars.save")
