"""log_prob, token_log_probs, log_prob_batch, rank: one number, however it is asked for."""

from __future__ import annotations

import copy
import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import anyorder
from anyorder.model.loaded import Model
from anyorder.order import Order
from anyorder.visibility import content_rows, verify_rows

TEXT = "def add(a, b):\n    return a + b\n"
SPANS = [(4, 7), (26, 31)]

few = settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])


def one_by_one(model: Model, prompt: dict[int, int], decisions: list[tuple[int, int]], spaced: set[int]) -> list[float]:
    """The conditionals of (position, token) decisions made in turn, one plain call of the network for each.

    At ``spaced`` positions it is given that the token begins with a space. ``prompt`` maps positions to tokens. Nothing
    is shared with the library's scoring but the network itself.
    """
    banned = torch.tensor(sorted({model.codec.mask_id, *model.codec.forbidden_ids}))
    spaceless = [i for i in range(model.codec.vocab_size) if not model.codec.token_bytes(i).startswith(b" ")]
    values: list[float] = []
    known = [*sorted(prompt.items()), *decisions]
    sigma = torch.tensor([[position for position, _ in known]])
    order = Order(sigma=sigma, num_prompt=torch.tensor([len(prompt)]), length=torch.tensor([len(known)]))
    for step in range(len(prompt), len(known)):
        # What is not decided yet is not even in the input.
        tokens = torch.tensor([[token if at < step else 0 for at, (_, token) in enumerate(known)]])
        encode = content_rows(order, torch.arange(step)[None])
        query = verify_rows(torch.tensor([[step]]))
        with torch.no_grad():
            logits = model.network.forward(tokens, sigma, None, encode=encode, query=query)[0, 0].double()
        logits[banned] = -math.inf
        if known[step][0] in spaced:
            logits[spaceless] = -math.inf
        values.append(float(logits.log_softmax(-1)[known[step][1]]))
    return values


@pytest.mark.parametrize("order", ["ascending", "spread", "random"])
def test_the_joint_density_is_the_sum_of_conditionals_asked_for_one_by_one(tiny: Model, order: Any) -> None:
    layout = tiny.codec.layout(TEXT, SPANS)
    prompt: dict[int, int] = {}
    targets: list[tuple[int, int]] = []
    spaced: set[int] = set()
    at = itertools.count()
    for segment, blank in itertools.zip_longest(layout.segments, layout.blanks):
        prompt.update((next(at), token) for token in segment)
        if blank and blank.owned:
            spaced.add(len(prompt) + len(targets))
        targets += [(next(at), token) for token in (blank.ids if blank else ())]
    num_targets = len(targets)
    permutation = anyorder.infill(TEXT, SPANS, model=tiny, order=order, seed=0).order
    decided = one_by_one(tiny, prompt, [targets[number] for number in permutation], spaced)
    assert spaced
    expected = [0.0] * num_targets
    for number, value in zip(permutation, decided, strict=True):
        expected[number] = value
    assert anyorder.token_log_probs(TEXT, SPANS, model=tiny, order=order) == pytest.approx(expected, abs=1e-4)
    assert anyorder.log_prob(TEXT, SPANS, model=tiny, order=order) == pytest.approx(sum(expected), abs=1e-3)


def test_the_text_of_a_result_scores_as_the_result_where_its_tokens_are_canonical(tiny: Model) -> None:
    owned = [blank.owned for blank in tiny.codec.layout(TEXT, SPANS).blanks]
    for seed in range(200):
        result = anyorder.infill(TEXT, SPANS, model=tiny, seed=seed, temperature=0.7)
        spans = [(span.start, span.end) for span in result.spans]
        blanks = tiny.codec.layout(result.text, spans).blanks
        canonical = [list(blank.ids) for blank in blanks] == [span.token_ids for span in result.spans]
        if canonical and [blank.owned for blank in blanks] == owned:
            break
    else:
        pytest.fail("no canonical sample among 200")
    assert anyorder.log_prob(result.text, spans, model=tiny) == pytest.approx(result.log_prob, abs=1e-5)


def test_a_result_can_be_scored_under_another_order(tiny: Model) -> None:
    result = anyorder.infill("<mask:5>", model=tiny, seed=0)
    other = anyorder.log_prob(result, model=tiny, order=[4, 3, 2, 1, 0])
    assert other != pytest.approx(result.log_prob, abs=1e-3)
    assert anyorder.log_prob(result, model=tiny, order=[0, 1, 2, 3, 4]) == pytest.approx(result.log_prob, abs=1e-5)


def test_moving_tokens_into_the_prompt_of_another_call_changes_the_sum(tiny: Model) -> None:
    """The chain rule holds within a call; the prompt sees itself in both directions, targets do not."""
    whole = anyorder.log_prob(TEXT, [(4, 7), (8, 9)], model=tiny)
    in_turn = anyorder.log_prob(TEXT, [(4, 7)], model=tiny) + anyorder.log_prob(TEXT, [(8, 9)], model=tiny)
    assert whole != pytest.approx(in_turn, abs=1e-3)


