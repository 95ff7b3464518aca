"""How Orthrus decodes, as a caller asks for it; checked once, so that the loop need not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from anyorder.adapters.causal.policy import check_policy, most_masks
from anyorder.adapters.causal.schedules import Lookahead, Rounds
from anyorder.draft_length import DraftLengthPolicy
from anyorder.integers import check_integer, check_number
from anyorder.sampling import Sampling

Cycle = Literal["one-pass", "two-pass"]
"""Verification and the next draft in one pass, or each in its own."""


@dataclass(frozen=True, kw_only=True)
class OrthrusOptions:
    """How to decode.

    Attributes:
        block: K; a pass drafts at most K - 1 tokens. 1 drafts nothing: plain autoregressive decoding.
        anchor_in_view: whether the model's view is the published one.
        cycle: one pass or two; ``None`` is one where the view allows it.
        lookahead: which outcomes of a test a one-pass cycle prepares for.
        policy: chooses how many drafts to ask for, up to K - 1; ``None`` asks for all of them every time.
        denoising: passes that draft a block, 1 or 2; 2 only where the anchor is in the view.
        confidence: draw a draft only if its row, and those before it, give some token at least this probability.
        sampling: how tokens are drawn.
        chunk: rows of a long prompt that are read in one pass.

    Raises:
        TypeError: for a value of the wrong kind.
        ValueError: for one out of range, or a one-pass cycle of the published view.
    """

    block: int
    anchor_in_view: bool
    cycle: Cycle | None = None
    lookahead: Lookahead = "linear"
    policy: DraftLengthPolicy | None = None
    denoising: int = 1
    confidence: float = 0.0
    sampling: Sampling
    chunk: int = 512

    def __post_init__(self) -> None:
        if self.cycle is not None and self.cycle not in get_args(Cycle):
            raise ValueError(f"cycle must be one of {', '.join(get_args(Cycle))}; got {self.cycle!r}")
        if self.cycle == "one-pass" and self.anchor_in_view:
            raise ValueError(
                "the one-pass cycle needs a view with anchor='frozen': with the anchor in the trainable view a pass "
                "that drafts decides nothing; use cycle='two-pass'"
            )
        if self.lookahead not in get_args(Lookahead):
            raise ValueError(f"lookahead must be one of {', '.join(get_args(Lookahead))}; got {self.lookahead!r}")
        if self.is_two_pass and self.lookahead != "linear":
            raise ValueError("lookahead is of the one-pass cycle: two passes draft when the test is over")
        for name in ("block", "chunk", "denoising"):
            object.__setattr__(self, name, check_integer(name, getattr(self, name), least=1))
        object.__setattr__(self, "confidence", _probability(self.confidence))
        if self.denoising > 2:
            raise ValueError(f"denoising must be 1 or 2; got {self.denoising}")
        if self.denoising == 2 and not (self.anchor_in_view and self.policy is None and self.confidence == 0):
            raise ValueError(
                "denoising=2 is for a view with anchor='trainable', without policy or confidence: "
                "elsewhere a pass that drafts decides a token as well, and a second one would be a round of its own"
            )
        check_policy(self.policy)
        if self.policy is not None and self.lookahead != "linear":
            raise ValueError("a policy chooses for which outcomes to draft: leave lookahead out")

    @property
    def is_two_pass(self) -> bool:
        """Whether drafting and testing have a pass each."""
        return self.anchor_in_view or self.cycle == "two-pass"

    @property
    def rounds(self) -> Rounds:
        """What a round consists of."""
        if not self.is_two_pass:
            return "one-pass"
        return "anchored" if self.anchor_in_view else "two-pass"

    @property
    def num_masks(self) -> int:
        """The most drafts of a pass and an outcome."""
        return self.block - 1

    @property
    def scratch(self) -> int:
        """The most slots a pass needs beside those of its tokens."""
        if self.is_two_pass:
            return self.num_masks
        if self.policy is not None:
            return most_masks(self.num_masks)
        return self.num_masks * (self.block if self.lookahead == "quadratic" else 1)

    @property
    def name(self) -> str:
        """What the stats call it."""
        if self.is_two_pass:
            denoising = ", denoised twice" if self.denoising == 2 else ""
            return f"two-pass, anchor in the view{denoising}" if self.anchor_in_view else "two-pass"
        return "one-pass" if self.policy is not None else f"one-pass {self.lookahead}"


def _probability(confidence: object) -> float:
    number = check_number("confidence", confidence)
    if not 0 <= number <= 1:
        raise ValueError(f"confidence must lie in [0, 1] (0 draws every draft); got {confidence!r}")
    return number
