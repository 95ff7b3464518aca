"""What ``--init_from`` of a causal run means: a run's best model, a directory that holds one, or an id of the Hub."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, NamedTuple

DIRECTORIES = "a run's directory has best/config.json, a model's config.json (or mars.json, if it is a LoRA)"


class Start(NamedTuple):
    """Where a model lies and what it is.

    Attributes:
        place: a directory, or an id of the Hub.
        kind: ``mars`` is a whole model that ``mars.save`` wrote, ``lora`` one without its base.
    """

    place: str
    kind: Literal["hub", "model", "mars", "lora"]


def find_start(name: str) -> Start:
    """The model that a name means.

    Raises:
        ValueError: for a view, a directory without a model, or what is neither a directory nor an id of the Hub.
    """
    if not Path(name).is_dir():
        if not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", name):
            raise ValueError(f"--init_from {name} is no directory ({DIRECTORIES}), nor could a Hub id look like that")
        return Start(name, "hub")
    places = (Path(name) / "best", Path(name))
    for place in places:
        is_whole, has_masks = (place / "config.json").is_file(), (place / "mars.json").is_file()
        if has_masks:
            return Start(str(place), "mars" if is_whole else "lora")
        if is_whole:
            return Start(str(place), "model")
    for place in places:
        if (place / "view.json").is_file():
            raise ValueError(
                f"--init_from {name}: {place} holds a view, which is no model of its own; "
                "start from its base, which view.json names"
            )
    raise ValueError(f"--init_from {name} holds no model: {DIRECTORIES}")
