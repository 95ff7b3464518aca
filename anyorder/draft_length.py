"""How many drafts to make: as many as a pass can test for less than the tokens they are expected to save are worth.

A pass over more rows costs more and decides more. What it costs comes from a table stored for the kind of device; what
it decides comes from the model's stored acceptance, moved up or down by how this sequence's own drafts fared. Both are
known before a draft is drawn, so the choice never biases a result, and neither a clock nor a neighbour in the batch
enters, so that the same seed gives the same text everywhere. A length of zero is always among the choices: speculation
that does not pay is not done. How a sequence fared is rounded to a few levels, and what is best at a level is worked
out once, so that a round only looks it up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

from anyorder.arrays import Floats, Ints
from anyorder.next_drafts import cheapest, likeliest

LEVELS_PER_LOGIT = 4
"""How finely a sequence's own acceptance is told apart."""
_TOP_LEVEL = 16
MOST_AHEAD = 16
"""The most drafts a one-pass round holds unless told how many: finding what pays is work of the fifth power of it.

Where nine drafts in ten are kept and rows cost next to nothing, 24 would make a token 0.3% cheaper."""
TIE = 1e-9
"""What a row costs at least, so that of equally good choices the one with fewer rows is taken."""


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
        if any(late <= early for early, late in pairwise(self.rows)):
            raise ValueError(f"rows must increase; got {self.rows}")
        if not all(0 < early <= late < np.inf for early, late in pairwise(self.costs)):
            raise ValueError(f"costs must be positive, finite and must not fall with more rows; got {self.costs}")

    def __call__(self, rows: Ints) -> Floats:
        """The cost of passes with these numbers of rows, in the same shape.

        The last segment extends outwards; fewer rows than the first cost what it does.
        """
        knots, costs = np.array(self.rows), np.array(self.costs)
        slopes = np.diff(costs) / np.diff(knots)
        segment = (np.searchsorted(knots, rows, side="right") - 1).clip(0, len(slopes) - 1)
        return costs[segment] + slopes[segment] * (np.maximum(rows, knots[0]) - knots[segment])  # type: ignore[no-any-return]


CPU_COSTS = PassCosts(rows=(1, 2, 8, 32, 64), costs=(1.0, 1.05, 1.4, 2.7, 4.6))
"""Packed float32 linear layers of the XLNet-base shape on two threads, a pass of one row being the unit."""


@dataclass(frozen=True)
class History:
    """How the drafts of each sequence fared so far.

    Attributes:
        tested: (B,) drafts whose test was reached.
        accepted: (B,) those of them that were kept.
        expected: (B,) float64, how many of them the policy's stored acceptance expected to be kept.
    """

    tested: Ints
    accepted: Ints
    expected: Floats

    @classmethod
    def empty(cls, batch: int) -> History:
        """Nothing drafted yet."""
        return cls(np.zeros(batch, np.int64), np.zeros(batch, np.int64), np.zeros(batch))

    def select(self, rows: Ints) -> History:
        """The history of some rows of the batch, ``rows`` being (A,) row numbers."""
        return History(self.tested[rows], self.accepted[rows], self.expected[rows])


