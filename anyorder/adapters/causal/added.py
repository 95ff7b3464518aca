"""What training adds to a base that stays as it was, told apart by name; which base that is, by a hash; where it lies.

What was added drafts nonsense on another base, without any other sign.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import torch
from torch import Tensor

from anyorder.adapters.causal.network import CausalModel


def added(model: CausalModel) -> dict[str, Tensor]:
    """What transformers has no place for: the mask embedding and whatever mask rows have of their own."""
    return {
        name: tensor for name, tensor in model.state_dict().items() if name == "mask_embedding" or ".for_masks." in name
    }


def fingerprint(model: CausalModel) -> str:
    """A hash of the base's weights."""
    digest = hashlib.sha256()
    ignored = set(added(model))
    for name, tensor in sorted(model.state_dict().items()):
        if name not in ignored:
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def place_of_base(directory: Path, base: str) -> str:
    """Where the base of what lies in ``directory`` is to be loaded from.

    Args:
        directory: what names the base.
        base: as it is named there: a path from that directory, so that both can move together, or from the working
            directory, or an id of the Hub.
    """
    beside = directory / base
    return str(beside) if base and beside.is_dir() else base


def name_of_base(directory: Path, base: str) -> str:
    """How what is written into ``directory`` is to name its base: a directory by its path from there.

    Args:
        directory: where it is written.
        base: a directory, by its path from the working directory, or an id of the Hub.
    """
    place = Path(base)
    if not place.is_dir() or place.is_absolute():
        return base
    return Path(os.path.relpath(place, directory)).as_posix()
