"""The engine gives the logits of transformers' XLNetLMHeadModel, with ``perm_mask`` and ``target_mapping``, on its
weights.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from xlnet_reference import ours, random_reference, reference_logits

from anyorder.model.xlnet import XLNet
from anyorder.order import Order
from anyorder.visibility import Rows, content_rows, draft_rows, verify_rows

TOLERANCE = 1e-5
BASE = {"vocab_size": 32_000, "d_model": 768, "n_layer": 12, "n_head": 12, "d_inner": 3072}
SMALL = {"vocab_size": 40, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64}


def random_order(lengths: list[int], num_prompt: list[int], generator: torch.Generator) -> Order:
    """Any permutation of each row's positions, the padding last."""
    width = max(lengths)
    sigma = torch.arange(width).repeat(len(lengths), 1)
    for row, length in enumerate(lengths):
        sigma[row, :length] = torch.randperm(length, generator=generator)
    return Order(sigma=sigma, num_prompt=torch.tensor(num_prompt), length=torch.tensor(lengths))


def all_steps(order: Order) -> Tensor:
    """(B, L), the sentinel in place of padding."""
    steps = torch.arange(order.num_steps).expand_as(order.sigma)
    return torch.where(steps < order.length[:, None], steps, order.num_steps)


def one_pass(network: XLNet, tokens: Tensor, order: Order, query: Rows) -> Tensor:
    with torch.no_grad():
        return network(
            order.to_steps(tokens), order.sigma, None, encode=content_rows(order, all_steps(order)), query=query
        )


@st.composite
def shapes(draw: st.DrawFn) -> dict[str, object]:
    heads = draw(st.integers(1, 4))
    return {
        "vocab_size": draw(st.integers(2, 60)),
        "d_model": heads * draw(st.sampled_from([2, 4, 8, 16])),
        "n_layer": draw(st.integers(1, 3)),
        "n_head": heads,
        "d_inner": draw(st.integers(1, 64)),
        "ff_activation": draw(st.sampled_from(["gelu", "relu", "gelu_new"])),
        "clamp_len": draw(st.sampled_from([-1, -1, 0, 1, 3, 100])),
        "tie_word_embeddings": draw(st.booleans()),
        "layer_norm_eps": draw(st.sampled_from([1e-12, 1e-5])),
        "seed": draw(st.integers(0, 2**31)),
    }


@st.composite
def batches(draw: st.DrawFn) -> tuple[Order, int]:
    lengths = draw(st.lists(st.integers(1, 14), min_size=1, max_size=4))
    num_prompt = [draw(st.integers(0, length - 1)) for length in lengths]
    seed = draw(st.integers(0, 2**31))
    return random_order(lengths, num_prompt, torch.Generator().manual_seed(seed)), seed


@settings(max_examples=40)
@given(shape=shapes(), batch=batches())
def test_verification_logits_equal_hugging_face_for_any_shape_order_prompt_and_ragged_batch(
    shape: dict[str, object], batch: tuple[Order, int]
) -> None:
    order, seed = batch
    model = random_reference(**shape)
    tokens = torch.randint(model.config.vocab_size, order.sigma.shape, generator=torch.Generator().manual_seed(seed))
    got = one_pass(ours(model), tokens, order, verify_rows(all_steps(order)))
    for row in range(len(order.length)):
        length, num_prompt = int(order.length[row]), int(order.num_prompt[row])
        asked = torch.arange(max(num_prompt, 1), length)  # a row that sees nothing leaks in Hugging Face: see below
        with torch.no_grad():
            want = reference_logits(model, tokens[row, :length], order.sigma[row, :length], num_prompt, steps=asked)
        torch.testing.assert_close(got[row, asked], want, atol=TOLERANCE, rtol=TOLERANCE)


@settings(max_examples=20)
@given(shape=shapes(), batch=batches())
def test_draft_logits_equal_hugging_face_asked_once_for_each_number_of_decoded_steps(
    shape: dict[str, object], batch: tuple[Order, int]
) -> None:
    order, seed = batch
    order = order.select(torch.zeros(1, dtype=torch.long))
    length, num_prompt = int(order.length), int(order.num_prompt)
    order = Order(sigma=order.sigma[:, :length], num_prompt=order.num_prompt, length=order.length)
    model = random_reference(**shape)
    network = ours(model)
    tokens = torch.randint(model.config.vocab_size, (1, length), generator=torch.Generator().manual_seed(seed))
    for num_decoded in range(max(num_prompt, 1), length):
        asked = torch.arange(num_decoded, length)
        got = one_pass(network, tokens, order, draft_rows(asked[None], torch.tensor([num_decoded])))
        with torch.no_grad():
            want = reference_logits(model, tokens[0], order.sigma[0], num_prompt, steps=asked, num_decoded=num_decoded)
        torch.testing.assert_close(got[0], want, atol=TOLERANCE, rtol=TOLERANCE)


