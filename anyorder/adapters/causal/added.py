"""What training adds to a base that stays as it was, told apart by name; which base that is, by a hash; where it lies.

What was added drafts nonsense on another base, without any other sign.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from anyorder.adapters.causal.network import CausalModel

_HASHED = {"bfloat16": torch.bfloat16, "float16": torch.float16}
"""What weights are rounded to before they are hashed, by the name that is written."""


def added(model: CausalModel) -> dict[str, Tensor]:
    """What transformers has no place for: the mask embedding and whatever mask rows have of their own."""
    return {
        name: tensor for name, tensor in model.state_dict().items() if name == "mask_embedding" or ".for_masks." in name
    }


def fingerprint(model: CausalModel, dtype: torch.dtype | None = None) -> str:
    """A hash of the base's weights, as they are or rounded to ``dtype``."""
    ignored = set(added(model))
    return digest({name: tensor for name, tensor in model.state_dict().items() if name not in ignored}, dtype)


def digest(tensors: Mapping[str, Tensor], dtype: torch.dtype | None = None) -> str:
    """A hash of tensors and their names, as they are or rounded to ``dtype``."""
    state = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        state.update(name.encode())
        state.update(tensor.detach().to("cpu", dtype).contiguous().view(torch.uint8).numpy().tobytes())
    return state.hexdigest()


def read_settings(path: Path, needed: Collection[str], writer: str) -> dict[str, Any]:
    """What was written beside the weights of what was added.

    Args:
        path: of the JSON file.
        needed: names it must have.
        writer: the function that writes such files, for messages.

    Raises:
        ValueError: if it is not there, is no JSON object, or lacks a name.
    """
    if not path.is_file():
        raise ValueError(f"{path.parent} holds no {path.name}: it was not written by {writer}")
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no JSON as {writer} writes it: {error}") from None
    missing = sorted(set(needed) - set(settings)) if isinstance(settings, dict) else sorted(needed)
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}: it was not written by {writer}")
    return settings  # type: ignore[no-any-return]


def read_weights(path: Path, writer: str) -> dict[str, Tensor]:
    """The weights of what was added.

    Raises:
        ValueError: if the file is not there or damaged.
    """
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path} holds no weights as {writer} writes them: {error}") from None


def base_settings(model: CausalModel, directory: Path, base: str) -> dict[str, str]:
    """What is written beside what was added: where the base lies, and a hash that is the same however it is opened.

    The hash is of weights rounded to bfloat16: they round to the same in float32, in float64 and where they were
    rounded before. Those of a model in float16 are lost to all that, and are hashed as they are.

    Args:
        model: the base with what was added.
        directory: where it is written.
        base: where the base can be loaded from, see ``name_of_base``.

    Raises:
        ValueError: if the weights are packed, whose layout has no hash.
    """
    if model.head.packing != "plain":
        raise ValueError(
            "what was added to a base is saved before the weights are packed: the base could not be told by its hash"
        )
    hashed = "float16" if model.embedding.dtype == torch.float16 else "bfloat16"
    return {
        "base": name_of_base(directory, base),
        "base_hash": fingerprint(model, _HASHED[hashed]),
        "base_hash_of": hashed,
    }


def check_base(model: CausalModel, settings: Mapping[str, Any], what: str) -> None:
    """Refuse a base that is not the one that was trained on, told by what ``base_settings`` wrote.

    One opened in float16 is told only if it was trained in that, and then one in bfloat16 is not.

    Args:
        model: the base.
        settings: of what was saved.
        what: was trained on it.

    Raises:
        ValueError: if its hash is another, or of weights in a format that ``base_settings`` does not write.
    """
    dtype = _HASHED.get(str(settings.get("base_hash_of")))
    if dtype is None:
        raise ValueError(
            f"base_hash_of of this {what} must be one of {', '.join(_HASHED)}; got {settings.get('base_hash_of')!r}"
        )
    holds_it = model.embedding.dtype in (torch.float32, torch.float64, dtype)
    if holds_it and fingerprint(model, dtype) != settings["base_hash"]:
        raise ValueError(f"the base's weights are not those this {what} was trained on")


def place_of_base(directory: Path, base: str) -> str:
    """Where the base of what lies in ``directory`` is to be loaded from.

    Args:
        directory: what names the base.
        base: as it is named there: a path from that directory, so that both can move together, or from the working
            directory, or an id of the Hub.

    Raises:
        ValueError: if it is neither a directory nor could be an id of the Hub.
    """
    beside = directory / base
    if base and beside.is_dir():
        return str(beside)
    if not (Path(base).is_dir() or could_be_hub_id(base)):
        raise ValueError(f"{directory} names {base!r} as its base, which is not there: say where with base=")
    return base


def could_be_hub_id(name: str) -> bool:
    """Whether the Hub could know a model by that name: ``name`` or ``owner/name``."""
    return re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", name) is not None


def name_of_base(directory: Path, base: str) -> str:
    """How what is written into ``directory`` is to name its base: a directory by its path from there.

    Args:
        directory: where it is written.
        base: a directory, by its path from the working directory, or an id of the Hub.
    """
    place = Path(base)
    if not place.is_dir() or place.is_absolute():
        return base
    # From where they lie, not by what links lead there: ".." leads out of where a link leads to.
    return Path(os.path.relpath(place.resolve(), directory.resolve())).as_posix()
