"""What a caller decides about decoding, checked once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from anyorder.decoding.generation import Method
from anyorder.draft_length import MOST_AHEAD, DraftLengthPolicy
from anyorder.drafting import Drafter
from anyorder.integers import check_integer
from anyorder.sampling import Sampling


@dataclass(frozen=True, kw_only=True)
class DecodeOptions:
    """How to decode.

    Attributes:
        method: ``"sequential"``, ``"assd"`` (a pass to draft, a pass to test), ``"one-pass"`` (each pass tests the
            drafts in hand and answers the next ones), or ``"parallel"`` (lossy).
        draft_length: K, the number of drafts in a round; ``None`` lets ``policy`` choose, each round and sequence anew.
        steps: in how many groups ``"parallel"`` decides the targets.
        sampling: temperature, top-k, top-p.
        drafter: ``"self"`` (the model's parallel conditionals), ``"ngram"``, or an object with ``propose``.
        max_rows: at most this many query rows a pass and sequence; one-pass decoding then gives up next-draft rows of
            the least likely outcomes (rows that verify are never given up). ``None`` is no limit.
        policy: what ``draft_length=None`` follows, and what ``max_rows`` judges outcomes by.
    """

    method: Method = "one-pass"
    draft_length: int | None = None
    steps: int = 1
    sampling: Sampling = field(default_factory=Sampling)
    drafter: Literal["self", "ngram"] | Drafter = "self"
    max_rows: int | None = None
    policy: DraftLengthPolicy = field(default_factory=DraftLengthPolicy)

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            names = ", ".join(repr(name) for name in get_args(Method))
            raise ValueError(f"unknown method {self.method!r}: use {names}")
        self._check_integer("steps", 1, "the number of groups of parallel decoding")
        if self.draft_length is not None:
            self._check_integer("draft_length", 0, "None lets the policy choose")
        if self.max_rows is not None:
            self._check_integer("max_rows", 1, "None is no limit")
        if not isinstance(self.sampling, Sampling):
            raise TypeError(f"sampling must be a Sampling; got {type(self.sampling).__name__}")
        if not isinstance(self.policy, DraftLengthPolicy):
            raise TypeError(f"policy must be a DraftLengthPolicy; got {type(self.policy).__name__}")
        if isinstance(self.drafter, str):
            if self.drafter not in ("self", "ngram"):
                raise ValueError(f"unknown drafter {self.drafter!r}: use 'self', 'ngram' or an object with propose()")
        elif isinstance(self.drafter, type):
            name = self.drafter.__name__
            raise TypeError(f"a drafter is an object with a method propose(); got the class {name}: make one, {name}()")
        elif not isinstance(self.drafter, Drafter):
            raise TypeError(f"a drafter needs a method propose(); got {type(self.drafter).__name__}")

    def _check_integer(self, name: str, least: int, note: str) -> None:
        object.__setattr__(self, name, check_integer(name, getattr(self, name), least=least, note=note))

    @property
    def effective_method(self) -> Method:
        """The method that runs: drafts too few to gain anything are not made."""
        useless = 1 if self.method == "assd" and self.drafter == "self" else 0
        speculative = self.method in ("assd", "one-pass")
        if speculative and self.draft_length is not None and self.draft_length <= useless:
            return "sequential"
        return self.method

    def most_rows(self, num_targets: int) -> int:
        """The most query rows that a pass can have for a sequence with so many targets."""
        method = self.effective_method
        if method == "sequential":
            return 1
        if method == "parallel":
            return num_targets  # once all is decided, a pass scores it
        drafts_itself, lags = self.drafter == "self", self.policy.max_lag
        ahead = lags + 1 if method == "assd" else min(lags, MOST_AHEAD) if drafts_itself else lags
        drafts = min(ahead if self.draft_length is None else self.draft_length, num_targets)
        if method == "assd" and drafts_itself:
            return drafts  # the first is not tested
        if not drafts_itself:
            return drafts + 1
        every = (drafts + 1) ** 2  # those that test, and next drafts for each outcome
        return every if self.max_rows is None else max(min(every, self.max_rows), drafts + 1)
