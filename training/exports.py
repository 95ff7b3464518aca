"""A network in training as a checkpoint that ``anyorder.load`` and ``XLNetLMHeadModel.from_pretrained`` read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from anyorder.model.loaded import Model
from training.files import replace_directory


def export(model: Model, directory: Path, *, acceptance: tuple[float, ...], card: str, dtype: torch.dtype) -> None:
    """Write or replace a checkpoint directory so that a kill leaves the old one or the new one, never half of one.

    Args:
        model: what to write; its network may be in training.
        directory: where to.
        acceptance: share of drafts kept at lags 1, 2, ...; the prior of ``draft_length=None``.
        card: the text of its README.
        dtype: precision of the stored weights.
    """
    exported = replace(model, settings=replace(model.settings, acceptance=acceptance), card=card)
    replace_directory(directory, lambda place: exported.save_pretrained(place, dtype=dtype))


def find_export(name: str) -> str:
    """The checkpoint that ``--init_from`` means: of a run its best model, else its last; any other name as it is."""
    for inner in ("best", "best.old", "last"):
        if (Path(name) / inner / "config.json").is_file():
            return str(Path(name) / inner)
    return name
