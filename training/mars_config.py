"""The options of a MARS run: those of ``fit.py`` about the run, the data and the optimiser, and these."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import jsonargparse

from training.config import DataConfig, FitConfig, OptimizerConfig, RunConfig
from training.flags import add_groups, take_groups


@dataclass(frozen=True, kw_only=True)
class MarsConfig:
    """The objective, and the network if it does not come from ``init_from``.

    Attributes:
        objective: ``mars``, or ``causal`` for plain autoregressive training.
        block: B, how far drafts reach; what ``mars.generate`` takes by default.
        clean_weight: weight of the loss on the clean copy; 0 only as a control: the model then forgets greedy decoding.
        sees_both_ways: let masks of a block see all of it: block diffusion, as a control.
        lora_rank: freeze the weights and train a gated LoRA of this rank; 0 trains everything.
        lora_alpha: its scale times its rank.
        mask_id: use this id of the vocabulary as the mask instead of a vector of its own.
        chat: a .jsonl file of ``{"prompt": ..., "response": ...}`` to train on instead of ``data``; only responses
            count.
        max_length: tokens of a prompt and response; longer ones are cut.
        width: embedding width of a fresh Qwen2.
        layers: its layers.
        heads: its heads, with a key each.
        inner: width of its feed-forward layers; 0 is three times ``width``, which makes a layer as large as an XLNet's.
        initializer_range: standard deviation of its fresh weights.
    """

    objective: Literal["mars", "causal"] = "mars"
    block: int = 4
    clean_weight: float = 1.0
    sees_both_ways: bool = False
    lora_rank: int = 0
    lora_alpha: float = 32.0
    mask_id: int | None = None
    chat: Path | None = None
    max_length: int = 512
    width: int = 192
    layers: int = 5
    heads: int = 3
    inner: int = 0
    initializer_range: float = 0.02


@dataclass(frozen=True, kw_only=True)
class FitMarsConfig:
    """All options of a run, by who reads them."""

    run: RunConfig = field(default_factory=RunConfig)
    data: DataConfig = field(default_factory=DataConfig)
    mars: MarsConfig = field(default_factory=MarsConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)

    @property
    def fit(self) -> FitConfig:
        """The part that the data of ``fit.py`` reads."""
        return FitConfig(run=self.run, data=self.data, optimizer=self.optimizer)


GROUPS: dict[str, Any] = {"run": RunConfig, "data": DataConfig, "mars": MarsConfig, "optimizer": OptimizerConfig}


def parse(arguments: list[str]) -> FitMarsConfig:
    """The options of a command line; flags win over the config file.

    Raises:
        ValueError: for options that contradict each other.
    """
    parser = jsonargparse.ArgumentParser(
        prog="training/fit_mars.py", description="Train a causal model to draft (MARS)."
    )
    parser.add_argument("--config", action="config", help="a YAML file of options")
    add_groups(parser, GROUPS)
    # Whole documents: a causal model reads canonical tokens, and blanks that split words are no business of its.
    parser.set_defaults({"pieces": "packed", "lengths": {256: 1.0}, "out": Path("runs/mars")})
    config = FitMarsConfig(**take_groups(parser.parse_args(arguments), GROUPS))
    if config.data.pieces != "packed":
        raise ValueError("MARS trains on --pieces packed: windows are encoded in segments, as infilling needs them")
    if config.mars.lora_rank and config.optimizer.optimizer != "adamw":
        raise ValueError("a LoRA is trained by --optimizer adamw")
    if config.mars.lora_rank and config.mars.objective != "mars":
        raise ValueError("a gated LoRA changes mask rows only: there is nothing for --objective causal to train")
    return config
