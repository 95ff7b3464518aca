"""A packed weight is the same matrix in another layout, and a row's result never hears of its neighbours."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anyorder.model.linear import HALF_STEP, Linear, Packing, can_pack, fits_half

LAYOUTS: tuple[Packing, ...] = ("plain", "packed", "float16")
PACKINGS = [packing for packing in LAYOUTS if can_pack(torch.empty(1, 1), packing)]
"""What this build can do; a build without oneDNN or FBGEMM computes with plain weights."""


def random_linear(
    in_features: int, out_features: int, packing: Packing = "plain", *, bias: bool = True, seed: int = 9
) -> Linear:
    linear = Linear(in_features, out_features, bias=bias)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        linear.weight.normal_(0.0, in_features**-0.5, generator=generator)
        if bias:
            linear.bias.normal_(generator=generator)
    linear.requires_grad_(False).pack(packing)
    return linear


@settings(max_examples=30)
@given(
    packing=st.sampled_from(PACKINGS),
    shape=st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(1, 70), st.integers(1, 70)),
    bias=st.booleans(),
)
def test_every_packing_is_a_linear_layer_for_any_shape(
    packing: Packing, shape: tuple[int, int, int, int], bias: bool
) -> None:
    batch, rows, in_features, out_features = shape
    plain = random_linear(in_features, out_features, bias=bias)
    packed = random_linear(in_features, out_features, packing, bias=bias)
    x = torch.randn(batch, rows, in_features, generator=torch.Generator().manual_seed(1))
    tolerance = 5e-3 if packing == "float16" else 1e-5
    torch.testing.assert_close(packed(x), plain(x), atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("packing", PACKINGS)
def test_what_a_neighbour_holds_does_not_change_a_row_by_one_bit(packing: Packing) -> None:
    """Dynamic int8 fails here: it scales all rows by the largest."""
    linear = random_linear(96, 160, packing)
    x = torch.randn(24, 96)
    want = linear(x)
    for row in range(24):
        others = torch.randn(24, 96) * 1000
        others[row] = x[row]
        assert torch.equal(linear(others)[row], want[row])


@pytest.mark.parametrize("packing", PACKINGS)
def test_how_many_neighbours_there_are_changes_a_row_by_rounding_alone(packing: Packing) -> None:
    """Libraries pick their kernel by the number of rows, so bits may differ: 1e-5 where float16 weights move 1e-3."""
    linear = random_linear(384, 256, packing)
    x = torch.randn(65, 384)
    want = linear(x)
    for rows in range(1, 65):
        for start in (0, 65 - rows):
            torch.testing.assert_close(linear(x[start : start + rows]), want[start : start + rows], atol=1e-5, rtol=0)


@pytest.mark.parametrize("packing", PACKINGS)
def test_float16_weights_are_exactly_the_rounded_weights_and_activations_stay_float32(packing: Packing) -> None:
    linear = random_linear(96, 160, packing, bias=False)
    weight = random_linear(96, 160, bias=False).weight
    rounded = weight.half().double() if packing == "float16" else weight.double()
    x = torch.randn(8, 96) * 100
    torch.testing.assert_close(linear(x).double(), x.double() @ rounded.t(), atol=2e-3, rtol=1e-5)


@pytest.mark.parametrize("packing", PACKINGS)
def test_packing_gives_the_weight_back_bit_for_bit_unless_it_rounded_it(packing: Packing) -> None:
    plain = random_linear(33, 47).weight
    assert packing == "float16" or torch.equal(random_linear(33, 47, packing).dense_weight(), plain)
    halves = random_linear(33, 47)
    with torch.no_grad():
        halves.weight.copy_(plain.half())
    halves.pack(packing)
    assert torch.equal(halves.dense_weight(), plain.half().float())


@pytest.mark.skipif("float16" not in PACKINGS, reason="this build has no FBGEMM")
def test_rounded_weights_cannot_be_read_back() -> None:
    with pytest.raises(ValueError, match="weights='float16' rounded these weights; load the checkpoint without it"):
        random_linear(8, 8, "float16").dense_weight()


@pytest.mark.skipif(len(PACKINGS) < 3, reason="this build cannot pack both ways")
def test_lossless_packing_takes_halves_for_weights_that_fit_and_float32_for_those_that_do_not() -> None:
    weight = random_linear(33, 47).weight.detach()
    awkward = torch.tensor([[1.0, 2.0**-30], [1e5, 0.0]])
    for wanted, layout in (
        (weight, "packed"),
        (weight.bfloat16().float(), "float16"),
        (weight.half().float(), "float16"),
        (torch.tensor([[1.0, 2.0**-30]]), "float16"),  # loses less than HALF_STEP
        (awkward, "packed"),  # beyond what a half can hold
        (torch.tensor([[float("nan"), float("inf")]]), "packed"),
    ):
        linear = Linear(wanted.shape[1], wanted.shape[0]).requires_grad_(False)
        linear.pack("lossless", wanted)
        assert linear.packing == layout
        assert fits_half(wanted) == (layout == "float16")
        torch.testing.assert_close(linear.dense_weight(), wanted, atol=HALF_STEP, rtol=0, equal_nan=True)
        linear.pack("lossless")
        assert linear.packing == layout


@pytest.mark.skipif(len(PACKINGS) < 3, reason="this build cannot pack both ways")
def test_a_packed_weight_is_dropped_and_cannot_be_packed_otherwise() -> None:
    linear = random_linear(8, 8, "packed")
    assert linear.weight is None
    assert [name for name, _ in linear.named_parameters()] == ["bias"]
    linear.pack("packed")
    with pytest.raises(ValueError, match="already held as 'packed' and cannot be packed again"):
        linear.pack("float16")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_what_cannot_be_packed_stays_plain(dtype: torch.dtype) -> None:
    linear = Linear(8, 8).to(dtype)
    for packing in ("packed", "float16", "lossless"):
        assert not can_pack(linear.weight, packing)
        linear.pack(packing)
        assert linear.packing == "plain"
        assert linear.weight is not None
    assert not can_pack(torch.empty(2, 2, device="meta"), "packed")


@pytest.mark.skipif("packed" not in PACKINGS, reason="this build cannot pack")
def test_a_given_weight_is_packed_in_place_of_the_own_one() -> None:
    """The tied head packs the embedding, which the network still needs as it is."""
    embedding = torch.randn(12, 8)
    head = random_linear(8, 12)
    head.pack("packed", embedding)
    torch.testing.assert_close(head(torch.eye(8)) - head.bias, embedding.t())
    assert torch.equal(head.dense_weight(), embedding)


@pytest.mark.filterwarnings("error")
@pytest.mark.skipif("float16" not in PACKINGS, reason="this build has no FBGEMM")
def test_packing_in_half_precision_announces_nothing() -> None:
    random_linear(8, 8, "float16")(torch.ones(1, 8))


def test_a_plain_layer_can_be_copied_and_trained() -> None:
    linear = copy.deepcopy(random_linear(4, 3)).requires_grad_()
    linear(torch.ones(2, 4)).sum().backward()
    assert torch.equal(linear.weight.grad, torch.full((3, 4), 2.0))


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda linear: pickle.loads(pickle.dumps(linear))])
@pytest.mark.parametrize("packing", PACKINGS)
def test_a_copy_of_a_packed_layer_computes_the_same_bits(
    packing: Packing, duplicate: Callable[[Linear], Linear]
) -> None:
    linear = random_linear(24, 40, packing)
    copied = duplicate(linear)
    x = torch.randn(5, 24, generator=torch.Generator().manual_seed(0))
    assert copied.packing == packing
    assert torch.equal(copied(x), linear(x))
    del linear
    assert copied(x).isfinite().all(), "the copy lives on its own"
