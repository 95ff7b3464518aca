"""What a task asks of a model and what it gets back: any callable from a request to texts can be evaluated.

A request is the text around the blanks, how many tokens may go in, how many samples, and a seed. An answer is a list of
texts, or of ``Sample`` where the model also knows densities and costs. Nothing here knows a tokenizer, a logit or a
task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, get_args, runtime_checkable

LengthPolicy = Literal["oracle", "fixed", "range"]
"""How a blank's length is chosen: that of the reference, a number, or the best of several by density per token."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How many tokens each blank may get.

    Attributes:
        policy: ``"oracle"``, ``"fixed"`` or ``"range"``.
        like: for ``"oracle"``, one text a blank: as many tokens as the model needs for it, and nothing else may be
            taken from it.
        tokens: for ``"fixed"``, the number; for ``"range"``, the numbers to choose from.
    """

    policy: LengthPolicy
    like: tuple[str, ...] | None = None
    tokens: int | range | None = None

    def __post_init__(self) -> None:
        wanted: dict[str, type] = {"fixed": int, "range": range}
        if self.policy not in get_args(LengthPolicy):
            raise ValueError(f"unknown length policy {self.policy!r}: use {', '.join(get_args(LengthPolicy))}")
        if self.policy == "oracle":
            if self.like is None or self.tokens is not None:
                raise ValueError("the oracle length is that of a reference text: give like, and no number of tokens")
        elif self.like is not None or not isinstance(self.tokens, wanted[self.policy]):
            kind = {"fixed": "a number", "range": "a range"}[self.policy]
            raise ValueError(f"the {self.policy} length is {kind} of tokens and no text, got tokens={self.tokens!r}")
        elif isinstance(self.tokens, range) and (not self.tokens or min(self.tokens) < 1):
            raise ValueError(f"a range of lengths must start at 1 or more and not be empty, got {self.tokens!r}")


@dataclass(frozen=True, kw_only=True)
class Request:
    """Text with blanks to be filled.

    Attributes:
        id: the item's name, unique in its task.
        segments: the text before, between and after the blanks; one more than there are blanks.
        budget: how long the fills may be.
        n: how many samples to return.
        seed: sample ``j`` should depend on ``seed + j`` alone.
    """

    id: str
    segments: tuple[str, ...]
    budget: Budget
    n: int = 1
    seed: int = 0

    @property
    def prefix(self) -> str:
        """The text before the only blank."""
        return self._around()[0]

    @property
    def suffix(self) -> str:
        """The text after the only blank."""
        return self._around()[1]

    def _around(self) -> tuple[str, str]:
        if len(self.segments) != 2:
            raise ValueError(f"{self.id} has {len(self.segments) - 1} blanks: read segments, not prefix and suffix")
        return self.segments[0], self.segments[1]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One way of filling a request's blanks.

    Attributes:
        texts: what goes into each blank.
        log_prob: joint log-density in nats, if the model has one.
        stats: costs by name, numbers or lists of numbers (``nfe``, ``tokens``, ``seconds``, ...), as far as known.
    """

    texts: tuple[str, ...]
    log_prob: float | None = None
    stats: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """What is written to disk."""
        return {"texts": list(self.texts), "log_prob": self.log_prob, "stats": dict(self.stats)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Sample:
        """What was written to disk."""
        return cls(texts=tuple(record["texts"]), log_prob=record["log_prob"], stats=record["stats"])


Answer: TypeAlias = Sequence[str | Sample]
"""``request.n`` fills; plain strings where there is one blank and nothing else to tell."""

Infiller: TypeAlias = Callable[[Request], Answer]
"""A model: any callable from a request to ``request.n`` fills."""


@runtime_checkable
class BatchInfiller(Protocol):
    """A model that prefers several requests at once."""

    def batch(self, requests: Sequence[Request]) -> Sequence[Answer]:
        """One answer a request, each what the request alone would have given."""
        ...


@runtime_checkable
class RoundTrips(Protocol):
    """A model whose tokenizer can be looked at: needed for the baseline "oracle after a codec round trip"."""

    def round_trip(self, text: str) -> str:
        """The text after encoding and decoding it."""
        ...


@runtime_checkable
class Described(Protocol):
    """A model that says what it is, for ``run.json`` and the tables."""

    def describe(self) -> dict[str, Any]:
        """Name and settings; ``model`` and ``method`` are what tables show."""
        ...


@runtime_checkable
class ChecksRequests(Protocol):
    """A model that knows before anything is sampled which requests are beyond it."""

    def check_requests(self, requests: Sequence[Request]) -> None:
        """Raise a ``ValueError`` that names the first request that cannot be answered."""
        ...


def describe(infiller: Infiller) -> dict[str, Any]:
    """What a model says about itself, or its name."""
    if isinstance(infiller, Described):
        return infiller.describe()
    return {"model": getattr(infiller, "__name__", type(infiller).__name__), "method": "own"}


def ask(infiller: Infiller, requests: Sequence[Request]) -> list[list[Sample]]:
    """The samples for each request, checked: as many as asked for, each with one text a blank.

    Raises:
        ValueError: if a model returns something else.
    """
    answers = infiller.batch(requests) if isinstance(infiller, BatchInfiller) else [infiller(one) for one in requests]
    if len(answers) != len(requests):
        raise ValueError(f"the model answered {len(answers)} of {len(requests)} requests")
    return [_checked(request, answer) for request, answer in zip(requests, answers, strict=True)]


def _checked(request: Request, answer: Answer) -> list[Sample]:
    if not isinstance(answer, Sequence) or isinstance(answer, str) or len(answer) != request.n:
        several = f"{len(answer)} samples" if isinstance(answer, Sequence) else f"a {type(answer).__name__}"
        got = "a single string" if isinstance(answer, str) else several
        raise ValueError(f"the model was asked for {request.n} samples of {request.id} as a list, and returned {got}")
    samples = [Sample(texts=(fill,)) if isinstance(fill, str) else fill for fill in answer]
    blanks = len(request.segments) - 1
    for sample in samples:
        if not isinstance(sample, Sample):
            raise ValueError(
                f"a sample is a text or a Sample; for {request.id} the model gave a {type(sample).__name__}"
            )
        if len(sample.texts) != blanks:
            raise ValueError(f"{request.id} has {blanks} blanks, and the model filled {len(sample.texts)}")
    return samples
