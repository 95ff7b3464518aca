"""End to end with real random numbers: 40,000 texts are distributed as the joint says.

The enumeration elsewhere is exact but replaces the source of randomness; here the seeds, generators and the inversion
of the cumulative distribution are the real ones. Pearson's chi-square against the enumerated joint, cells pooled to an
expected count of at least 10. The seeds are fixed, so a test passes or fails for good; over the choice of seeds, a
correct implementation would fail any one of these tests with probability 1e-4 (the false-alarm rate).
"""

from __future__ import annotations

import pytest
import torch
from joint import exact_joint, ragged_cases
from methods import SAMPLINGS, options
from scipy.stats import chi2
from table_model import TableModel
from torch import Tensor

from anyorder.uniforms import Uniforms

NUM_TEXTS = 40_000
FALSE_ALARM = 1e-4
MODEL = TableModel(3, seed=6)


def p_value(counts: Tensor, expected: Tensor) -> float:
    """Of Pearson's statistic, the cells of smallest expectation pooled until each pool expects at least 10."""
    if bool(counts[expected == 0].any()):
        return 0.0
    pools = [[0.0, 0.0]]
    for cell in expected.argsort(descending=True).tolist():
        if pools[-1][1] >= 10:
            pools.append([0.0, 0.0])
        pools[-1][0] += float(counts[cell])
        pools[-1][1] += float(expected[cell])
    if pools[-1][1] < 10:  # what is left over joins the pool before it
        leftover = pools.pop()
        pools[-1] = [kept + more for kept, more in zip(pools[-1], leftover, strict=True)]
    statistic = sum((seen - wanted) ** 2 / wanted for seen, wanted in pools)
    return float(chi2.sf(statistic, len(pools) - 1))


@pytest.mark.parametrize(
    ("method", "sampling"),
    [
        ("sequential", "plain"),
        ("assd K=3", "plain"),
        ("assd ngram K=2", "top-p"),
        ("one-pass K=3, 5 rows", "all three"),
        ("one-pass adaptive", "temperature"),
    ],
)
def test_forty_thousand_texts_follow_the_joint(method: str, sampling: str) -> None:
    cases = ragged_cases(3, (4,), scrambled=True)
    rows = torch.zeros(NUM_TEXTS, dtype=torch.long)
    generation = cases.run(rows, Uniforms(range(NUM_TEXTS)), MODEL, options(method, sampling))
    counts = torch.bincount(cases.outcome(rows, generation.tokens), minlength=81)
    expected = exact_joint(MODEL, cases, SAMPLINGS[sampling])[0] * NUM_TEXTS
    assert p_value(counts, expected) > FALSE_ALARM


def test_the_chi_square_notices_a_distribution_that_is_five_percent_off() -> None:
    cases = ragged_cases(3, (4,), scrambled=True)
    joint = exact_joint(MODEL, cases, SAMPLINGS["plain"])[0]
    tilted = joint * torch.where(torch.arange(81) % 2 == 0, 1.05, 1 / 1.05)
    drawn = torch.multinomial(tilted, NUM_TEXTS, replacement=True, generator=torch.Generator().manual_seed(0))
    assert p_value(torch.bincount(drawn, minlength=81), joint * NUM_TEXTS) < FALSE_ALARM
    honest = torch.multinomial(joint, NUM_TEXTS, replacement=True, generator=torch.Generator().manual_seed(0))
    assert p_value(torch.bincount(honest, minlength=81), joint * NUM_TEXTS) > FALSE_ALARM
