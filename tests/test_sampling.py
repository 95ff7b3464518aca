"""Temperature, top-k and top-p mean what they mean in transformers, and nothing forbidden comes back."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers.generation.logits_process import (
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from anyorder.sampling import Sampling, at_least_float32, log_density


def by_transformers(logits: Tensor, sampling: Sampling) -> Tensor:
    warpers = LogitsProcessorList()
    if sampling.temperature != 1:
        warpers.append(TemperatureLogitsWarper(sampling.temperature))
    if sampling.top_k is not None:
        warpers.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p is not None:
        warpers.append(TopPLogitsWarper(sampling.top_p))
    return warpers(None, logits).softmax(-1)


@settings(max_examples=100)
@given(
    seed=st.integers(0, 9999),
    temperature=st.floats(0.1, 3.0),
    top_k=st.none() | st.integers(1, 12),
    top_p=st.none() | st.floats(0.05, 0.999),
    num_forbidden=st.integers(0, 5),
)
def test_probabilities_are_those_of_transformers(
    seed: int, temperature: float, top_k: int | None, top_p: float | None, num_forbidden: int
) -> None:
    logits = torch.randn(4, 9, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2
    logits[:, :num_forbidden] = -torch.inf
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
    got, wanted = sampling.probs(logits), by_transformers(logits, sampling)
    assert torch.allclose(got, wanted, atol=1e-12)
    assert torch.equal(got > 0, wanted > 0)
    assert not got[:, :num_forbidden].any()


def test_top_k_keeps_every_token_tied_with_the_kth() -> None:
    probs = Sampling(top_k=2).probs(torch.tensor([3.0, 1.0, 1.0, 0.0]))
    assert (probs > 0).tolist() == [True, True, True, False]


def test_top_p_keeps_the_smallest_set_that_reaches_the_mass() -> None:
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64).log()
    for top_p, kept in ((0.49, 1), (0.51, 2), (0.79, 2), (0.81, 3), (1.0, 4), (1e-9, 1)):
        assert int((Sampling(top_p=top_p).probs(logits) > 0).sum()) == kept


def test_a_set_that_reaches_the_mass_exactly_is_enough() -> None:
    # Powers of two, so that the sums are exact: one half is reached by the first token alone, three quarters by two.
    logits = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64).log()
    assert int((Sampling(top_p=0.5).probs(logits) > 0).sum()) == 1
    assert int((Sampling(top_p=0.75).probs(logits) > 0).sum()) == 2
    assert int((Sampling(top_p=0.7501).probs(logits) > 0).sum()) == 3


def test_top_k_comes_before_top_p() -> None:
    logits = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64).log()
    # Among the two that top-k leaves, the first alone has 4/7 of the mass; among all four it has 0.4.
    assert int((Sampling(top_k=2, top_p=0.55).probs(logits) > 0).sum()) == 1
    assert int((Sampling(top_p=0.55).probs(logits) > 0).sum()) == 2


def test_greedy_is_the_arg_max_and_the_lowest_id_at_ties() -> None:
    probs = Sampling(temperature=0.0).probs(torch.tensor([[0.0, 2.0, 2.0], [1.0, 1.0, 1.0], [-torch.inf, 0.0, 0.0]]))
    assert probs.tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0]]


def test_a_small_temperature_approaches_greedy() -> None:
    logits = torch.randn(50, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert torch.allclose(Sampling(temperature=1e-4).probs(logits), Sampling(temperature=0.0).probs(logits), atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_promoted_before_anything_is_computed(dtype: torch.dtype) -> None:
    logits = torch.randn(3, 50, generator=torch.Generator().manual_seed(1)).to(dtype)
    assert torch.equal(Sampling(top_p=0.9).probs(logits), Sampling(top_p=0.9).probs(logits.float()))
    assert log_density(logits, torch.zeros(3, dtype=torch.long)).dtype == torch.float32


def test_double_precision_stays() -> None:
    logits = torch.zeros(2, 3, dtype=torch.float64)
    assert Sampling().probs(logits).dtype == at_least_float32(logits).dtype == torch.float64


def test_log_density_is_the_log_softmax_and_minus_infinity_at_the_forbidden() -> None:
    logits = torch.tensor([[1.0, 2.0, -torch.inf], [-torch.inf, -torch.inf, -torch.inf]])
    assert torch.allclose(log_density(logits[:1], torch.tensor([1])), logits[0].log_softmax(-1)[1])
    assert log_density(logits, torch.tensor([2, 0])).tolist() == [-math.inf, -math.inf]


def test_log_density_can_be_differentiated() -> None:
    logits = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: log_density(x, torch.tensor([1, 3])), logits)


@pytest.mark.parametrize(
    ("given_options", "error", "says"),
    [
        ({"temperature": -1.0}, ValueError, "temperature must be a finite number of at least 0 .* got -1.0"),
        ({"temperature": math.nan}, ValueError, "temperature .* got nan"),
        ({"temperature": math.inf}, ValueError, "temperature .* got inf"),
        ({"temperature": "hot"}, TypeError, "temperature must be a number; got 'hot' .str."),
        ({"temperature": True}, TypeError, "temperature must be a number; got True"),
        ({"top_k": 0}, ValueError, "top_k must be at least 1 .* got 0"),
        ({"top_k": 2.0}, TypeError, "top_k must be an integer .None keeps every token.; got 2.0 .float."),
        ({"top_k": True}, TypeError, "top_k must be an integer"),
        ({"top_p": 0.0}, ValueError, r"top_p must lie in \(0, 1\] .* got 0.0"),
        ({"top_p": 2}, ValueError, "top_p .* got 2"),
        ({"top_p": math.nan}, ValueError, "top_p .* got nan"),
        ({"top_p": "most"}, TypeError, "top_p must be a number; got 'most'"),
    ],
)
def test_bad_sampling_is_refused(given_options: dict[str, object], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        Sampling(**given_options)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("options", [{}, {"top_k": 3}, {"top_p": 0.9}])
def test_no_temperature_however_extreme_makes_a_forbidden_token_possible(
    dtype: torch.dtype, options: dict[str, float]
) -> None:
    logits = torch.tensor([[-math.inf, 80.0, 20.0, 79.0, -90.0]], dtype=dtype)
    for temperature in (5e-324, 1e-300, 1e-38, 1e-10):
        assert Sampling(temperature=temperature, **options).probs(logits).tolist() == [[0, 1, 0, 0, 0]], temperature
    for temperature in (1e39, 1e300):
        probs = Sampling(temperature=temperature).probs(logits)
        torch.testing.assert_close(probs, torch.tensor([[0, 0.25, 0.25, 0.25, 0.25]], dtype=dtype))


def test_numbers_of_numpy_are_numbers() -> None:
    given_options = Sampling(temperature=np.float32(0.5), top_k=np.int64(3), top_p=np.float64(0.9))
    assert given_options == Sampling(temperature=0.5, top_k=3, top_p=0.9)
    assert Sampling(temperature=torch.tensor(0.5), top_p=np.array(0.9)) == Sampling(temperature=0.5, top_p=0.9)  # type: ignore[arg-type]
    assert isinstance(given_options.top_k, int)
    assert type(given_options.temperature) is type(given_options.top_p) is float


def test_a_number_too_large_for_a_float_is_refused() -> None:
    for huge in (10**400, -(10**400)):
        with pytest.raises(ValueError, match=r"temperature must be a finite number of at least 0 .* got -?inf"):
            Sampling(temperature=huge)
