"""What ``--init_from`` of a causal run means: a run's best model, a directory that holds one, or an id of the Hub."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from anyorder.adapters.causal import CausalModel
from anyorder.adapters.causal.added import could_be_hub_id
from anyorder.adapters.mars.checkpoint import base_of
from anyorder.codec import SentencePieceCodec
from training.prepare import VOCABULARY

DIRECTORIES = "a run's directory has best/config.json, a model's config.json (or mars.json, if it is a LoRA)"
_THEIRS = ("tokenizer.json", "tokenizer_config.json")
"""Beside which a ``tokenizer.model`` is read by transformers, which knows what it needs around it."""


class Start(NamedTuple):
    """Where a model lies and what it is.

    Attributes:
        name: what the user calls it.
        place: a directory, or an id of the Hub.
        kind: ``mars`` is a whole model that ``mars.save`` wrote, ``lora`` one without its base.
    """

    name: str
    place: str
    kind: Literal["hub", "model", "mars", "lora"]


class HubCodec:
    """A tokenizer of transformers as the data code wants it."""

    forbidden_ids: tuple[int, ...] = ()

    def __init__(self, tokenizer: Any) -> None:
        if not tokenizer.decode(tokenizer("a").input_ids, skip_special_tokens=True):
            raise ValueError("it knows no letter: there is no vocabulary")  # transformers made one up
        if tokenizer.eos_token_id is None:
            raise ValueError("it names no token that ends a text, and documents need one between them")
        self._tokenizer, self.vocab_size, self.separator_id = tokenizer, len(tokenizer), tokenizer.eos_token_id

    def encode(self, text: str) -> Sequence[int]:
        """Text to ids, nothing added."""
        return self._tokenizer(text, add_special_tokens=False, verbose=False).input_ids  # type: ignore[no-any-return]

    def save(self, directory: Path) -> None:
        """Write the tokenizer beside a model."""
        self._tokenizer.save_pretrained(directory)


def find_start(name: str) -> Start:
    """The model that a name means.

    Raises:
        ValueError: for a view, a directory without a model, or what is neither a directory nor an id of the Hub.
    """
    if not name or Path(name).is_file():
        raise ValueError(f"--init_from {name or '(nothing)'} is no directory: {DIRECTORIES}")
    if not Path(name).is_dir():
        if not could_be_hub_id(name):
            raise ValueError(f"--init_from {name} is no directory ({DIRECTORIES}), nor could a Hub id look like that")
        return Start(name, name, "hub")
    places = (Path(name) / "best", Path(name))
    for place in places:
        is_whole, has_masks = (place / "config.json").is_file(), (place / "mars.json").is_file()
        if has_masks:
            return Start(name, str(place), "mars" if is_whole else "lora")
        if is_whole:
            return Start(name, str(place), "model")
    for place in places:
        if (place / "view.json").is_file():
            raise ValueError(
                f"--init_from {name}: {place} holds a view, which is no model of its own; "
                "start from its base, which view.json names"
            )
    raise ValueError(f"--init_from {name} holds no model: {DIRECTORIES}")


def open_codec(start: Start) -> Any:
    """The vocabulary of a model: beside it, in the run it is of, or beside the base of a LoRA.

    Raises:
        ValueError: if there is none, or none that can train a model.
    """
    base = base_of(start.place) if start.kind == "lora" else None
    places = (start.place, start.name, *([base] if base else []))
    for place in map(Path, places):
        theirs = any((place / file).is_file() for file in _THEIRS)
        if (place / VOCABULARY).is_file() and not theirs:
            return SentencePieceCodec.from_file(place / VOCABULARY)
        if theirs or not place.is_dir():
            return _of_transformers(start, str(place))
    raise ValueError(
        f"--init_from {start.name}: {start.place} has no tokenizer ({VOCABULARY} of ours, or {' or '.join(_THEIRS)} of "
        "transformers): copy there the one that the model was trained with"
    )


def _of_transformers(start: Start, place: str) -> HubCodec:
    from transformers import AutoTokenizer

    try:
        return HubCodec(AutoTokenizer.from_pretrained(place))
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        if start.kind == "hub" and isinstance(error, OSError):
            what = f"is no directory ({DIRECTORIES}), nor could it be fetched from the Hub"
        else:
            what = f"names a model whose tokenizer, in {place}, cannot be used"
        raise ValueError(f"--init_from {start.name} {what}: {reason}") from error


def check_vocabulary(codec: Any, network: CausalModel) -> None:
    """Refuse a vocabulary with more ids than the network knows; one with fewer is usual: heads are padded.

    Raises:
        ValueError: if it has.
    """
    if codec.vocab_size > network.vocab_size:
        raise ValueError(
            f"the tokenizer has {codec.vocab_size} tokens and the model knows {network.vocab_size}: it is another's"
        )