def test_a_batch_of_scores_is_the_scores_one_by_one(tiny: Model) -> None:
    texts = [TEXT, "x = 1", "", "é" * 9]
    positions: list[Any] = [SPANS, [(0, 1)], [], [(2, 5), (5, 9)]]
    together = anyorder.log_prob_batch(texts, positions, model=tiny)
    alone = [anyorder.log_prob(text, spans, model=tiny) for text, spans in zip(texts, positions, strict=True)]
    assert together == pytest.approx(alone, abs=1e-4)
    assert together[2] == 0
    results = [anyorder.infill("a <mask:3> b", model=tiny, seed=0, forbidden=string) for string in ("e", "a", None)]
    densities = [result.log_prob for result in results]
    assert anyorder.log_prob_batch(results, model=tiny) == pytest.approx(densities, abs=1e-5)
    one_for_all = anyorder.log_prob_batch(["abc", "xyz"], [(0, 1)], model=tiny)
    assert one_for_all[1] == pytest.approx(anyorder.log_prob("xyz", [(0, 1)], model=tiny), abs=1e-4)


@few
@given(st.lists(st.text(max_size=6), max_size=5))
def test_rank_sorts_by_log_prob(tiny: Model, candidates: list[str]) -> None:
    ranked = anyorder.rank(TEXT, (4, 7), candidates, model=tiny)
    assert sorted(candidate for candidate, _ in ranked) == sorted(candidates)
    assert [value for _, value in ranked] == sorted((value for _, value in ranked), reverse=True)
    for candidate, value in ranked:
        text = TEXT[:4] + candidate + TEXT[7:]
        assert value == pytest.approx(anyorder.log_prob(text, [(4, 4 + len(candidate))], model=tiny), abs=1e-4)


def test_rank_does_not_look_at_what_stands_there(tiny: Model) -> None:
    one = anyorder.rank("a XYZ b", (2, 5), ["p", "q", "rr"], model=tiny)
    assert one == anyorder.rank("a  b", (2, 2), ["p", "q", "rr"], model=tiny)
    assert one == anyorder.rank("a  b", slice(2, 2), ["p", "q", "rr"], model=tiny)


def test_the_empty_candidate_is_ranked_where_the_others_just_fit(tiny: Model) -> None:
    layout = tiny.codec.layout("return x", [(7, 8)])
    assert layout.blanks[0].owned  # left empty, it leaves a token more to the prompt than the others have
    num_tokens = len(layout.blanks[0].ids) + sum(map(len, layout.segments))
    settings = replace(tiny.settings, max_length=num_tokens)
    exact = Model(name="exact", network=tiny.network, codec=tiny.codec, settings=settings)
    assert ("", 0.0) in anyorder.rank("return ", (7, 7), ["", "x"], model=exact)
    with pytest.raises(ValueError, match=f"with its blanks filled, but this model takes {num_tokens}"):
        anyorder.rank("return x", (0, 0), ["", "a"], model=exact)


def test_rank_takes_one_pass(tiny: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = []
    forward = type(tiny.network).forward
    monkeypatch.setattr(type(tiny.network), "forward", lambda *a, **k: passes.append(1) or forward(*a, **k))
    anyorder.rank(TEXT, (4, 7), ["add", "mul", "subtract", "x"], model=tiny)
    assert len(passes) == 1


def test_one_directory_by_two_paths_is_one_model(
    tiny_checkpoint: Path, tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tiny_checkpoint.parent)
    result = anyorder.infill("<mask:3>", model=tiny, seed=0)
    again = replace(tiny, name=tiny_checkpoint.name)
    assert again.name != tiny.name
    assert anyorder.log_prob(result, model=again) == pytest.approx(result.log_prob, abs=1e-5)
    with pytest.raises(ValueError, match="came from model"):
        anyorder.log_prob(result, model=replace(tiny, name=str(tiny_checkpoint.parent)))


@pytest.mark.parametrize("score", [anyorder.log_prob, anyorder.token_log_probs])
def test_a_model_that_returns_nan_is_an_error(tiny: Model, score: Any) -> None:
    broken = copy.deepcopy(tiny.network)
    with torch.no_grad():
        broken.layer(0).attention_norm.bias.fill_(torch.nan)
    with pytest.raises(ValueError, match="not numbers"):
        score(TEXT, SPANS, model=replace(tiny, network=broken))


def test_a_result_of_another_model_is_refused(tiny: Model, tiny_checkpoint: Any) -> None:
    result = anyorder.infill("<mask:3>", model=tiny, seed=0)
    other = Model(name="other", network=tiny.network, codec=tiny.codec, settings=tiny.settings)
    with pytest.raises(ValueError, match="came from model"):
        anyorder.log_prob(result, model=other)
    with pytest.raises(TypeError, match="its own blanks"):
        anyorder.log_prob(result, [(0, 1)], model=tiny)
    with pytest.raises(TypeError, match="texts must be a list"):
        anyorder.log_prob_batch(TEXT, model=tiny)


def test_a_cropped_text_is_scored_within_its_window(tiny: Model) -> None:
    text = "".join(f"value{number} = {number}\n" for number in range(60))
    spans = [(300, 305)]
    with pytest.raises(ValueError, match='context="crop"'):
        anyorder.log_prob(text, spans, model=tiny)
    assert -100 < anyorder.log_prob(text, spans, model=tiny, context="crop") < 0
    ranked = anyorder.rank(text, spans[0], ["=", "value", " 20"], model=tiny, context="crop")
    assert len(ranked) == 3
