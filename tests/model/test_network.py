"""What the network is before it is trained, while it is trained, and what is stored about its shape."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import all_steps, random_order, random_tokens, small_network
from torch import Tensor, nn

from anyorder.model.config import ACTIVATIONS, AnyOrderConfig, XLNetConfig
from anyorder.model.contract import AnySubsetModel
from anyorder.model.costs import ACCELERATOR, BASE_CPU, SMALL_CPU, SMALL_WIDTH, stored_costs
from anyorder.model.xlnet import XLNet
from anyorder.visibility import content_rows, verify_rows


def logits(network: XLNet) -> Tensor:
    order = random_order(0, [10], [3])
    steps = all_steps(order)
    return network(
        random_tokens(0, order), order.sigma, None, encode=content_rows(order, steps), query=verify_rows(steps)
    )


def test_the_network_keeps_the_contract_that_decoding_is_written_against() -> None:
    network = small_network()
    assert isinstance(network, AnySubsetModel)
    assert (network.vocab_size, network.device) == (40, torch.device("cpu"))


def test_fresh_weights_follow_hugging_face_s_rule() -> None:
    config = XLNetConfig(vocab_size=400, d_model=64, n_layer=2, n_head=4, d_inner=128, initializer_range=0.05)
    network = XLNet(config).initialise(torch.Generator().manual_seed(0))
    norms = {id(p) for module in network.modules() if isinstance(module, nn.LayerNorm) for p in module.parameters()}
    for name, parameter in network.named_parameters():
        if id(parameter) in norms:
            assert torch.equal(parameter, torch.full_like(parameter, float(name.endswith("weight"))))
        elif parameter.dim() > 1 or name == "mask_embedding":
            assert parameter.std().item() == pytest.approx(0.05, rel=5 / (2 * parameter.numel()) ** 0.5), name
        else:
            assert not parameter.any(), name
    again = XLNet(config).initialise(torch.Generator().manual_seed(0))
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), again.parameters(), strict=True))


def test_a_tied_head_is_the_embedding_and_an_untied_one_is_not() -> None:
    tied, untied = small_network(), small_network(tie_word_embeddings=False)
    assert tied.head.weight is tied.embedding
    assert untied.head.weight is not untied.embedding


def test_dropout_acts_in_training_alone() -> None:
    network = small_network(dropout=0.3)
    assert torch.equal(logits(network), logits(network))
    assert torch.equal(logits(network), logits(small_network(dropout=0.0)))
    network.train()
    assert not torch.equal(logits(network), logits(network))
    assert torch.isfinite(logits(network)).all()
    assert torch.equal(logits(small_network().train()), logits(small_network()))


def test_dropout_leaves_the_mean_where_it_is() -> None:
    """Each value is kept with probability 1 - p and scaled up: over many draws logits are near those without it."""
    network, plain = small_network(dropout=0.02).train(), small_network()
    with torch.no_grad():
        mean = torch.stack([logits(network) for _ in range(200)]).mean(0)
        shift = (mean - logits(plain)).square().mean().sqrt()
    assert shift < 0.1 * logits(plain).std()


def test_packing_freezes_and_plain_does_not() -> None:
    assert all(parameter.requires_grad for parameter in small_network().pack("plain").parameters())
    assert not any(parameter.requires_grad for parameter in small_network().pack("lossless").parameters())


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_is_another_function(activation: str) -> None:
    others = [logits(small_network(ff_activation=other)) for other in ACTIVATIONS if other != activation]
    assert not any(torch.equal(logits(small_network(ff_activation=activation)), other) for other in others)


@settings(max_examples=30)
@given(
    st.builds(
        AnyOrderConfig,
        codec=st.text(max_size=9),
        order=st.sampled_from(["ascending", "random", "spread"]),
        mask_id=st.integers(0, 10**6),
        forbidden_ids=st.lists(st.integers(0, 10**6), max_size=5).map(tuple),
        max_length=st.integers(1, 10**6),
        acceptance=st.lists(st.floats(0, 1), max_size=5).map(tuple),
    )
)
def test_what_a_checkpoint_says_of_itself_survives_its_way_through_json(stated: AnyOrderConfig) -> None:
    assert AnyOrderConfig.from_dict(json.loads(json.dumps(stated.to_dict()))) == stated


def test_a_shape_survives_its_way_through_json_with_what_is_not_understood() -> None:
    config = XLNetConfig(
        vocab_size=9, d_model=8, n_layer=1, n_head=2, d_inner=3, clamp_len=7, other={"summary_type": "last"}
    )
    again = XLNetConfig.from_dict(json.loads(json.dumps(config.to_dict())))
    assert again.to_dict() == config.to_dict()
    assert again.other["summary_type"] == "last"
    assert again.d_head == 4


def test_costs_are_stored_by_width_and_kind_of_device() -> None:
    def costs(width: int, device: str) -> object:
        shape = XLNetConfig(vocab_size=9, d_model=width, n_layer=1, n_head=1, d_inner=3)
        return stored_costs(shape, torch.device(device))

    assert costs(SMALL_WIDTH, "cpu") is SMALL_CPU
    assert costs(SMALL_WIDTH + 2, "cpu") is BASE_CPU
    assert costs(8, "cuda") is costs(1024, "mps") is ACCELERATOR
    for stored in (SMALL_CPU, BASE_CPU, ACCELERATOR):
        for table in stored:
            assert table is None or table.rows[0] <= 2, "a decoding pass has two rows: one token, one query"
