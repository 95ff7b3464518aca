"""The options of an Orthrus run: those of ``fit.py`` about the run, the data and the optimiser, and these."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from training.causal_config import CausalRunConfig, check_least, parse_causal


@dataclass(frozen=True, kw_only=True)
class OrthrusConfig:
    """The view and its distillation.

    Attributes:
        block: K, the anchor and K - 1 masks: how far drafts reach; what ``orthrus.generate`` takes by default.
        anchor: where the last decided token stands: ``frozen`` (drafts and tests share a pass) or ``trainable`` (in the
            view too, as published).
        anchors: blocks of a sequence, at most.
        hard_labels: learn the true next tokens instead of the base's distributions, as a control.
        chunk: rows whose logits are computed at a time.
    """

    block: int = 8
    anchor: Literal["frozen", "trainable"] = "frozen"
    anchors: int = 24
    hard_labels: bool = False
    chunk: int = 512


@dataclass(frozen=True, kw_only=True)
class FitOrthrusConfig(CausalRunConfig):
    """All options of a run, by who reads them."""

    orthrus: OrthrusConfig = field(default_factory=OrthrusConfig)

    @property
    def least_response(self) -> int:
        """All tokens behind an anchor are of the response."""
        return self.orthrus.block


def parse(arguments: list[str]) -> FitOrthrusConfig:
    """The options of a command line; flags win over the config file, wherever it stands.

    Raises:
        ValueError: for options that contradict each other.
    """
    config = parse_causal(
        FitOrthrusConfig,
        arguments,
        groups={"orthrus": OrthrusConfig},
        defaults={"out": Path("runs/orthrus")},
        help=("training/fit_orthrus.py", "Distil a causal model into a view of it that drafts (Orthrus)."),
    )
    if config.run.init_from is None:
        raise ValueError("a view is of a trained model: name it with --init_from")
    if config.optimizer.optimizer != "adamw":
        raise ValueError("a view is trained by --optimizer adamw: most of the network's matrices are frozen")
    check_least({"anchors": config.orthrus.anchors, "chunk": config.orthrus.chunk}, 1)
    check_least({"block": config.orthrus.block}, 2)
    return config