@dataclass(frozen=True, kw_only=True)
class DraftLengthPolicy:
    """Chooses draft lengths from stored costs and a sequence's own history.

    Attributes:
        costs: what a one-pass round costs on this kind of device, by the rows of its pass.
        two_pass_costs: what a round of ASSD costs, in the same unit, by the rows of its two passes together; two
            passes of ``costs`` when omitted.
        acceptance: the expected probability that a draft of lag 1, 2, ... is kept, given those before it were. Its
            length is the largest number of drafts ever tested in a round; one-pass rounds hold 16 at most.
        prior_weight: how many tests of a sequence's own outweigh the expectation.
    """

    costs: PassCosts = CPU_COSTS
    two_pass_costs: PassCosts | None = None
    acceptance: tuple[float, ...] = (0.45, 0.4, 0.35, 0.35, 0.3, 0.3)
    prior_weight: float = 8.0

    def __post_init__(self) -> None:
        if (
            not isinstance(self.acceptance, tuple)
            or not self.acceptance
            or not all(0 <= rate <= 1 for rate in self.acceptance)
        ):
            raise ValueError(f"acceptance must be a tuple of one or more probabilities, by lag; got {self.acceptance}")
        if not 0 < self.prior_weight < np.inf:
            raise ValueError(f"prior_weight must be positive and finite; got {self.prior_weight}")

    @property
    def max_lag(self) -> int:
        """M, the largest number of drafts tested in a round."""
        return len(self.acceptance)

    def after(self, history: History, num_tested: Ints, num_accepted: Ints) -> History:
        """The history with one more round: (B,) drafts submitted to the test and (B,) how many of them were kept."""
        reached = np.minimum(num_tested, num_accepted + 1)
        # Longer lags are expected to be kept as often as the longest known.
        beyond = np.maximum(reached - self.max_lag, 0) * self.acceptance[-1]
        return History(
            history.tested + reached,
            history.accepted + num_accepted,
            history.expected + self._expected_of_first[np.minimum(reached, self.max_lag)] + beyond,
        )

    @cached_property
    def _expected_of_first(self) -> Floats:
        """(M + 1,) how many of the first 0, 1, ... tested drafts the stored acceptance expects to be kept."""
        return np.cumsum((0.0, *self.acceptance))

    def levels(self, history: History) -> list[int]:
        """How each of the (B,) sequences drafts compared with the stored acceptance: 0 is like it, higher is better."""
        usual, weight = history.expected / np.maximum(history.tested, 1), self.prior_weight
        own = (weight * usual + history.accepted) / (weight + history.tested)
        shift = (_logit(own) - _logit(usual)) * LEVELS_PER_LOGIT
        return shift.round().clip(-_TOP_LEVEL, _TOP_LEVEL).astype(int).tolist()  # type: ignore[no-any-return]

    def survival(self, level: int, max_drafts: int | None = None) -> Floats:
        """How probable it is that at least 0, 1, 2, ... tested drafts in a row are kept.

        Args:
            level: see ``levels``.
            max_drafts: the last entry wanted, ``max_lag`` when omitted; longer lags are kept as often as the longest
                known.

        Returns:
            (max_drafts + 1,), 1 in the first place.
        """
        usual = np.array(self.acceptance, float)
        rate = 1 / (1 + np.exp(-_logit(usual) - level / LEVELS_PER_LOGIT)) if level else usual
        lag = np.arange(self.max_lag if max_drafts is None else max_drafts).clip(max=self.max_lag - 1)
        return np.cumprod(np.append(1.0, rate[lag]))

    def two_pass_length(self, level: int, remaining: int) -> int:
        """K of a round of ASSD, which drafts in one pass and tests in another; 1 is one exact token.

        Args:
            level: see ``levels``.
            remaining: steps left to decide.
        """
        lengths = _two_pass_lengths(self, level)
        return lengths[min(remaining, len(lengths) - 1)]

    def external_length(self, level: int, remaining: int) -> int:
        """How many drafts to take from a drafter that costs no pass; 0 is one exact token."""
        lengths = _external_lengths(self, level)
        return lengths[min(remaining, len(lengths) - 1)]

    def next_drafts(
        self, level: int, held: int, *, constant: int | None = None, max_rows: int | None = None
    ) -> tuple[int, ...]:
        """How many next drafts a one-pass round asks for in each outcome of its test.

        Args:
            level: see ``levels``.
            held: drafts in hand, no more than a round asks for.
            constant: ask for as many in each outcome, if ``max_rows`` lets it; else for what pays.
            max_rows: if given, no more rows than this that test or ask; rows that test are never left out.

        Returns:
            ``held + 1`` numbers, entry ``a`` for the outcome that a drafts are kept.
        """
        if constant is None:
            return _cheapest_drafts(self, level, max_rows)[held]
        if max_rows is None:
            return (constant,) * (held + 1)
        return _likeliest_drafts(self, level, held, constant, max_rows)


def _logit(probability: Floats) -> Floats:
    """Log-odds, finite at 0 and 1 too."""
    inside = probability.clip(1e-6, 1 - 1e-6)
    return np.log(inside / (1 - inside))  # type: ignore[no-any-return]


def _best_up_to(rate: Floats) -> tuple[int, ...]:
    """For every index the index of the highest rate up to there, the smallest at ties."""
    return tuple(int(rate[: index + 1].argmax()) for index in range(len(rate)))


@lru_cache(maxsize=1024)
def _two_pass_lengths(policy: DraftLengthPolicy, level: int) -> tuple[int, ...]:
    """K by the steps left to decide, from 0 to the most that matters."""
    survival = policy.survival(level)
    tests = np.arange(len(survival))
    # K drafts: the first is exact, K - 1 are tested, and a rejection is followed by a correction.
    decided = survival.cumsum() + 1 - survival
    if policy.two_pass_costs is None:
        cost = policy.costs(tests + 2) + np.where(tests > 0, policy.costs(2 * tests), 0)
    else:
        cost = policy.two_pass_costs(3 * tests + 2)
    return (0, *(1 + tested for tested in _best_up_to(decided / cost)))


@lru_cache(maxsize=1024)
def _external_lengths(policy: DraftLengthPolicy, level: int) -> tuple[int, ...]:
    """Drafts by the steps left to decide."""
    survival = policy.survival(level)
    return _best_up_to(survival.cumsum() / policy.costs(2 * np.arange(len(survival)) + 2))


@lru_cache(maxsize=1024)
def _cheapest_drafts(policy: DraftLengthPolicy, level: int, max_rows: int | None) -> tuple[tuple[int, ...], ...]:
    """Next drafts by drafts in hand and outcome."""
    most = min(policy.max_lag, MOST_AHEAD)
    held, extra = np.arange(most + 1)[:, None], np.arange(most * (most + 1) + 1)
    charge = policy.costs(2 * held + 2 + extra) + TIE * extra
    if max_rows is not None:
        charge[(extra > 0) & (held + 1 + extra > max_rows)] = np.inf
    lengths = cheapest(policy.survival(level, most), charge).tolist()
    return tuple(tuple(row[: number + 1]) for number, row in enumerate(lengths))


@lru_cache(maxsize=1024)
def _likeliest_drafts(policy: DraftLengthPolicy, level: int, held: int, most: int, max_rows: int) -> tuple[int, ...]:
    survival = policy.survival(level, max(held, most))
    return tuple(likeliest(survival, held, most, max(max_rows - held - 1, 0)))
