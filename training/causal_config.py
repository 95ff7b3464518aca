"""The options that both trainings of a causal model share, beside those of ``fit.py``, and how a command reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import jsonargparse

from training.config import DataConfig, FitConfig, OptimizerConfig, RunConfig
from training.flags import add_groups, configs_first, take_groups


@dataclass(frozen=True, kw_only=True)
class ChatConfig:
    """Prompts with responses, to train on instead of ``data``.

    Attributes:
        chat: a .jsonl file of ``{"prompt": ..., "response": ...}``; only responses count.
        max_length: tokens of a prompt and response; longer ones are cut.
    """

    chat: Path | None = None
    max_length: int = 512


@dataclass(frozen=True, kw_only=True)
class CausalRunConfig:
    """All options but those of the objective, by who reads them."""

    run: RunConfig = field(default_factory=RunConfig)
    data: DataConfig = field(default_factory=DataConfig)
    chat: ChatConfig = field(default_factory=ChatConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)

    @property
    def fit(self) -> FitConfig:
        """The part that the data of ``fit.py`` reads."""
        return FitConfig(run=self.run, data=self.data, optimizer=self.optimizer)

    @property
    def least_response(self) -> int:
        """Tokens of response in a row without which an example teaches the objective nothing."""
        return 1


SHARED: dict[str, Any] = {"run": RunConfig, "data": DataConfig, "chat": ChatConfig, "optimizer": OptimizerConfig}

Config = TypeVar("Config", bound=CausalRunConfig)


def parse_causal(
    kind: type[Config],
    arguments: list[str],
    *,
    groups: Mapping[str, Any],
    defaults: dict[str, Any],
    help: tuple[str, str],
) -> Config:
    """The options of a command line; flags win over the config file, wherever it stands.

    Args:
        kind: the class that holds the groups.
        arguments: the command line.
        groups: the objective's groups, by name.
        defaults: what differs from ``fit.py``.
        help: the command and what it does.

    Raises:
        ValueError: for windows, which are cut for infilling; for a number out of range.
    """
    parser = jsonargparse.ArgumentParser(prog=help[0], description=help[1])
    parser.add_argument("--config", action="config", help="a YAML file of options")
    every = SHARED | dict(groups)
    add_groups(parser, every)
    # Whole documents: a causal model reads canonical tokens, and blanks that split words are no business of its.
    parser.set_defaults({"pieces": "packed", "lengths": {256: 1.0}, **defaults})
    config = kind(**take_groups(parser.parse_args(configs_first(arguments)), every))
    if config.data.pieces != "packed":
        raise ValueError(
            "causal models train on --pieces packed: windows are encoded in segments, as infilling needs them"
        )
    check_least({"max_length": config.chat.max_length}, 2)
    check_least(
        {
            "tokens_per_step": config.data.tokens_per_step,
            "accumulate": config.data.accumulate,
            "validate_windows": config.run.validate_windows,
            "max_steps": 1 if config.run.max_steps is None else config.run.max_steps,
        },
        1,
    )
    if config.run.minutes is not None and not config.run.minutes > 0:
        raise ValueError(f"--minutes must be more than 0; got {config.run.minutes}")
    return config


def check_least(options: Mapping[str, int], least: int) -> None:
    """Refuse what is below ``least``, by the name of its flag.

    Raises:
        ValueError: for the first of them.
    """
    for name, value in options.items():
        if value < least:
            raise ValueError(f"--{name} must be at least {least}; got {value}")