def test_the_base_shape_equals_hugging_face_at_relative_distances_up_to_511() -> None:
    model = random_reference(**BASE)
    length, num_prompt = 512, 100
    order = random_order([length], [num_prompt], torch.Generator().manual_seed(1))
    # The two ends of the text see each other: the first position is asked last, the last one is in the prompt.
    sigma = order.sigma[0]
    for position, step in ((0, length - 1), (length - 1, 0)):
        there = int((sigma == position).nonzero())
        sigma[there], sigma[step] = sigma[step].clone(), sigma[there].clone()
    tokens = torch.randint(BASE["vocab_size"], (1, length), generator=torch.Generator().manual_seed(2))
    asked = torch.cat([torch.arange(num_prompt, length, 40), torch.tensor([length - 1])])
    got = one_pass(ours(model), tokens, order, verify_rows(asked[None]))[0]
    with torch.no_grad():
        want = reference_logits(model, tokens[0], sigma, num_prompt, steps=asked)
    assert 0.5 < float(want.std()) < 2.0, "logits of another size make the tolerance mean something else"
    assert want.argmax(-1).unique().numel() >= len(asked) // 2, "rows that all say the same test no mask"
    torch.testing.assert_close(got, want, atol=TOLERANCE, rtol=0)
    assert torch.equal(got.argmax(-1), want.argmax(-1))


def test_a_row_that_sees_nothing_depends_on_no_token_where_hugging_face_leaks() -> None:
    model = random_reference(**SMALL)
    network = ours(model)
    order = random_order([8], [0], torch.Generator().manual_seed(0))
    tokens = torch.randint(40, (2, 8), generator=torch.Generator().manual_seed(1))
    query = Rows(torch.arange(8)[None], torch.zeros(1, 8, dtype=torch.long))
    first, second = (one_pass(network, text[None], order, query) for text in tokens)
    assert torch.equal(first, second)
    assert torch.equal(first, first[:, :1].expand_as(first)), "without context no position differs from another"
    alone = network(order.to_steps(tokens[:1]), order.sigma, None, encode=None, query=query)
    torch.testing.assert_close(alone, first, atol=TOLERANCE, rtol=0)
    with torch.no_grad():
        leaking = [
            reference_logits(model, text, order.sigma[0], 0, steps=torch.tensor([0]), num_decoded=0) for text in tokens
        ]
    assert (leaking[0] - leaking[1]).abs().max() > 0.01


def test_the_first_draft_sees_what_its_verification_sees() -> None:
    network = ours(random_reference(**SMALL))
    order = random_order([9, 6], [2, 3], torch.Generator().manual_seed(0))
    tokens = torch.randint(40, (2, 9), generator=torch.Generator().manual_seed(1))
    verified = one_pass(network, tokens, order, verify_rows(all_steps(order)))
    for num_decoded in range(3, 6):
        step = torch.full((2, 1), num_decoded)
        drafted = one_pass(network, tokens, order, draft_rows(step, torch.full((2,), num_decoded)))
        torch.testing.assert_close(drafted[:, 0], verified[:, num_decoded], atol=TOLERANCE, rtol=0)


def test_the_segment_tensors_of_a_checkpoint_change_nothing_without_token_types() -> None:
    """Hugging Face adds no segment term then, so an engine without one is complete."""
    model = random_reference(**SMALL)
    tokens, sigma = torch.arange(6), torch.randperm(6)
    before = reference_logits(model, tokens, sigma, 2, steps=torch.arange(2, 6))
    with torch.no_grad():
        for layer in model.transformer.layer:
            layer.rel_attn.seg_embed.add_(1.0)
            layer.rel_attn.r_s_bias.add_(1.0)
    assert torch.equal(before, reference_logits(model, tokens, sigma, 2, steps=torch.arange(2, 6)))


@pytest.mark.parametrize("clamp_len", [1, 4])
def test_a_clamp_makes_all_farther_distances_equal(clamp_len: int) -> None:
    """Said without Hugging Face: a token beyond the clamp may move away unnoticed, one inside may not."""
    network = ours(random_reference(**SMALL, clamp_len=clamp_len))
    tokens = torch.arange(40)[None]
    encode = Rows(torch.tensor([[0, 1]]), torch.tensor([[1, 2]]))
    query = Rows(torch.tensor([[2]]), torch.tensor([[2]]))

    def with_a_token_at(distance: int) -> Tensor:
        positions = torch.zeros(1, 40, dtype=torch.long)
        positions[0, :3] = torch.tensor([38, 39 - distance, 39])
        with torch.no_grad():
            return network(tokens, positions, None, encode=encode, query=query)

    # One more than the clamp, since the token must also be that far from the other token, one position nearer.
    assert torch.equal(with_a_token_at(clamp_len + 1), with_a_token_at(clamp_len + 30))
    assert (with_a_token_at(clamp_len + 1) - with_a_token_at(clamp_len - 1)).abs().max() > 0.01
