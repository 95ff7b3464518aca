"""A causal model with its tokenizer, from the Hub or a directory: the text side of ``anyorder.adapters``.

What a training run exports is read as it was written: a MARS model or LoRA by ``mars.json``, our SentencePiece
vocabulary by ``tokenizer.model``. Everything else is transformers'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from safetensors import SafetensorError

from anyorder.adapters import causal, mars, orthrus
from anyorder.adapters.causal import CausalModel
from anyorder.adapters.causal.added import added, could_be_hub_id, digest, fingerprint
from anyorder.codec import SentencePieceCodec
from anyorder.model.request import checked_device

_OURS, _THEIRS = "tokenizer.model", ("tokenizer.json", "tokenizer_config.json")
_UNREADABLE = (OSError, ValueError, TypeError, RuntimeError, KeyError, SafetensorError)
"""What reading a directory that holds something else ends in."""
_LONGEST = 300
"""Characters of an error that is passed on."""


class Tokenizer(Protocol):
    """Text to ids and back."""

    def encode(self, text: str) -> Sequence[int]:
        """The ids of a prompt."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without special tokens."""
        ...


class HubTokenizer:
    """A tokenizer of transformers; a prompt begins as the tokenizer itself begins a text, with a BOS or without."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str) -> list[int]:
        """See ``Tokenizer``."""
        return list(self._tokenizer(text, verbose=False)["input_ids"])

    def decode(self, ids: Sequence[int]) -> str:
        """See ``Tokenizer``."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text


@dataclass(frozen=True, kw_only=True)
class CausalText:
    """A causal model that reads and writes text.

    Attributes:
        name: where it was loaded from.
        network: the model.
        tokenizer: its tokenizer.
        facts: what tells it from another: number of parameters, hashes of its weights and of what was added to them.
    """

    name: str
    network: CausalModel
    tokenizer: Tokenizer
    facts: dict[str, Any]

    @classmethod
    def of(cls, name: str, network: CausalModel, tokenizer: Tokenizer) -> CausalText:
        """A model ready to decode: its weights are hashed and packed, in place."""
        facts = {
            "parameters": sum(parameter.numel() for parameter in network.parameters()),
            "weights": fingerprint(network)[:16],
            "added": digest(added(network))[:16],
        }
        return cls(name=name, network=network.pack("lossless"), tokenizer=tokenizer, facts=facts)


def load_causal(
    name: str, *, revision: str | None = None, device: str | None = None, view: Path | None = None
) -> CausalText:
    """A causal model, its tokenizer and, if wanted, its Orthrus view.

    Args:
        name: a Hub id, a directory of transformers, or one that ``training/fit_mars.py`` wrote.
        revision: of a Hub model.
        device: where to run it.
        view: a directory that ``orthrus.save_view`` wrote.

    Raises:
        ModuleNotFoundError: without transformers.
        ValueError: if it is no causal model that can be loaded, has no tokenizer, the view does not fit, or torch does
            not have the device.
    """
    place = checked_device(device)
    _check_place(Path(name))
    tokenizer = load_tokenizer(name, revision)
    network = _network(name, revision)
    if view is not None:
        try:
            orthrus.load_view(network, view)
        except _UNREADABLE as error:
            raise ValueError(f"--view {view} does not fit --causal {name}: {_short(error)}") from None
    return CausalText.of(name, network.to(place), tokenizer)


def _check_place(place: Path) -> None:
    """Refuse a directory that is none or holds no model: transformers would look for it on the Hub."""
    if place.is_dir():
        if not any((place / file).is_file() for file in ("config.json", "mars.json")):
            meant = f"; did you mean {place / 'best'}?" if (place / "best" / "config.json").is_file() else ""
            raise ValueError(f"--causal {place} holds no causal model (no config.json or mars.json){meant}")
    elif not could_be_hub_id(str(place)):
        raise ValueError(f"--causal {place} is neither a directory nor a Hub id, which is a name or owner/name")


def load_tokenizer(name: str, revision: str | None = None) -> Tokenizer:
    """The tokenizer of a directory, ours or one of transformers, or of a Hub id.

    Raises:
        ValueError: if there is none that can be loaded.
    """
    directory = Path(name)
    try:
        if (directory / _OURS).is_file() and not any((directory / file).is_file() for file in _THEIRS):
            return SentencePieceCodec.from_file(directory / _OURS)
        from transformers import AutoTokenizer

        found = HubTokenizer(AutoTokenizer.from_pretrained(name, revision=revision))
        if not found.decode(found.encode("a")):  # what transformers makes up where it finds no vocabulary
            raise ValueError("it knows no letter: there is no vocabulary")
        return found
    except _UNREADABLE as error:
        raise ValueError(
            f"--causal {name}: its tokenizer cannot be loaded ({_OURS} of ours, or one of transformers): "
            f"{_short(error)}"
        ) from None


def _network(name: str, revision: str | None) -> CausalModel:
    is_ours = (Path(name) / "mars.json").is_file()
    return opened(f"--causal {name}", lambda: mars.load(name) if is_ours else causal.load(name, revision=revision))


def opened(what: str, load: Callable[[], CausalModel]) -> CausalModel:
    """What a loader gives, or a sentence on why it gives nothing.

    Raises:
        ValueError: if it cannot be loaded.
    """
    try:
        return load()
    except _UNREADABLE as error:
        raise ValueError(f"{what} is no causal model that can be loaded: {_short(error)}") from None


def _short(error: Exception) -> str:
    """What an error says, in a line; transformers' go on for a page."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."
