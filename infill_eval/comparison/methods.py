"""Ways to fill the blank of a piece, any-subset and left-to-right, behind one call that says what it cost.

A method writes exactly as many tokens as the blank had: no id ends a text, so that all do the same work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

import anyorder
from anyorder.adapters import mars, orthrus
from anyorder.adapters.causal import CausalModel
from anyorder.adapters.causal.generation import Generated, NewTokens
from anyorder.decoding import Method as AnySubsetDecoding
from anyorder.decoding import Progress
from infill_eval.comparison.pieces import Piece

Decided = Callable[[int], None]
"""Told how many tokens a pass has decided, after every pass that decided some."""

Seeds: TypeAlias = int | Sequence[int]
"""One for every piece of a batch, or one a piece."""


class Written(NamedTuple):
    """What a method wrote into one blank.

    Attributes:
        tokens: the new tokens.
        passes: network passes this piece took part in.
        rows: rows computed for it beyond its context's.
        is_lossless: whether the library declares the text to follow the model's own distribution.
    """

    tokens: tuple[int, ...]
    passes: int
    rows: int
    is_lossless: bool


class Method(Protocol):
    """A way to decode with one model.

    Attributes:
        name: what tables call it.
        can_infill: whether it sees what stands behind a blank.
        can_sample: whether it can draw at a temperature above 0.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - described above

    @property
    def can_infill(self) -> bool: ...  # noqa: D102

    @property
    def can_sample(self) -> bool: ...  # noqa: D102

    def write(
        self, pieces: Sequence[Piece], *, temperature: float, seed: Seeds = 0, on_decided: Decided | None = None
    ) -> list[Written]:
        """Fill the blanks of several pieces as one batch; ``on_decided`` is for a single piece."""
        ...

    def passes_of(self) -> tuple[Any, str]:
        """The network, and the name of what is called once a pass."""
        ...


@dataclass(frozen=True, kw_only=True)
class AnySubset:
    """A decoding method of the library's own models, targets in ascending order."""

    name: str
    model: anyorder.Model
    decoding: AnySubsetDecoding
    draft_length: int | None = None
    can_infill: bool = True
    can_sample: bool = True

    def write(
        self, pieces: Sequence[Piece], *, temperature: float, seed: Seeds = 0, on_decided: Decided | None = None
    ) -> list[Written]:
        """See ``Method``."""
        results = anyorder.infill_batch(
            [piece.text for piece in pieces],
            [[piece.blank] for piece in pieces],
            model=self.model,
            method=self.decoding,
            draft_length=None if self.decoding == "sequential" else self.draft_length,
            temperature=temperature,
            order="ascending",
            seed=seed,
            marker=None,
            progress=_steps(on_decided) if on_decided else False,
        )
        return [
            Written(
                tuple(result.spans[0].token_ids),
                result.stats.nfe,
                result.stats.rows - len(piece.left) - len(piece.right),
                result.stats.lossless,
            )
            for piece, result in zip(pieces, results, strict=True)
        ]

    def passes_of(self) -> tuple[Any, str]:
        """See ``Method``."""
        return self.model.network, "forward"


@dataclass(frozen=True, kw_only=True)
class Causal:
    """``generate`` of an adapter with its options; ``sampling`` are those in place of them above temperature 0."""

    name: str
    network: CausalModel
    generate: Callable[..., Generated | list[Generated]]
    options: Mapping[str, Any] = field(default_factory=dict)
    sampling: Mapping[str, Any] | None = None
    can_infill: bool = False

    @property
    def can_sample(self) -> bool:
        """See ``Method``."""
        return self.sampling is not None

    def write(
        self, pieces: Sequence[Piece], *, temperature: float, seed: Seeds = 0, on_decided: Decided | None = None
    ) -> list[Written]:
        """See ``Method``."""
        chosen = self.options if temperature == 0 else self.sampling
        if chosen is None:
            raise ValueError(f"{self.name} is greedy: temperature must be 0, got {temperature}")

        def told(new: NewTokens) -> None:
            if on_decided is not None and new.token_ids:
                on_decided(len(new.token_ids))

        results = self.generate(
            self.network,
            [list(piece.left) for piece in pieces],
            max_new_tokens=[len(piece.truth) for piece in pieces],
            temperature=temperature,
            eos_ids=(),
            seed=seed,
            on_tokens=None if on_decided is None else told,
            **chosen,
        )
        return [
            Written(
                result.token_ids,
                result.stats.nfe + result.stats.prefill_nfe,
                result.stats.rows - len(piece.left),
                result.stats.lossless,
            )
            for piece, result in zip(pieces, as_list(results), strict=True)
        ]

    def passes_of(self) -> tuple[Any, str]:
        """See ``Method``."""
        return self.network, "step"


def as_list(results: Generated | list[Generated]) -> list[Generated]:
    """What ``generate`` of an adapter gives for several prompts."""
    return results if isinstance(results, list) else [results]


_ONE_BY_ONE: dict[str, Any] = {"mode": "verify", "masks": 0}
"""Sampling one token a pass: threshold mode, which costs least, is greedy."""


def plain(name: str, network: CausalModel) -> Causal:
    """One token a pass with a cache: autoregressive decoding."""
    return Causal(name=name, network=network, generate=mars.generate, options={"tau": 1.0}, sampling=_ONE_BY_ONE)


def with_masks(name: str, network: CausalModel) -> list[Causal]:
    """What a MARS model can do: one token a pass, threshold mode, verify mode."""
    one_by_one = plain(f"{name} tau=1", network)
    threshold = Causal(name=f"{name} tau=0.95", network=network, generate=mars.generate, options={"tau": 0.95})
    verify: dict[str, Any] = {"mode": "verify"}
    tested = Causal(name=f"{name} verify", network=network, generate=mars.generate, options=verify, sampling=verify)
    return [one_by_one, threshold, tested]


def with_view(name: str, network: CausalModel) -> list[Causal]:
    """What an Orthrus view can do: both cycles, or the one that the published view has."""
    cycles = ("two-pass",) if network.anchor_in_view else ("one-pass", "two-pass")
    return [
        Causal(name=f"{name} {cycle}", network=network, generate=orthrus.generate, options=chosen, sampling=chosen)
        for cycle, chosen in ((cycle, {"cycle": cycle}) for cycle in cycles)
    ]


def any_subset(name: str, model: anyorder.Model, draft_length: int | None) -> list[AnySubset]:
    """Every lossless decoding method of an any-subset model."""
    decodings: tuple[AnySubsetDecoding, ...] = ("sequential", "assd", "one-pass")
    return [
        AnySubset(name=f"{name} {decoding}", model=model, decoding=decoding, draft_length=draft_length)
        for decoding in decodings
    ]


def _steps(on_decided: Decided) -> Callable[[Progress], None]:
    """From how many tokens are decided to how many a round has decided."""
    before = 0

    def told(progress: Progress) -> None:
        nonlocal before
        new, before = progress.decided - before, progress.decided
        if new:
            on_decided(new)

    return told
