"""A network in training as a checkpoint that ``anyorder.load`` and ``XLNetLMHeadModel.from_pretrained`` read."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import torch

from anyorder.model.config import AnyOrderConfig
from anyorder.model.loaded import Model


def settings_of(codec_name: str, mask_id: int, forbidden_ids: tuple[int, ...], max_length: int) -> AnyOrderConfig:
    """What a checkpoint of a run says about itself."""
    return AnyOrderConfig(codec=codec_name, mask_id=mask_id, forbidden_ids=forbidden_ids, max_length=max_length)


def export(model: Model, directory: Path, *, acceptance: tuple[float, ...], card: str, dtype: torch.dtype) -> None:
    """Write or replace a checkpoint directory so that a kill leaves the old one or the new one, never half of one.

    Args:
        model: what to write; its network may be in training.
        directory: where to.
        acceptance: share of drafts kept at lags 1, 2, ...; the prior of ``draft_length=None``.
        card: the text of its README.
        dtype: precision of the stored weights.
    """
    partial, old = directory.with_name(directory.name + ".partial"), directory.with_name(directory.name + ".old")
    for left in (partial, old):
        shutil.rmtree(left, ignore_errors=True)
    settings = replace(model.settings, acceptance=acceptance)
    replace(model, settings=settings, card=card).save_pretrained(partial, dtype=dtype)
    if directory.exists():
        directory.rename(old)
    partial.rename(directory)
    shutil.rmtree(old, ignore_errors=True)


def find_export(name: str) -> str:
    """The checkpoint that ``--init_from`` means: of a run its best model, else its last; any other name as it is."""
    for inner in ("best", "best.old", "last"):
        if (Path(name) / inner / "config.json").is_file():
            return str(Path(name) / inner)
    return name
