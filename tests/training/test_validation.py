"""Held-out figures are the density's and the acceptance rule's own, and do not disturb a run."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from anyorder.codec import SentencePieceCodec
from anyorder.forbidden import Forbidden
from anyorder.likelihood import joint_log_prob
from anyorder.model.config import XLNetConfig
from anyorder.model.xlnet import XLNet
from anyorder.order import Order
from anyorder.visibility import Rows, content_rows
from training.config import ObjectiveConfig
from training.validation import RATES, evaluate, held_out_set, measure

CONFIG = ObjectiveConfig(spread_share=0.0, random_share=0.0, draft_loss_weight=1.0, max_lag=3, draft_share=1.0)


@pytest.fixture(scope="module")
def network(codec: SentencePieceCodec) -> XLNet:
    config = XLNetConfig(
        vocab_size=codec.vocab_size,
        d_model=16,
        n_layer=1,
        n_head=2,
        d_inner=32,
        dropout=0.0,
        initializer_range=0.5,
    )
    return XLNet(config).initialise(torch.Generator().manual_seed(0)).eval()


@pytest.fixture(scope="module")
def forbidden(codec: SentencePieceCodec) -> Forbidden:
    return Forbidden.of(codec.vocab_size, ids=codec.forbidden_ids)


@pytest.fixture(scope="module")
def sets(codec: SentencePieceCodec, passages: list[str]):  # type: ignore[no-untyped-def]
    return held_out_set(codec, passages, 2.2, 3, length=32)


def test_density_is_the_librarys(network: XLNet, forbidden: Forbidden, sets) -> None:  # type: ignore[no-untyped-def]
    for batches in sets.values():
        parts = [joint_log_prob(network, o.to_steps(t), o, forbidden=forbidden).detach() for t, o in batches]
        scores = measure(network, batches, forbidden, CONFIG)
        assert float(scores.verify) == pytest.approx(-float(torch.cat(parts).sum()), rel=1e-5)
        assert int(scores.num_targets) == sum(int(order.num_targets.sum()) for _, order in batches)


def test_kept_drafts_are_the_overlap_of_p_and_q(network: XLNet, forbidden: Forbidden, sets) -> None:  # type: ignore[no-untyped-def]
    """At lag 1, row by row: what the model says with and without the step before."""
    ((tokens, order),) = sets["0.5"]
    kept = count = 0.0
    for row in range(len(tokens)):
        one = order.select(torch.tensor([row]))
        for step in range(int(one.num_prompt) + 1, int(one.length)):
            p, q = (
                _probabilities(network, forbidden, one.to_steps(tokens[[row]]), one, step, seen)
                for seen in (step, step - 1)
            )
            kept, count = kept + float(torch.minimum(p, q).sum()), count + 1
    scores = measure(network, [(tokens, order)], forbidden, replace(CONFIG, max_lag=1))
    assert int(scores.num_drafts[1]) == count > 20
    assert float(scores.overlap[1]) == pytest.approx(kept, rel=1e-4)
    assert kept < 0.999 * count


def _probabilities(
    network: XLNet, forbidden: Forbidden, by_step: torch.Tensor, order: Order, step: int, seen: int
) -> torch.Tensor:
    encode = content_rows(order, torch.arange(max(seen, int(order.num_prompt)))[None])
    query = Rows(torch.tensor([[step]]), torch.tensor([[seen]]))
    logits = network(by_step, order.sigma, None, encode=encode, query=query)[0, 0]
    return logits.masked_fill(forbidden.ids, -torch.inf).softmax(-1)


def test_figures_by_lag_add_up_to_the_mixed_ones(network: XLNet, forbidden: Forbidden, sets) -> None:  # type: ignore[no-untyped-def]
    scores = measure(network, sets["0.95"], forbidden, CONFIG)
    assert scores.num_drafts[0] == 0
    assert (scores.num_drafts[1:] > 0).all()
    figures = scores.figures("0.95")
    assert figures["draft@0.95"] == pytest.approx(float(scores.draft.sum() / scores.num_drafts.sum()))
    assert figures["kept2@0.95"] == pytest.approx(float(scores.overlap[2] / scores.num_drafts[2]))


def test_the_density_by_which_the_best_is_chosen_is_the_mean_over_rates_and_spans(
    network: XLNet,
    forbidden: Forbidden,
    sets,  # type: ignore[no-untyped-def]
) -> None:
    figures, kept = evaluate(network, sets, forbidden)
    names = [*map(str, RATES), "span"]
    assert figures["density"] == pytest.approx(sum(figures[f"nats@{name}"] for name in names) / 4)
    assert len(kept) == 7
    assert all(0 < share <= 1 for share in kept)
    assert evaluate(network, sets, forbidden) == (figures, kept)  # the same windows, blanks and lags every time
