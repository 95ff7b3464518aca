"""The options of a MARS run: those of ``fit.py`` about the run, the data and the optimiser, and these."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from training.causal_config import CausalRunConfig, check_least, parse_causal

NO_LORA = "--lora_alpha is of a LoRA, and this run trains none: give --lora_rank too"


@dataclass(frozen=True, kw_only=True)
class MarsConfig:
    """The objective, and the network if it does not come from ``init_from``.

    Attributes:
        objective: ``mars``, or ``causal`` for plain autoregressive training.
        block: B, how far drafts reach; what ``mars.generate`` takes by default.
        clean_weight: weight of the loss on the clean copy; 0 only as a control: the model then forgets greedy decoding.
        sees_both_ways: let masks of a block see all of it: block diffusion, as a control.
        lora_rank: freeze the weights and train a gated LoRA of this rank; 0 trains everything.
        lora_alpha: its scale times its rank; without one 32, or that of the LoRA the run starts from.
        mask_id: use this id of the vocabulary as the mask instead of a vector of its own.
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
    lora_alpha: float | None = None
    mask_id: int | None = None
    width: int = 192
    layers: int = 5
    heads: int = 3
    inner: int = 0
    initializer_range: float = 0.02


@dataclass(frozen=True, kw_only=True)
class FitMarsConfig(CausalRunConfig):
    """All options of a run, by who reads them."""

    mars: MarsConfig = field(default_factory=MarsConfig)


def parse(arguments: list[str]) -> FitMarsConfig:
    """The options of a command line; flags win over the config file, wherever it stands.

    Raises:
        ValueError: for options that contradict each other.
    """
    config = parse_causal(
        FitMarsConfig,
        arguments,
        groups={"mars": MarsConfig},
        defaults={"out": Path("runs/mars")},
        help=("training/fit_mars.py", "Train a causal model to draft (MARS)."),
    )
    check_least({"lora_rank": config.mars.lora_rank, "inner": config.mars.inner}, 0)
    if config.mars.lora_alpha is not None and not config.mars.lora_alpha > 0:
        raise ValueError(f"--lora_alpha must be more than 0; got {config.mars.lora_alpha:g}")
    if config.mars.lora_alpha is not None and not config.mars.lora_rank and config.run.init_from is None:
        raise ValueError(NO_LORA)
    if config.mars.lora_rank:
        check_trains_lora(config)
        if config.run.init_from is None:
            raise ValueError("a LoRA is of a trained model, whose weights it freezes: name it with --init_from")
    shape = {"width": config.mars.width, "layers": config.mars.layers, "heads": config.mars.heads}
    check_least({"block": config.mars.block, **shape}, 1)
    if config.mars.width % (2 * config.mars.heads):
        raise ValueError(
            f"--width must be a multiple of twice --heads: a head has an even width; got {config.mars.width} for "
            f"{config.mars.heads} heads"
        )
    return config


def check_trains_lora(config: FitMarsConfig) -> None:
    """Refuse what a LoRA cannot be trained with.

    Raises:
        ValueError: for another optimiser than AdamW, or an objective without masks.
    """
    if config.optimizer.optimizer != "adamw":
        raise ValueError("a LoRA is trained by --optimizer adamw")
    if config.mars.objective != "mars":
        raise ValueError("a gated LoRA changes mask rows only: there is nothing for --objective causal to train")
