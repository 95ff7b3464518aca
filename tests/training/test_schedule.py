"""Masking rates and learning rates go as they are said to; rates are stratified over micro-batch, ranks and steps."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.config import ObjectiveConfig, OptimizerConfig
from training.schedule import STRATA, learning_rate_share, masking_range, quantiles


def test_masking_rates_start_at_one_value_and_widen_linearly_to_their_range() -> None:
    config = ObjectiveConfig(mask_start=0.15, mask_min=0.85, mask_max=0.99, masking_warmup_steps=1000)
    assert masking_range(0, False, config) == (0.15, 0.15)
    assert masking_range(500, False, config) == pytest.approx((0.5, 0.57))
    assert masking_range(1000, False, config) == masking_range(9999, False, config) == pytest.approx((0.85, 0.99))
    assert masking_range(1000, True, config) == pytest.approx((config.span_mask_min, config.span_mask_max))
    assert masking_range(0, False, ObjectiveConfig()) == (0.05, 1.0)  # no warm-up


@given(st.integers(0, 50), st.sampled_from([1, 2, 3, 8]), st.sampled_from([1, 4, 6]), st.integers(0, 99))
def test_each_equal_part_of_the_range_holds_one_row_of_a_steps_micro_batches(
    step: int, batches: int, rows: int, seed: int
) -> None:
    group = [u for m in range(batches) for u in quantiles(step * batches + m, batches, rows, seed)]
    assert sorted(int(u * batches * rows) for u in group) == list(range(batches * rows))
    for m in range(batches):  # and each micro-batch is stratified by itself
        own = quantiles(step * batches + m, batches, rows, seed)
        assert sorted(int(u * rows) for u in own) == list(range(rows))


def test_a_single_micro_batch_a_step_is_stratified_over_steps_and_not_predictable() -> None:
    first = [quantiles(number, STRATA, 1, 0)[0] for number in range(STRATA)]
    second = [quantiles(number, STRATA, 1, 0)[0] for number in range(STRATA, 2 * STRATA)]
    assert sorted(int(u * STRATA) for u in first) == sorted(int(u * STRATA) for u in second) == list(range(STRATA))
    assert [int(u * STRATA) for u in first] != [int(u * STRATA) for u in second]


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant"])
def test_the_learning_rate_warms_up_peaks_and_ends_where_told(schedule: str) -> None:
    config = OptimizerConfig(schedule=schedule, warmup_steps=10, final_share=0.1)  # type: ignore[arg-type]
    course = [learning_rate_share(step / 1000, step, config) for step in range(1001)]
    assert course[0] == pytest.approx(0.1, abs=1e-3)
    assert course[4] == pytest.approx(0.5, abs=3e-3)
    assert max(course) == pytest.approx(1.0, abs=0.01)
    assert course[-1] == pytest.approx(1.0 if schedule == "constant" else 0.1)
    assert all(a >= b - 1e-12 for a, b in pairwise(course[10:]))


def test_a_short_run_warms_up_in_a_twentieth_of_it() -> None:
    config = OptimizerConfig(schedule="constant", warmup_steps=250)
    assert learning_rate_share(0.05, 5, config) == 1.0
    assert learning_rate_share(0.025, 2, config) == pytest.approx(0.5)
