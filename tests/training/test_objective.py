"""The training loss is the density that the library reports, and its draft rows see what drafting will see."""

from __future__ import annotations

import pytest
import torch

from anyorder.forbidden import Forbidden
from anyorder.likelihood import joint_log_prob
from anyorder.model.config import XLNetConfig
from anyorder.model.xlnet import XLNet
from anyorder.order import Order
from anyorder.visibility import Rows, content_rows
from training.config import ObjectiveConfig
from training.objective import loss_sums
from training.orders import draw_drafts, draw_order

VOCABULARY, FORBIDDEN = 11, Forbidden.of(11, ids=(0, 2))
KEYS = [(0, 0), (0, 1), (0, 2)]


@pytest.fixture
def model() -> XLNet:
    config = XLNetConfig(
        vocab_size=VOCABULARY, d_model=16, n_layer=2, n_head=2, d_inner=32, dropout=0.0, initializer_range=0.5
    )
    return XLNet(config).initialise(torch.Generator().manual_seed(0)).double()


def batch() -> tuple[torch.Tensor, Order]:
    """Three ragged rows with 1, 4 and 9 targets; padding is a forbidden id."""
    lengths = torch.tensor([5, 9, 10])
    is_target = torch.tensor([[0, 0, 0, 1, 0, 0, 0, 0, 0, 0], [1, 0, 1, 1, 0, 0, 1, 0, 0, 0], [0, *[1] * 9]]).bool()
    tokens = torch.randint(3, VOCABULARY, (3, 10), generator=torch.Generator().manual_seed(1))
    tokens = tokens.masked_fill(torch.arange(10) >= lengths[:, None], 0)
    return tokens, Order.from_targets(is_target, lengths)


def test_the_loss_is_the_mean_of_the_density_over_all_targets(model: XLNet) -> None:
    tokens, order = batch()
    density = joint_log_prob(model, order.to_steps(tokens), order, forbidden=FORBIDDEN)
    loss = loss_sums(model, tokens, order, forbidden=FORBIDDEN).mean()
    assert loss.verify.item() == pytest.approx(-density.sum().item() / 14, abs=1e-12)


def test_a_draft_row_at_lag_1_does_not_see_the_step_before_its_own(model: XLNet) -> None:
    tokens, order = batch()
    by_step = order.to_steps(tokens)
    terms = []
    for row in range(3):
        start, stop = int(order.num_prompt[row]), int(order.length[row])
        for step in range(start + 1, stop):  # the first target's draft row would be its verify row
            seen = torch.tensor([[step - 1]])  # lag 1
            one = order.select(torch.tensor([row]))
            logits = model(
                by_step[row : row + 1],
                one.sigma,
                None,
                encode=content_rows(one, torch.arange(stop)[None]),
                query=Rows(torch.tensor([[step]]), seen),
            )[0, 0]
            allowed = logits.masked_fill(FORBIDDEN.ids, -torch.inf)
            terms.append(-allowed.log_softmax(-1)[by_step[row, step]])
    drafts = draw_drafts(order, KEYS, ObjectiveConfig(draft_share=1.0, max_lag=1), 0)
    loss = loss_sums(model, tokens, order, forbidden=FORBIDDEN, drafts=drafts).mean()
    assert len(terms) == 11
    assert loss.draft.item() == pytest.approx(torch.stack(terms).mean().item(), abs=1e-12)


def test_a_batch_without_draft_rows_has_a_zero_draft_loss_and_finite_gradients(model: XLNet) -> None:
    tokens, order = batch()
    only = order.select(torch.tensor([0]))  # one target: its draft row would be its verify row
    drafts = draw_drafts(only, KEYS[:1], ObjectiveConfig(draft_share=1.0), 0)
    loss = loss_sums(model, tokens[:1], only, forbidden=FORBIDDEN, drafts=drafts).mean()
    (loss.verify + 0.5 * loss.draft).backward()
    assert loss.draft.item() == 0
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert gradients
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)


def test_means_over_micro_batches_come_from_their_sums(model: XLNet) -> None:
    tokens, order = batch()
    whole = loss_sums(model, tokens, order, forbidden=FORBIDDEN)
    parts = [
        loss_sums(model, tokens[rows], order.select(rows), forbidden=FORBIDDEN) for rows in torch.arange(3).split(1)
    ]
    assert whole.num_verify == sum(int(part.num_verify) for part in parts) == 14
    assert whole.verify.item() == pytest.approx(sum(part.verify.item() for part in parts), abs=1e-12)


def test_the_loss_equals_a_loop_over_tokens_whose_rows_are_computed_one_by_one(model: XLNet) -> None:
    """The slowest way to say it: each target alone, the model shown only what it may see."""
    tokens, order = batch()
    config = ObjectiveConfig(spread_share=0.5, random_share=0.5, draft_share=1.0, max_lag=3)
    order = draw_order(order.to_positions(torch.arange(10) >= order.num_prompt[:, None]), order.length, KEYS, config, 0)
    drafts = draw_drafts(order, KEYS, config, 0)
    assert drafts is not None
    by_step = order.to_steps(tokens)

    def cost(row: int, step: int, seen: int) -> float:
        one = order.select(torch.tensor([row]))
        encode = content_rows(one, torch.arange(max(seen, int(one.num_prompt)))[None])
        logits = model(
            by_step[row : row + 1],
            one.sigma,
            None,
            encode=encode,
            query=Rows(torch.tensor([[step]]), torch.tensor([[seen]])),
        )[0, 0]
        return -logits.masked_fill(FORBIDDEN.ids, -torch.inf).log_softmax(-1)[by_step[row, step]].item()

    verify = [
        cost(row, step, step) for row in range(3) for step in range(int(order.num_prompt[row]), int(order.length[row]))
    ]
    draft = [
        cost(row, int(step), int(seen))
        for row in range(3)
        for step, seen in zip(drafts.steps[row], drafts.num_visible[row], strict=True)
        if step < 10
    ]
    sums = loss_sums(model, tokens, order, forbidden=FORBIDDEN, drafts=drafts)
    assert (len(verify), len(draft)) == (int(sums.num_verify), int(sums.num_draft)) == (14, 11)
    mean = sums.mean()
    assert mean.verify.item() == pytest.approx(sum(verify) / 14, abs=1e-12)
    assert mean.draft.item() == pytest.approx(sum(draft) / 11, abs=1e-12)
