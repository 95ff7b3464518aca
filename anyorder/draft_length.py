"""How many drafts to make: as many as a pass can test for less than the tokens they are expected to save are worth.

A pass over more rows costs more and decides more. What it costs comes from a table stored for the kind of device; what
it decides comes from how often this sequence's drafts were kept so far, starting from a prior. Both are known before a
draft is drawn, so the choice never biases a result, and neither a clock nor a neighbour in the batch enters, so that
the same seed gives the same text everywhere. A length of zero is always among the choices: speculation that does not
pay is not done.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class PassCosts:
    """What a pass costs by the number of its rows, on one kind of device, in any unit: linear between the given points.

    Attributes:
        rows: numbers of rows (content and query together), increasing, at least two.
        costs: the cost of a pass with that many rows, positive and not decreasing.
    """

    rows: tuple[int, ...]
    costs: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.rows) < 2 or len(self.rows) != len(self.costs):
            raise ValueError(f"rows and costs must be equally many, at least two; got {self.rows} and {self.costs}")
        if any(late <= early for early, late in zip(self.rows, self.rows[1:], strict=False)):
            raise ValueError(f"rows must increase; got {self.rows}")
        falls = any(late < early for early, late in zip(self.costs, self.costs[1:], strict=False))
        if not self.costs[0] > 0 or falls:
            raise ValueError(f"costs must be positive and must not fall with more rows; got {self.costs}")

    def __call__(self, rows: Tensor) -> Tensor:
        """The cost of passes with these numbers of rows: float64, same shape; the end segments extend outwards."""
        knots = torch.tensor(self.rows, dtype=torch.float64)
        costs = torch.tensor(self.costs, dtype=torch.float64)
        rows = rows.double()
        segment = (torch.searchsorted(knots, rows, right=True) - 1).clamp(0, len(knots) - 2)
        slope = (costs[segment + 1] - costs[segment]) / (knots[segment + 1] - knots[segment])
        return costs[segment] + slope * (rows - knots[segment])


CPU_COSTS = PassCosts(rows=(1, 2, 8, 32, 64), costs=(1.0, 1.05, 1.4, 2.7, 4.6))
"""Packed float32 linear layers of the XLNet-base shape on two threads, a pass of one row being the unit."""


@dataclass(frozen=True)
class History:
    """How this sequence's drafts fared, by lag (how many undecided steps lay between what the draft saw and its step).

    Attributes:
        tested: (B, M) int64, drafts of lag ``column + 1`` whose test was reached.
        accepted: (B, M) int64, those of them that were kept.
    """

    tested: Tensor
    accepted: Tensor

    @classmethod
    def empty(cls, batch: int, max_lag: int) -> History:
        """Nothing drafted yet."""
        zeros = torch.zeros(batch, max_lag, dtype=torch.long)
        return cls(zeros, zeros)

    def select(self, rows: Tensor) -> History:
        """The history of some rows of the batch, ``rows`` being (A,) int64 row numbers."""
        return History(self.tested[rows], self.accepted[rows])

    def after(self, num_tested: Tensor, num_accepted: Tensor) -> History:
        """With one more round: (B,) drafts submitted to the test and (B,) how many of them were kept."""
        lag = torch.arange(self.tested.shape[1])
        reached = (lag < num_tested[:, None]) & (lag <= num_accepted[:, None])
        return History(self.tested + reached, self.accepted + (lag < num_accepted[:, None]))


@dataclass(frozen=True, kw_only=True)
class DraftLengthPolicy:
    """Chooses draft lengths from stored costs and a sequence's own history.

    Attributes:
        costs: what passes cost on this kind of device.
        acceptance: the expected probability that a draft of lag 1, 2, ... is kept, given those before it were. Its
            length is the largest number of drafts ever tested in a round.
        prior_weight: how many tests of a sequence's own outweigh the expectation.
    """

    costs: PassCosts = CPU_COSTS
    acceptance: tuple[float, ...] = (0.45, 0.4, 0.35, 0.35, 0.3, 0.3)
    prior_weight: float = 8.0

    def __post_init__(self) -> None:
        if not self.acceptance or not all(0 <= rate <= 1 for rate in self.acceptance):
            raise ValueError(f"acceptance must be one or more probabilities, by lag; got {self.acceptance}")
        if not self.prior_weight > 0:
            raise ValueError(f"prior_weight must be positive; got {self.prior_weight}")

    @property
    def max_lag(self) -> int:
        """M, the largest number of drafts tested in a round."""
        return len(self.acceptance)

    def survival(self, history: History, max_drafts: int | None = None) -> Tensor:
        """How probable it is that at least 0, 1, 2, ... tested drafts in a row are kept.

        Args:
            history: what happened to the (B,) sequences so far.
            max_drafts: the last column wanted, ``max_lag`` when omitted; longer lags are kept as often as the longest
                known.

        Returns:
            (B, max_drafts + 1) float64, 1 in the first column.
        """
        prior = torch.tensor(self.acceptance, dtype=torch.float64)
        rate = (self.prior_weight * prior + history.accepted) / (self.prior_weight + history.tested)
        lag = torch.arange(self.max_lag if max_drafts is None else max_drafts)
        rate = rate[:, lag.clamp(max=self.max_lag - 1)]
        return torch.cat([torch.ones(len(rate), 1, dtype=torch.float64), rate.cumprod(1)], 1)

    def two_pass_length(self, survival: Tensor, remaining: Tensor) -> Tensor:
        """(B,) int64, K of a round of ASSD, which drafts in one pass and tests in another; 1 is one exact token.

        Args:
            survival: (B, M + 1), see ``survival``.
            remaining: (B,) int64, steps left to decide.
        """
        tests = torch.arange(survival.shape[1])
        # K drafts: the first is exact, K - 1 are tested, and a rejection is followed by a correction.
        decided = survival.cumsum(1) + torch.where(tests > 0, 1 - survival, 0)
        cost = self.costs(tests + 2) + torch.where(tests > 0, self.costs(2 * tests), 0)
        return 1 + _best_rate(decided / cost, remaining - 1)

    def external_length(self, survival: Tensor, remaining: Tensor) -> Tensor:
        """(B,) int64, how many drafts to take from a drafter that costs no pass; 0 is one exact token."""
        drafts = torch.arange(survival.shape[1])
        return _best_rate(survival.cumsum(1) / self.costs(2 * drafts + 2), remaining)

    def token_price(self, survival: Tensor) -> Tensor:
        """(B,) float64, the lowest cost per decided token among one-pass decoding with a constant number of drafts."""
        drafts = torch.arange(survival.shape[1])
        rows = (drafts + 1) + (drafts + 1) ** 2
        return (self.costs(rows) / survival.cumsum(1)).amin(1)


def _best_rate(rate: Tensor, limit: Tensor) -> Tensor:
    """(B,) int64, the column of the highest rate at or below each row's limit; the smallest such column at ties."""
    too_many = torch.arange(rate.shape[1]) > limit[:, None]
    return rate.masked_fill(too_many, -1.0).argmax(1)
