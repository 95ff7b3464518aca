"""How MARS decodes, as a caller asks for it; checked once, so that the loops need not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from anyorder.adapters.causal.drafted import Confidence
from anyorder.adapters.causal.policy import check_policy, most_masks
from anyorder.adapters.causal.schedules import Lookahead
from anyorder.draft_length import DraftLengthPolicy
from anyorder.integers import check_integer
from anyorder.sampling import Sampling

Mode = Literal["threshold", "verify"]
"""Lossy and greedy, steered by tau; or lossless at any temperature."""


@dataclass(frozen=True, kw_only=True)
class MarsOptions:
    """How to decode.

    Attributes:
        block: B, how far drafts reach.
        mode: threshold or verify.
        lookahead: verify mode's masks.
        masks: mask rows a pass and an outcome; ``None`` is B - 1, as published; B is the most that is ever trained.
        policy: verify mode's choice of how many drafts to ask for, up to ``masks``; ``None`` asks for all of them.
        confidence: what tau is compared with.
        sampling: how tokens are drawn.
        chunk: rows of a long prompt that are read in one pass.

    Raises:
        TypeError: for a number that is none.
        ValueError: for a value out of range, or a temperature or a policy in threshold mode.
    """

    block: int
    mode: Mode = "threshold"
    lookahead: Lookahead = "linear"
    masks: int | None = None
    policy: DraftLengthPolicy | None = None
    confidence: Confidence = "probability"
    sampling: Sampling
    chunk: int = 512

    def __post_init__(self) -> None:
        for name, value, kind in (
            ("mode", self.mode, Mode),
            ("lookahead", self.lookahead, Lookahead),
            ("confidence", self.confidence, Confidence),
        ):
            if value not in get_args(kind):
                raise ValueError(f"{name} must be one of {', '.join(get_args(kind))}; got {value!r}")
        if self.mode == "threshold" and self.sampling.temperature > 0:
            raise ValueError(
                "threshold mode is greedy: a temperature above 0 needs mode='verify', which is exact at any"
            )
        check_policy(self.policy)
        if self.mode == "threshold" and self.policy is not None:
            raise ValueError("threshold mode keeps what tau says: a policy is of mode='verify'")
        if self.policy is not None and self.lookahead != "linear":
            raise ValueError("a policy chooses for which outcomes to draft: leave lookahead out")
        for name, least in (("block", 1), ("chunk", 1), ("masks", 0)):
            if (value := getattr(self, name)) is not None or name != "masks":
                object.__setattr__(self, name, check_integer(name, value, least=least))
        if self.num_masks > self.block:
            raise ValueError(f"masks must be at most the block, {self.block}: none beyond is trained; got {self.masks}")

    @property
    def num_masks(self) -> int:
        """Mask rows a pass and an outcome."""
        return self.block - 1 if self.masks is None else self.masks

    @property
    def scratch(self) -> int:
        """The most slots a pass needs beside those of its tokens."""
        if self.policy is not None:
            return most_masks(self.num_masks)
        prepares_all = self.mode == "verify" and self.lookahead == "quadratic"
        return self.num_masks * (self.num_masks + 1 if prepares_all else 1)

    @property
    def name(self) -> str:
        """What the stats call it."""
        if self.mode == "threshold" or self.policy is not None:
            return self.mode
        return f"{self.mode} {self.lookahead}"
