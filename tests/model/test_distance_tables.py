"""The stored distance terms always belong to the present weights, length, device and precision."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from networks import all_steps, random_order, random_tokens, small_network
from torch import Tensor

from anyorder.model.linear import can_pack
from anyorder.model.xlnet import XLNet
from anyorder.visibility import content_rows, verify_rows


def logits(network: XLNet, length: int) -> Tensor:
    order = random_order(length, [length], [length // 3])
    steps = all_steps(order)
    with torch.no_grad():
        return network(
            random_tokens(length, order),
            order.sigma,
            None,
            encode=content_rows(order, steps),
            query=verify_rows(steps),
        )


def test_a_short_call_after_a_long_one_equals_a_fresh_model() -> None:
    used, fresh = small_network(), small_network()
    logits(used, 50)
    torch.testing.assert_close(logits(used, 20), logits(fresh, 20), atol=1e-5, rtol=0)
    logits(used, 20)
    torch.testing.assert_close(logits(used, 50), logits(small_network(), 50), atol=1e-5, rtol=0)


def test_tables_for_fewer_steps_are_the_middle_of_those_for_more() -> None:
    network = small_network().requires_grad_(False)
    want = small_network().requires_grad_(False).distance_tables(7)
    network.distance_tables(30)
    for got, table in zip(network.distance_tables(7), want, strict=True):
        assert got.shape == table.shape == (4, 8, 14)
        torch.testing.assert_close(got[..., :13], table[..., :13], atol=1e-6, rtol=0)


def double_in_place(network: XLNet) -> None:
    with torch.no_grad():
        network.layer(1).attention.relative.mul_(2.0)


def optimizer_step(network: XLNet) -> None:
    weight = network.layer(0).attention.relative
    weight.grad = torch.ones_like(weight)
    torch.optim.AdamW(network.parameters(), lr=0.1).step()


def load_other_weights(network: XLNet) -> None:
    network.load_state_dict(small_network(seed=1).state_dict())


def assign_other_weights(network: XLNet) -> None:
    network.load_state_dict(small_network(seed=1).state_dict(), assign=True)


def replace_a_parameter(network: XLNet) -> None:
    attention = network.layer(1).attention
    attention.relative = torch.nn.Parameter(2 * attention.relative.detach())


def round_to_half_precision_and_back(network: XLNet) -> None:
    network.to(torch.bfloat16).to(torch.float32)


def swap_the_data_of_a_parameter(network: XLNet) -> None:
    weight = network.layer(0).attention.relative
    weight.data = weight.data * 2


@pytest.mark.parametrize(
    "change",
    [
        double_in_place,
        optimizer_step,
        load_other_weights,
        assign_other_weights,
        replace_a_parameter,
        round_to_half_precision_and_back,
        swap_the_data_of_a_parameter,
    ],
)
def test_a_changed_weight_is_seen_by_the_next_pass(change: Callable[[XLNet], object]) -> None:
    used, fresh = small_network(), small_network()
    before = logits(used, 12)
    change(used)
    change(fresh)
    want = logits(fresh, 12)
    assert not torch.equal(before, want), "the change must matter"
    torch.testing.assert_close(logits(used, 12), want, atol=1e-5, rtol=0)


def test_a_move_to_another_precision_brings_the_tables_along() -> None:
    used, fresh = small_network(), small_network().double()
    logits(used, 12)
    torch.testing.assert_close(logits(used.double(), 12), logits(fresh, 12), atol=1e-12, rtol=0)


def test_a_move_to_another_device_brings_the_tables_along() -> None:
    network = small_network().requires_grad_(False)
    network.distance_tables(5)
    assert all(table.device.type == "meta" for table in network.to("meta").distance_tables(5))


def test_without_gradients_tables_are_computed_once() -> None:
    network = small_network().requires_grad_(False)
    first = network.distance_tables(9)
    again = network.distance_tables(9)
    assert [table.data_ptr() for table in first] == [table.data_ptr() for table in again]


def test_training_sees_the_tables_of_this_step_and_their_gradient() -> None:
    network = small_network()
    logits(network, 9)
    with torch.enable_grad():
        assert all(table.requires_grad for table in network.distance_tables(9))


@pytest.mark.skipif(not can_pack(torch.empty(1, 1), "packed"), reason="this build cannot pack")
def test_packing_leaves_the_tables_right() -> None:
    used = small_network()
    want = logits(used, 12)
    torch.testing.assert_close(logits(used.pack("packed"), 12), want, atol=1e-5, rtol=0)


def test_tables_made_under_inference_mode_serve_a_later_pass_with_gradients() -> None:
    """Fine-tuning all but the distances after an evaluation: the stored tables enter autograd's graph."""
    network = small_network()
    for depth in range(2):
        network.layer(depth).attention.relative.requires_grad_(False)
    with torch.inference_mode():
        logits(network, 9)
    order = random_order(9, [9], [3])
    steps = all_steps(order)
    out = network(
        random_tokens(9, order), order.sigma, None, encode=content_rows(order, steps), query=verify_rows(steps)
    )
    out.sum().backward()
    assert network.layer(0).attention.query.weight is not None
    assert network.layer(0).attention.query.weight.grad is not None


@pytest.mark.parametrize("frozen", [0, 1])
def test_freezing_one_layer_leaves_the_others_their_gradient(frozen: int) -> None:
    network = small_network()
    network.layer(frozen).requires_grad_(False)
    order = random_order(9, [9], [3])
    steps = all_steps(order)
    out = network(
        random_tokens(9, order), order.sigma, None, encode=content_rows(order, steps), query=verify_rows(steps)
    )
    out.square().sum().backward()
    assert network.layer(frozen).attention.relative.grad is None
    assert network.layer(1 - frozen).attention.relative.grad.abs().max() > 0


def test_a_fused_optimiser_which_leaves_no_version_behind_is_seen_too() -> None:
    used, fresh = small_network(), small_network()
    logits(used, 9)
    for network in (used, fresh):
        order = random_order(9, [9], [3])
        steps = all_steps(order)
        network(
            random_tokens(9, order), order.sigma, None, encode=content_rows(order, steps), query=verify_rows(steps)
        ).square().sum().backward()
        torch.optim.AdamW(network.parameters(), lr=0.1, fused=True).step()
    torch.testing.assert_close(logits(used, 9), logits(fresh, 9), atol=1e-5, rtol=0)


def test_a_thread_that_replaces_the_tables_meanwhile_disturbs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    network = small_network().requires_grad_(False)
    want = [table.clone() for table in small_network().requires_grad_(False).distance_tables(20)]
    network.distance_tables(5)
    shorter = network._tables
    # Whenever they are looked at, somebody else has just put tables for shorter texts there.
    monkeypatch.setattr(XLNet, "_tables", property(lambda _: shorter, lambda *_: None), raising=False)
    for got, table in zip(network.distance_tables(20), want, strict=True):
        torch.testing.assert_close(got[..., :39], table[..., :39], atol=1e-6, rtol=0)
