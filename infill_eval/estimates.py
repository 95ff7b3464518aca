"""Estimates with their uncertainty: means over items, unbiased pass@k, paired comparisons.

An item is the unit that was drawn (a problem, a story, a chunk); samples of one item are averaged first, so that
standard errors speak about new items, not about new samples of the same ones. Everything random is seeded. Sources:
Chen et al. 2021 (pass@k); Holm 1979; Efron & Tibshirani 1993 (paired bootstrap).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_RESAMPLES = 20_000
_CHUNK = 1_000


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean over items and its standard error (not a number for fewer than two items)."""

    mean: float
    se: float
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """The estimate from one value an item; values that are not numbers count as missing items."""
        known = np.asarray([value for value in values if not math.isnan(value)], dtype=float)
        if len(known) == 0:
            return cls(mean=math.nan, se=math.nan, n=0)
        se = float(known.std(ddof=1) / math.sqrt(len(known))) if len(known) > 1 else math.nan
        return cls(mean=float(known.mean()), se=se, n=len(known))

    def __str__(self) -> str:
        if self.n == 0:
            return "–"
        digits = 2 if abs(self.mean) >= 10 else 4
        return f"{self.mean:.{digits}f}" if math.isnan(self.se) else f"{self.mean:.{digits}f} ± {self.se:.{digits}f}"


def pass_at_k(n: int, correct: int, k: int) -> float:
    """The chance that at least one of ``k`` samples passes, estimated without bias from ``correct`` of ``n``.

    1 - C(n - c, k) / C(n, k), as a product so that no binomial overflows (Chen et al. 2021, figure 3).

    Raises:
        ValueError: unless ``1 <= k <= n`` and ``0 <= correct <= n``.
    """
    if not 1 <= k <= n or not 0 <= correct <= n:
        raise ValueError(f"pass@k needs 1 <= k <= n and 0 <= correct <= n; got k={k}, n={n}, correct={correct}")
    return 1.0 - math.prod((n - correct - i) / (n - i) for i in range(k)) if n - correct >= k else 1.0


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two systems on the same items.

    Attributes:
        difference: mean of (this - baseline) over the common items.
        low: lower end of the interval.
        high: upper end of the interval.
        p_value: two-sided, that a difference this large arises if the labels were exchangeable within items.
        n: common items.
    """

    difference: float
    low: float
    high: float
    p_value: float
    n: int


def compare(
    values: Sequence[float],
    baseline: Sequence[float],
    *,
    level: float = 0.95,
    resamples: int = _RESAMPLES,
    seed: int = 0,
) -> Comparison:
    """A paired comparison: a bootstrap percentile interval over items and a sign-flip test.

    Args:
        values: one value an item.
        baseline: the other system's values on the same items, in the same order.
        level: coverage of the interval.
        resamples: draws of the bootstrap and of the test; the smallest possible p-value is about 1 / resamples.
        seed: of both.

    Raises:
        ValueError: if the two have not the same items.
    """
    if len(values) != len(baseline) or not values:
        raise ValueError(f"a paired comparison needs the same items: {len(values)} against {len(baseline)}")
    differences = np.asarray(values, dtype=float) - np.asarray(baseline, dtype=float)
    generator = np.random.default_rng(seed)
    means = _resampled_means(differences, resamples, generator)
    tail = (1 - level) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Comparison(
        difference=float(differences.mean()),
        low=float(low),
        high=float(high),
        p_value=_sign_flip(differences, resamples, generator),
        n=len(differences),
    )


def _resampled_means(
    differences: NDArray[np.float64], resamples: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    n = len(differences)
    parts = [
        differences[generator.integers(0, n, (min(_CHUNK, resamples - start), n))].mean(1)
        for start in range(0, resamples, _CHUNK)
    ]
    return np.concatenate(parts)


def _sign_flip(differences: NDArray[np.float64], resamples: int, generator: np.random.Generator) -> float:
    """Under exchangeability the sign of each item's difference is a coin; how often is the mean as far from zero?"""
    observed = abs(differences.sum()) * (1 - 1e-12)
    extreme = 0
    for start in range(0, resamples, _CHUNK):
        signs = generator.integers(0, 2, (min(_CHUNK, resamples - start), len(differences))) * 2 - 1
        extreme += int((np.abs(signs @ differences) >= observed).sum())
    return (extreme + 1) / (resamples + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the given order; rejecting those below alpha bounds the family-wise error by it."""
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def not_worse(
    values: Sequence[float], baseline: Sequence[float], *, margin: float, alpha: float, seed: int = 0
) -> tuple[bool, float]:
    """Whether values (lower is better) exceed the baseline by less than ``margin``, and the bound that decides it.

    The bound is the upper end of a one-sided paired bootstrap interval at level ``1 - alpha``.

    Raises:
        ValueError: if the margin is not positive.
    """
    if margin <= 0:
        raise ValueError(f"a non-inferiority margin must be positive, got {margin}")
    resamples = max(_RESAMPLES, math.ceil(20 / alpha))
    bound = compare(values, baseline, level=1 - 2 * alpha, resamples=resamples, seed=seed).high
    return bound < margin, bound
