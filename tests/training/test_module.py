"""A step's gradient is that of the mean over all targets of all its micro-batches, however unequal these are."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from anyorder.forbidden import Forbidden
from anyorder.model.config import XLNetConfig
from anyorder.model.xlnet import XLNet
from anyorder.order import Order
from anyorder.visibility import Rows
from training.clock import Clock
from training.config import FitConfig
from training.module import FitModule, Prepared, _counts
from training.objective import loss_sums


def test_unequal_micro_batches_give_the_gradient_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    config = FitConfig()
    shape = XLNetConfig(vocab_size=11, d_model=16, n_layer=1, n_head=2, d_inner=32, dropout=0.0, initializer_range=0.5)
    network = XLNet(shape).initialise(torch.Generator().manual_seed(0)).double()
    forbidden = Forbidden.of(11)
    module = FitModule(network, forbidden, config, Clock(config.run))
    monkeypatch.setattr(FitModule, "trainer", SimpleNamespace(world_size=1))
    monkeypatch.setattr(FitModule, "manual_backward", lambda _, loss: loss.backward())
    tokens = torch.randint(11, (2, 9), generator=torch.Generator().manual_seed(1))
    order = Order.from_targets(torch.tensor([[0] * 7 + [1] * 2, [0] + [1] * 8]).bool())
    drafts = Rows(torch.tensor([[8, 9, 9], [3, 5, 8]]), torch.tensor([[7, 7, 7], [1, 2, 4]]))  # 9: takes no part
    parts = [
        Prepared(tokens[[row]], order.select(torch.tensor([row])), Rows(*(rows[[row]] for rows in drafts)), (0, {}))
        for row in range(2)
    ]
    totals = torch.stack([_counts(part) for part in parts]).sum(0).tolist()
    assert totals == [10, 4, 18]
    shown = sum(module._backward(part, totals) for part in parts)
    gradients = {name: parameter.grad.clone() for name, parameter in network.named_parameters()}  # type: ignore[union-attr]
    network.zero_grad()
    whole = loss_sums(network, tokens, order, forbidden=forbidden, drafts=drafts).mean()
    (whole.verify + config.objective.draft_loss_weight * whole.draft).backward()
    for name, parameter in network.named_parameters():
        assert torch.allclose(gradients[name], parameter.grad, atol=1e-12), name  # type: ignore[arg-type]
    assert torch.allclose(shown, torch.stack([whole.verify, whole.draft]))  # type: ignore[arg-type]
