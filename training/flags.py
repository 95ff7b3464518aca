"""Flags, YAML keys and help: one description of the options, the fields of a config's groups."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonargparse

from training.config import DataConfig, FitConfig, ModelConfig, ObjectiveConfig, OptimizerConfig, RunConfig

EXAMPLES = """\
python training/fit.py --config mini-code                  # a recipe of training/configs, by name or by path
python training/fit.py --config mini-code --minutes 30     # every option is a flag, a YAML key, a line of this help
python training/fit.py --config paper --data openwebtext   # a dataset of the Hub, streamed
python training/fit.py --data 'notes/*.txt' --init_from mini-code --max_steps 2000
"""

CONFIGS = Path(__file__).parent / "configs"

GROUPS: dict[str, Any] = {
    "run": RunConfig,
    "data": DataConfig,
    "objective": ObjectiveConfig,
    "model": ModelConfig,
    "optimizer": OptimizerConfig,
}


class _Formatter(jsonargparse.DefaultHelpFormatter):
    """Keeps the lines of the description."""

    def _fill_text(self, text: str, _width: int, _indent: str) -> str:
        return text


def add_groups(parser: jsonargparse.ArgumentParser, groups: Mapping[str, Any]) -> None:
    """An option for every field of every group, with its help from the group's docstring."""
    for group in groups.values():
        parser.add_class_arguments(group, None, as_group=True)


def take_groups(values: jsonargparse.Namespace, groups: Mapping[str, Any]) -> dict[str, Any]:
    """The groups with their values from a parsed command line, by name."""
    return {
        name: group(**{field.name: getattr(values, field.name) for field in dataclasses.fields(group)})
        for name, group in groups.items()
    }


def build_parser() -> jsonargparse.ArgumentParser:
    """A parser whose options are the fields of the config's groups."""
    parser = jsonargparse.ArgumentParser(
        prog="training/fit.py",
        description="Train an any-subset autoregressive model.\n\n" + EXAMPLES,
        formatter_class=_Formatter,
    )
    names = ", ".join(sorted(path.stem for path in CONFIGS.glob("*.yaml")))
    parser.add_argument("--config", action="config", help=f"a YAML file, or one of training/configs by name: {names}")
    add_groups(parser, GROUPS)
    return parser


def parse(arguments: list[str]) -> FitConfig:
    """The options of a command line; flags win over the config file, wherever it stands."""
    return FitConfig(**take_groups(build_parser().parse_args(configs_first(arguments)), GROUPS))


def configs_first(arguments: list[str]) -> list[str]:
    """``--config`` in front of the flags that change it, and names instead of paths for those in ``CONFIGS``."""
    configs: list[str] = []
    rest: list[str] = []
    pending = iter(arguments)
    for argument in pending:
        name, equals, value = argument.partition("=")
        if name == "--config":
            value = value if equals else next(pending, "")
            named = CONFIGS / f"{value}.yaml"
            configs += ["--config", str(named) if named.is_file() else value]
        else:
            rest.append(argument)
    return configs + rest


def flat(config: Any) -> dict[str, Any]:
    """The options of a config of groups as a YAML file has them."""
    values = {name: value for group in dataclasses.asdict(config).values() for name, value in group.items()}
    plain: dict[type, Any] = {Path: str, tuple: list}
    return {
        name: next((convert(value) for kind, convert in plain.items() if isinstance(value, kind)), value)
        for name, value in values.items()
    }
