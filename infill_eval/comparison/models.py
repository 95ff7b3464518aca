"""The models of a comparison: opened by what they are, refused where they cannot be compared.

Pieces are token ids, so all models must have one vocabulary: a density a token under another one is of other tokens.
Every linear layer is packed in float32, the any-subset model's too, so that no method owes its speed to how weights are
held.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import anyorder
from anyorder.adapters import causal, mars, orthrus
from anyorder.adapters.causal import CausalModel
from anyorder.adapters.causal.added import fingerprint
from anyorder.adapters.orthrus.checkpoint import base_of
from anyorder.codec import Codec, SentencePieceCodec
from infill_eval.anyorder_infiller import AnyorderInfiller
from infill_eval.causal_loading import opened
from infill_eval.comparison.judging import AnySubsetJudge, CausalJudge, Judge
from infill_eval.comparison.methods import AnySubset, Causal, any_subset, plain, with_masks, with_view

Kind: TypeAlias = Literal["model", "causal", "mars", "orthrus"]
"""What a model is, by the option that names it."""

_MARKS = {"mars": "mars.json", "orthrus": "view.json"}
_LOADERS: dict[str, Callable[[Path], CausalModel]] = {
    "causal": causal.load,
    "mars": mars.load,
    "orthrus": orthrus.load,
}
_WRITTEN_BY = {"mars": "mars.save", "orthrus": "orthrus.save_view"}


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a model lies; small enough to be sent to another process.

    Attributes:
        kind: what it is.
        place: a directory, or for an any-subset model what ``anyorder.load`` takes.
        label: what tables call it.
    """

    kind: Kind
    place: str
    label: str


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """An open model and what it can do.

    Attributes:
        source: where it came from.
        methods: the ways to decode that are compared.
        reference: the way whose greedy text the others are held to: one token a pass.
        judge: the same model as a scorer, the declared reference of every density.
        parameters: how many values it computes with.
        max_length: tokens it was made for.
        base: a hash of a left-to-right model's weights without what was added to them.
    """

    source: Source
    methods: Sequence[AnySubset | Causal]
    reference: AnySubset | Causal
    judge: Judge
    parameters: int
    max_length: int
    base: str | None = None


def sources(*, model: str | None, causal: Path | None, mars: Sequence[Path], orthrus: Sequence[Path]) -> list[Source]:
    """The models that were named, the one that others are measured against first.

    Args:
        model: an any-subset model; ``None`` for none at all.
        causal: a plain left-to-right model.
        mars: what ``mars.save`` wrote.
        orthrus: what ``orthrus.save_view`` wrote.

    Raises:
        ValueError: if a directory is missing or of another kind, or there is nothing to compare with.
    """
    if model is None and causal is None:
        raise ValueError("nothing to compare with: name a plain model with --causal, or leave --no-model out")
    named: list[tuple[Kind, Path]] = [] if causal is None else [("causal", causal)]
    named += [("mars", path) for path in mars] + [("orthrus", path) for path in orthrus]
    places = [(kind, _place(kind, path)) for kind, path in named]
    found = [Source(kind=kind, place=str(path), label=_label(kind, path)) for kind, path in places]
    if model is not None:
        found.insert(0 if causal is None else 1, Source(kind="model", place=model, label="AS-ARM"))
    labels = [source.label for source in found]
    for label in labels:
        if labels.count(label) > 1:
            same = " and ".join(source.place for source in found if source.label == label)
            raise ValueError(f"{same} would both be called {label!r}: give the directories different names")
    return found


def open_source(source: Source, *, draft_length: int | None = None) -> Contestant:
    """Load a model, packed.

    Raises:
        ValueError: if it cannot be loaded.
    """
    if source.kind == "model":
        return _open_any_subset(source, draft_length)
    load = partial(_LOADERS[source.kind], Path(source.place))
    network = opened(f"--{source.kind} {source.place}", load)
    parameters, base = sum(parameter.numel() for parameter in network.parameters()), fingerprint(network)
    network.pack("lossless")
    methods = _methods(source, network)
    reference = methods[0] if source.kind != "orthrus" else plain(f"{source.label} base", network)
    return Contestant(
        source=source,
        methods=methods,
        reference=reference,
        judge=CausalJudge(network),
        parameters=parameters,
        max_length=network.config.max_length,
        base=base,
    )


