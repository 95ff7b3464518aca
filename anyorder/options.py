"""What a caller may choose for filling one text, checked once, before any model runs.

How tokens are drawn (``anyorder.sampling``) and how the loop runs (``anyorder.decoding``) are checked there; this
module adds what only the text level knows: lengths, samples, seeds, orders, forbidden strings.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal, get_args

from anyorder.decoding.generation import Method
from anyorder.decoding.options import DecodeOptions
from anyorder.draft_length import DraftLengthPolicy
from anyorder.drafting import Drafter
from anyorder.integers import as_integer, check_integer
from anyorder.order import OrderName
from anyorder.sampling import Sampling
from anyorder.uniforms import MAX_SEED

Length = Literal["same"] | int | Sequence[int] | range
"""How many tokens a blank gets: those of the replaced text, a number, one number a blank, or a range to choose from."""

TargetOrder = OrderName | Sequence[int] | None
"""The order of the targets: a name, a permutation in text order, or the model's own policy."""

Context = Literal["full", "crop"]
"""What of a long text the model sees: all of it or an error, or a window around each blank."""

ForbiddenStrings = str | Sequence[str] | AbstractSet[str] | None
"""What no fill may contain: a string or several."""


@dataclass(frozen=True, kw_only=True)
class InfillOptions:
    """The options of ``anyorder.infill`` for one text; see there.

    Raises:
        TypeError: for a value of the wrong kind.
        ValueError: for a value outside what is allowed.
    """

    length: Length = "same"
    method: Method = "one-pass"
    draft_length: int | None = None
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    n: int = 1
    seed: int | None = None
    order: TargetOrder = None
    drafter: Literal["self", "ngram"] | Drafter = "self"
    forbidden: ForbiddenStrings = None
    marker: str | None = "<mask>"
    steps: int = 1
    context: Context = "full"

    def __post_init__(self) -> None:
        _check_length(self.length)
        object.__setattr__(self, "n", check_integer("n", self.n, least=1))
        if self.seed is not None:
            object.__setattr__(self, "seed", check_integer("seed", self.seed, least=0, most=MAX_SEED - self.n))
        _check_choice("context", self.context, get_args(Context))
        _check_order(self.order)
        self.forbidden_strings()
        self.decoding()

    def forbidden_strings(self) -> tuple[str, ...]:
        """What no fill may contain, as a sorted tuple of strings."""
        strings = (
            [self.forbidden] if isinstance(self.forbidden, str) else () if self.forbidden is None else self.forbidden
        )
        if isinstance(strings, bytes) or not isinstance(strings, Sequence | AbstractSet):
            raise TypeError(f"forbidden must be a string or a list of strings; got {self.forbidden!r}")
        for string in strings:
            if not isinstance(string, str):
                raise TypeError(f"forbidden must be a string or a list of strings; it contains {string!r}")
            if not string:
                raise ValueError("forbidden contains the empty string, which every fill contains")
        return tuple(sorted(set(strings)))

    def decoding(self, policy: DraftLengthPolicy | None = None, max_length: int | None = None) -> DecodeOptions:
        """What the decoding loop is told.

        Args:
            policy: chooses draft lengths where the caller named none.
            max_length: how many tokens the model takes; more drafts or groups than that are as many.
        """
        draft_length, steps = self.draft_length, self.steps
        if max_length is not None:
            draft_length = None if draft_length is None else min(draft_length, max(max_length, 2))
            steps = min(steps, max(max_length, 1))
        return DecodeOptions(
            method=self.method,
            draft_length=draft_length,
            steps=steps,
            sampling=Sampling(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p),
            drafter=self.drafter,
            policy=policy or DraftLengthPolicy(),
        )

    def first_seed(self) -> int:
        """The caller's seed, or a fresh one that the result records."""
        return secrets.randbelow(2**32) if self.seed is None else self.seed


def _check_length(length: object) -> None:
    allowed = 'length must be "same", a number of tokens, one number a blank, or a range'
    if isinstance(length, str):
        if length != "same":
            raise ValueError(f"{allowed}; got {length!r}")
    elif isinstance(length, range):
        if not length or min(length[0], length[-1]) < 1:
            raise ValueError(
                f"a range of lengths must have values and start at 1 (lengths are compared per token); got {length!r}"
            )
    elif as_integer(length) is not None:
        check_integer("length", length, least=0)
    elif isinstance(length, Sequence) and not isinstance(length, bytes):
        for item in length:
            check_integer("every length", item, least=0)
    else:
        raise TypeError(f"{allowed}; got {length!r}")


def _check_order(order: object) -> None:
    if order is None:
        return
    if isinstance(order, str):
        _check_choice("order", order, get_args(OrderName), also=" or a permutation of range(number of targets)")
    elif not isinstance(order, Sequence) or any(as_integer(item) is None for item in order):
        names = ", ".join(map(repr, get_args(OrderName)))
        raise TypeError(
            f"order must be {names}, None or a list of integers (a permutation of the targets); got {order!r}"
        )


def _check_choice(name: str, value: object, allowed: tuple[str, ...], also: str = "") -> None:
    if value not in allowed:
        error = ValueError if isinstance(value, str) else TypeError
        raise error(f"{name} must be one of {', '.join(map(repr, allowed))}{also}; got {value!r}")
