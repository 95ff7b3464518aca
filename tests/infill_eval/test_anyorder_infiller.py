"""The library's models as infillers: samples of a request do not depend on the batch, costs and drafts add up."""

from __future__ import annotations

import copy
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import anyorder
from anyorder import Model
from anyorder.model.linear import Packing
from infill_eval.anyorder_infiller import AnyorderInfiller, Decoding
from infill_eval.infiller import Budget, Request, ask, describe

TWO_BLANKS = ("def f(", "):\n    return ", "\n")


def requests() -> list[Request]:
    oracle = Budget(policy="oracle", like=("a, b", "a + b"))
    fixed = Budget(policy="fixed", tokens=3)
    return [
        Request(id="one", segments=TWO_BLANKS, budget=oracle, n=2, seed=11),
        Request(id="two", segments=("import ", ""), budget=fixed, n=2, seed=12),
    ]


def test_samples_do_not_depend_on_the_batch(tiny: Model) -> None:
    infiller = AnyorderInfiller(tiny)
    together = ask(infiller, requests())
    assert [[s.texts for s in row] for row in together] == [[s.texts for s in infiller(one)] for one in requests()]
    assert together[0][0].texts != together[0][1].texts


def test_sample_j_is_that_of_seed_plus_j(tiny: Model) -> None:
    infiller = AnyorderInfiller(tiny)
    first, second = infiller(requests()[1])
    shifted = Request(id="two", segments=("import ", ""), budget=Budget(policy="fixed", tokens=3), n=1, seed=13)
    assert infiller(shifted)[0].texts == second.texts != first.texts


def test_the_oracle_length_is_that_of_the_reference_in_the_model_s_tokens(tiny: Model) -> None:
    (sample, _), (fixed, _) = ask(AnyorderInfiller(tiny), requests())
    assert sample.stats["tokens"] == sum(len(tiny.codec.encode(text)) for text in ("a, b", "a + b"))
    assert fixed.stats["tokens"] == 3
    assert len(sample.texts) == 2


def test_costs_and_drafts_add_up(tiny: Model) -> None:
    for decoding in (Decoding(method="assd", draft_length=4), Decoding(method="one-pass", draft_length=3)):
        for sample in AnyorderInfiller(tiny, decoding)(requests()[0]):
            stats = sample.stats
            assert sum(stats["kept by rank"]) == stats["accepted"]
            assert sum(stats["tested by rank"]) <= stats["drafted"]
            assert all(
                kept <= tested for kept, tested in zip(stats["kept by rank"], stats["tested by rank"], strict=True)
            )
            assert stats["nfe"] <= stats["tokens"]
            assert sample.log_prob is not None
            assert sample.log_prob < 0


def test_an_infiller_says_what_it_is(tiny: Model) -> None:
    facts = describe(AnyorderInfiller(tiny, Decoding(method="parallel", steps=2, temperature=0.5, order="spread")))
    assert facts["method"] == "parallel 2 steps T=0.5 spread order"
    assert facts["codec"] == tiny.codec.name
    assert AnyorderInfiller(tiny).round_trip("a▁b\n") == "a▁b\n"


@pytest.mark.parametrize("weights", ["plain", "packed", "float16"])
def test_weights_are_counted_and_hashed_however_they_are_held(tiny_checkpoint: Path, weights: Packing) -> None:
    model = anyorder.load(tiny_checkpoint, weights=weights)
    facts, again = describe(AnyorderInfiller(model)), describe(AnyorderInfiller(copy.deepcopy(model)))
    saved = load_file(tiny_checkpoint / "model.safetensors")
    assert facts["parameters"] == sum(tensor.numel() for tensor in saved.values())
    assert facts == again
    trained = copy.deepcopy(model)
    with torch.no_grad():
        trained.network.embedding[0, 0] += 1
    assert describe(AnyorderInfiller(trained))["weights"] != facts["weights"]


def test_tokens_cover_the_text(tiny: Model) -> None:
    offsets = AnyorderInfiller(tiny).offsets("def f(a):\n    return a\n")
    assert offsets[0][0] == 0
    assert all(left[1] == right[0] for left, right in pairwise(offsets))


def test_a_text_longer_than_the_model_takes_is_cropped_and_comes_back_whole(tiny: Model) -> None:
    long = Request(id="long", segments=("x = 1\n" * 200, "\ny = 2\n" * 200), budget=Budget(policy="fixed", tokens=2))
    (sample,) = AnyorderInfiller(tiny)(long)
    assert sample.stats["tokens"] == 2


def test_a_request_the_model_cannot_take_is_an_error(tiny: Model) -> None:
    budget = Budget(policy="fixed", tokens=tiny.max_length + 1)
    with pytest.raises(ValueError, match=str(tiny.max_length)):
        AnyorderInfiller(tiny)(Request(id="x", segments=("a", "b"), budget=budget))
