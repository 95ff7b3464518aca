"""Orders are drawn from what they are for: 2^N of them, keyed by sample, the same for any number of ranks."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anyorder.codec.base import Codec
from training.blanks import Kind, blank_ids, blank_text, draw_spans
from training.config import ObjectiveConfig
from training.orders import draw_drafts, draw_order
from training.stream import collate

ASCENDING = ObjectiveConfig(spread_share=0.0, random_share=0.0)


def targets(seed: int, rows: int = 6, length: int = 9) -> torch.Tensor:
    return torch.rand(rows, length, generator=torch.Generator().manual_seed(seed)) < 0.6


def keys(rows: int) -> list[tuple[int, int]]:
    return [(0, 10 + row) for row in range(rows)]


@given(st.integers(0, 10**6))
def test_prompt_and_targets_are_both_ascending(seed: int) -> None:
    is_target = targets(seed)
    order = draw_order(is_target, torch.full((6,), 9), keys(6), ASCENDING, seed)
    for row in range(6):
        split = int(order.num_prompt[row])
        prompt, rest = order.sigma[row, :split].tolist(), order.sigma[row, split:].tolist()
        assert prompt == sorted(prompt) == [i for i in range(9) if not is_target[row, i]]
        assert rest == sorted(rest)


def test_every_subset_but_the_empty_one_becomes_the_targets() -> None:
    seen = set()
    for seed in range(600):
        draw = random.Random(seed)
        example = blank_ids("scattered", [5, 6, 7, 8], draw.uniform(0.05, 1), draw)
        seen.add(tuple(collate([example], 4, [0]).is_target[0].tolist()))
    assert len(seen) == 2**4 - 1


def test_any_permutation_reaches_orders_that_are_not_ascending_and_the_mixture_has_its_shares() -> None:
    rows = 600
    is_target = torch.ones(rows, 3, dtype=torch.bool)
    free = draw_order(is_target, torch.full((rows,), 3), keys(rows), replace(ASCENDING, any_permutation=True), 0)
    assert len({tuple(row) for row in free.sigma.tolist()}) == 6
    wide = torch.ones(rows, 8, dtype=torch.bool)
    config = ObjectiveConfig(spread_share=0.3, random_share=0.2)
    mixed = draw_order(wide, torch.full((rows,), 8), keys(rows), config, 0).sigma.tolist()
    assert mixed.count(list(range(8))) / rows == pytest.approx(0.5, abs=0.06)
    assert mixed.count([0, 4, 2, 6, 1, 5, 3, 7]) / rows == pytest.approx(0.3, abs=0.06)


def test_a_sequence_has_its_order_and_its_drafts_whichever_batch_it_is_in() -> None:
    config = ObjectiveConfig(spread_share=0.2, random_share=0.6, draft_share=0.5)
    is_target, length = targets(3), torch.full((6,), 9)
    whole = draw_order(is_target, length, keys(6), config, 7)
    drafts = draw_drafts(whole, keys(6), config, 7)
    assert drafts is not None
    for row in range(6):
        alone = draw_order(is_target[[row]], length[:1], keys(6)[row : row + 1], config, 7)
        assert torch.equal(alone.sigma[0], whole.sigma[row])
        own = draw_drafts(alone, keys(6)[row : row + 1], config, 7)
        assert own is not None
        width = own.steps.shape[1]
        assert torch.equal(own.steps[0], drafts.steps[row, :width])
        assert torch.equal(own.num_visible[0], drafts.num_visible[row, :width])
        assert (drafts.steps[row, width:] == 9).all()
    other = draw_order(is_target, length, [(1, sample) for _, sample in keys(6)], config, 7)
    assert not torch.equal(other.sigma, whole.sigma)  # the next epoch is another


@given(st.integers(0, 10**6), st.integers(1, 5), st.sampled_from([0.3, 0.7, 1.0]))
def test_draft_rows_are_distinct_targets_after_the_first_at_lags_within_reach(
    seed: int, max_lag: int, share: float
) -> None:
    config = replace(ASCENDING, max_lag=max_lag, draft_share=share)
    order = draw_order(targets(seed), torch.full((6,), 9), keys(6), config, seed)
    drafts = draw_drafts(order, keys(6), config, seed)
    assert drafts is not None
    for row in range(6):
        taken = drafts.steps[row] < 9
        steps, seen = drafts.steps[row][taken], drafts.num_visible[row][taken]
        num_targets = int(order.num_targets[row])
        assert len(steps) == round(share * max(num_targets - 1, 0))
        assert len(set(steps.tolist())) == len(steps)
        assert (steps > order.num_prompt[row]).all()
        assert (seen >= order.num_prompt[row]).all()
        assert ((steps - seen >= 1) & (steps - seen <= max_lag)).all()


def test_no_weight_no_draft_rows() -> None:
    order = draw_order(targets(0), torch.full((6,), 9), keys(6), ASCENDING, 0)
    assert draw_drafts(order, keys(6), replace(ASCENDING, draft_loss_weight=0.0), 0) is None


@pytest.mark.parametrize("kind", ["scattered", "spans", "suffix"])
def test_blanks_cover_about_their_rate(kind: str, codec: Codec, passages: list[str]) -> None:
    for make in (
        lambda draw, rate: blank_text(kind, codec, passages[draw.randrange(60)][:400], rate, draw),  # type: ignore[arg-type]
        lambda draw, rate: blank_ids(kind, range(100), rate, draw),  # type: ignore[arg-type]
    ):
        for rate in (0.1, 0.5):
            examples = [make(random.Random(seed), rate) for seed in range(150)]
            covered = sum(sum(example.is_target) for example in examples)
            total = sum(len(example.ids) for example in examples)
            assert 0.4 * rate < covered / total < 1.8 * rate


@pytest.mark.parametrize("kind", ["spans", "suffix"])
def test_text_with_blanks_is_encoded_as_infill_encodes_it(kind: Kind, codec: Codec, passages: list[str]) -> None:
    """Every segment and every blank on its own; a blank owns the space before it."""
    for seed in range(50):
        text = passages[seed][:300]
        blanks = draw_spans(text, 0.3, random.Random(seed)) if kind == "spans" else [(210, 300)]
        ids, is_target, done = list[int](), list[bool](), 0
        for start, end in [*blanks, (len(text), len(text))]:
            border = start - (text[done:start].endswith(" ") and start < end)
            segment, blank = codec.encode(text[done:border]), codec.encode(text[border:end])
            ids += [*segment, *blank]
            is_target += [False] * len(segment) + [True] * len(blank)
            done = end
        example = blank_text(kind, codec, text, 0.3, random.Random(seed))
        assert (example.ids, example.is_target) == (ids, is_target)
        assert codec.decode(example.ids) == text
