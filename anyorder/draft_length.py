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
        refresh: the choice is thought over again every so many rounds, since thinking takes time too.
    """

    costs: PassCosts = CPU_COSTS
    acceptance: tuple[float, ...] = (0.45, 0.4, 0.35, 0.35, 0.3, 0.3)
    prior_weight: float = 8.0
    refresh: int = 8

    def __post_init__(self) -> None:
        if not self.acceptance or not all(0 <= rate <= 1 for rate in self.acceptance):
            raise ValueError(f"acceptance must be one or more probabilities, by lag; got {self.acceptance}")
        if not self.prior_weight > 0:
            raise ValueError(f"prior_weight must be positive; got {self.prior_weight}")
        if self.refresh < 1:
            raise ValueError(f"refresh must be at least 1 round; got {self.refresh}")

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
        prior, weight = torch.tensor(self.acceptance, dtype=torch.float64), self.prior_weight
        tested, accepted = history.tested.sum(1, keepdim=True), history.accepted.sum(1, keepdim=True)
        # Lags that were hardly tested learn from the others: a text that drafts well at one lag does at the next.
        expected = (history.tested * prior).sum(1, keepdim=True) / tested.clamp(min=1)
        expected = torch.where(tested > 0, expected, prior[:1])
        overall = (weight * expected + accepted) / (weight + tested)
        prior = (prior.logit(eps=1e-6) + overall.logit(eps=1e-6) - expected.logit(eps=1e-6)).sigmoid()
        rate = (weight * prior + history.accepted) / (weight + history.tested)
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

    def worthwhile(self, ranked: RankedDrafts, survival: Tensor, mandatory: Tensor) -> Tensor:
        """(B,) int64, how many of the next drafts, the most useful first, gain most beyond their cost.

        A draft is expected to save ``use`` tokens, each worth what a token costs at best. It costs a row in this pass
        and, if its outcome happens, a row to encode and a row to test it in the next.

        Args:
            ranked: the next drafts this pass could ask for.
            survival: (B, M + 1), see ``survival``.
            mandatory: (B,) int64, the rows of this pass without them.
        """
        now = self.costs(mandatory[:, None] + torch.arange(ranked.use.shape[1] + 1))
        price, rows = self._steady_state(survival)
        later = self.costs(rows + 2) - self.costs(rows)
        gain = price[:, None] * ranked.use - ranked.chance * later[:, None]
        return _best_rate(torch.nn.functional.pad(gain.cumsum(1), (1, 0)) - now + now[:, :1], ranked.count)

    def next_drafts(self, survival: Tensor, *, most: int, adapt: bool, max_rows: int | None) -> Tensor:
        """How many next drafts a one-pass round asks for, by the drafts it has in hand and by the outcome of their
        test.

        Args:
            survival: (B, most + 1), see ``survival``.
            most: the largest number of drafts in hand, and of next drafts of an outcome.
            adapt: whether to ask only for drafts that save more than they cost.
            max_rows: if given, no more rows than this that test or ask; rows that test are never left out.

        Returns:
            (B, most + 1, most + 1) int64, entry ``[b, w, a]`` for w drafts in hand of which a are kept.
        """
        held = torch.arange(most + 1).repeat(len(survival))
        survival = survival.repeat_interleave(most + 1, 0)
        ranked = RankedDrafts.of(survival, held, most * (torch.arange(most + 1) <= held[:, None]), most)
        count = self.worthwhile(ranked, survival, 2 * held + 2) if adapt else ranked.count
        if max_rows is not None:
            count = torch.minimum(count, (max_rows - held - 1).clamp(min=0))
        return ranked.first(count).view(-1, most + 1, most + 1)

    def _steady_state(self, survival: Tensor) -> tuple[Tensor, Tensor]:
        """(B,) cost of a token, (B,) rows of a pass, with the constant number of drafts that makes tokens cheapest."""
        drafts = torch.arange(survival.shape[1])
        rows = (drafts + 1) + (drafts + 1) ** 2
        price = self.costs(rows) / survival.cumsum(1)
        cheapest = price.argmin(1)
        return price.gather(1, cheapest[:, None])[:, 0], rows[cheapest]


def _best_rate(rate: Tensor, limit: Tensor) -> Tensor:
    """(B,) int64, the column of the highest rate at or below each row's limit; the smallest such column at ties."""
    too_many = torch.arange(rate.shape[1]) > limit[:, None]
    return rate.masked_fill(too_many, -torch.inf).argmax(1)


@dataclass(frozen=True)
class RankedDrafts:
    """The next drafts a one-pass round could ask for, over all outcomes of its test, the most useful first.

    Attributes:
        use: (B, R) float64, the probability that the draft's outcome happens and the draft is kept.
        chance: (B, R) float64, the probability that its outcome happens.
        place: (B, R) int64, the flat number ``outcome * most + lag - 1`` of the draft at each rank.
        count: (B,) int64, how many of the R exist.
        num_outcomes: W, so that R is W times the most drafts of an outcome.
    """

    use: Tensor
    chance: Tensor
    place: Tensor
    count: Tensor
    num_outcomes: int

    @classmethod
    def of(cls, survival: Tensor, num_drafts: Tensor, limit: Tensor, most: int) -> RankedDrafts:
        """Rank them.

        Args:
            survival: (B, max(W - 1, most) + 1), see ``DraftLengthPolicy.survival``.
            num_drafts: (B,) int64, drafts in hand.
            limit: (B, W) int64, how many next drafts each outcome ("so many of those in hand are kept") could have.
            most: the largest number an outcome could have.
        """
        outcome, lag = torch.arange(limit.shape[1]), torch.arange(1, most + 1)
        is_rejection = outcome < num_drafts[:, None]
        one_more = torch.nn.functional.pad(survival[:, 1:], (0, 1))
        happens = (survival - one_more)[:, : len(outcome)].where(is_rejection, survival[:, : len(outcome)])
        use = happens[:, :, None] * survival[:, None, 1 : most + 1]
        possible = (lag <= limit[:, :, None]).flatten(1)
        # Within an outcome a later draft is never of more use than an earlier one, and the sort is stable: whatever is
        # cut off, each outcome keeps its first drafts.
        ranked, place = use.flatten(1).masked_fill(~possible, -1.0).sort(dim=1, descending=True, stable=True)
        chance = happens[:, :, None].expand_as(use).flatten(1).gather(1, place)
        return cls(ranked.clamp(min=0), chance, place, possible.sum(1), len(outcome))

    def first(self, counts: Tensor) -> Tensor:
        """(B, W) int64, how many next drafts each outcome has if the ``counts`` (B,) most useful are asked for."""
        chosen = torch.arange(self.use.shape[1]) < counts[:, None]
        asked = torch.zeros_like(chosen).scatter(1, self.place, chosen)
        return asked.view(len(chosen), self.num_outcomes, -1).sum(2)