def _open_any_subset(source: Source, draft_length: int | None) -> Contestant:
    model = anyorder.load(source.place, weights="packed")
    methods = any_subset(source.label, model, draft_length)
    return Contestant(
        source=source,
        methods=methods,
        reference=methods[0],
        judge=AnySubsetJudge(model),
        parameters=AnyorderInfiller(model).describe()["parameters"],
        max_length=model.max_length,
    )


def _methods(source: Source, network: CausalModel) -> Sequence[Causal]:
    if source.kind == "causal":
        return [plain(source.label, network)]
    return with_masks(source.label, network) if source.kind == "mars" else with_view(source.label, network)


def shared_codec(contestants: Sequence[Contestant]) -> Codec:
    """The one vocabulary of all models.

    Raises:
        ValueError: if two differ, or one cannot be told.
    """
    codecs = [(contestant, _codec(contestant)) for contestant in contestants]
    first, codec = codecs[0]
    table = _table(codec)
    for contestant, other in codecs[1:]:
        if _table(other) != table:
            raise ValueError(
                f"{contestant.source.label} has another vocabulary ({other.vocab_size} tokens) than "
                f"{first.source.label} ({codec.vocab_size}): a density a token under one is of other tokens than under "
                "the other, so they cannot be compared"
            )
    return codec


def _codec(contestant: Contestant) -> Codec:
    """The codec of a model, from its own directory or its base's."""
    first, source = contestant.methods[0], contestant.source
    if isinstance(first, AnySubset):
        return first.model.codec
    directory = base_of(source.place) if source.kind == "orthrus" else source.place
    file = Path(directory) / "tokenizer.model"
    if not file.is_file():
        raise ValueError(
            f"{directory} holds no tokenizer.model, so nobody can tell whether {source.label} has the vocabulary of "
            "the others: put the one it was trained with there"
        )
    codec = SentencePieceCodec.from_file(file)
    if first.network.vocab_size < codec.vocab_size:
        raise ValueError(
            f"{source.label} has {first.network.vocab_size} ids, and its tokenizer.model {codec.vocab_size}: it was "
            "trained with another one"
        )
    return codec


def _table(codec: Codec) -> list[bytes]:
    """What every id stands for."""
    return [codec.token_bytes(token) for token in range(codec.vocab_size)]


def _place(kind: Kind, path: Path) -> Path:
    """The directory of a model, or of the best one of a run; of the right kind."""
    if not path.is_dir():
        raise ValueError(f"--{kind} {path}: no such directory")
    is_run = not any((path / name).is_file() for name in ("config.json", *_MARKS.values()))
    path = path / "best" if is_run and (path / "best").is_dir() else path
    is_what = _kind_of(path)
    if is_what == kind:
        return path
    wanted = f"was not written by {_WRITTEN_BY[kind]}" if kind in _WRITTEN_BY else "is no plain left-to-right model"
    meant = f"; it is one for --{is_what}" if is_what else ""
    raise ValueError(f"--{kind} {path} {wanted}{meant}")


def _kind_of(path: Path) -> Kind | None:
    """What a directory holds, by its files; a model that was trained for no drafts is a plain one."""
    if (path / _MARKS["orthrus"]).is_file():
        return "orthrus"
    if (path / _MARKS["mars"]).is_file() and _json(path / _MARKS["mars"]).get("block") is not None:
        return "mars"
    if not (path / "config.json").is_file():
        return None
    return "model" if _json(path / "config.json").get("model_type") == "xlnet" else "causal"


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is not a JSON file: {error}") from None
    return value if isinstance(value, dict) else {}


def _label(kind: Kind, path: Path) -> str:
    """What tables call a model: its kind and the name of its run."""
    if kind == "causal":
        return "AR"
    name = run_name(path)
    return name if kind in name.lower() else f"{kind} {name}"


def run_name(path: Path) -> str:
    """The name of a model's directory, or of the run whose best or last it is."""
    place = path.resolve()
    return place.parent.name if place.name in ("best", "last") else place.name
