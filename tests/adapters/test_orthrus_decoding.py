"""Orthrus' decoding is the base's greedy decoding whatever the view says, and takes the passes that theory says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from causal_models import (
    EAGER,
    FAMILIES,
    VOCAB,
    greedy_by_transformers,
    make,
    network,
    ragged_prompts,
    reference,
    with_view,
)
from torch import Tensor

from anyorder.adapters import mars, orthrus
from anyorder.adapters.causal import CausalModel
from anyorder.adapters.causal.cache import SlotCache
from anyorder.adapters.causal.rows import Rows
from anyorder.draft_length import DraftLengthPolicy

K, LENGTH = 4, 23


class Way(NamedTuple):
    """A view and how it is decoded."""

    anchor: Any
    options: dict[str, Any]


CYCLES = {
    "one pass": Way("frozen", {}),
    "one pass, every outcome": Way("frozen", {"lookahead": "quadratic"}),
    "two passes": Way("frozen", {"cycle": "two-pass"}),
    "two passes, anchor in the view": Way("trainable", {}),
}
CHOSEN = {
    "denoised twice": Way("trainable", {"denoising": 2}),
    "one pass, adaptive": Way("frozen", {"policy": EAGER}),
    "two passes, adaptive": Way("frozen", {"cycle": "two-pass", "policy": EAGER}),
    "anchor in the view, adaptive": Way("trainable", {"policy": EAGER}),
    "one pass, sure ones": Way("frozen", {"confidence": 0.4}),
    "anchor in the view, sure ones": Way("trainable", {"confidence": 0.4}),
    "block of two": Way("trainable", {"block": 2}),
    "block of one": Way("frozen", {"block": 1}),
    "longer than trained": Way("frozen", {"block": 7}),
}
DRAWN = {
    "one pass, T = 1": Way("frozen", {"temperature": 1.0, "seed": 11}),
    "anchor in the view, T = 0.7, top-k, top-p": Way(
        "trainable", {"temperature": 0.7, "top_k": 9, "top_p": 0.9, "seed": 5}
    ),
    "adaptive, T = 1": Way("frozen", {"policy": EAGER, "temperature": 1.0, "seed": 3}),
    "long prompts in chunks": Way("trainable", {"chunk": 2}),
}
WAYS = {**CYCLES, **CHOSEN, **DRAWN}


def run(way: str, prompts: Any, family: str = "qwen3", **options: Any) -> Any:
    """Decode with a random view."""
    anchor, chosen = WAYS[way]
    return orthrus.generate(with_view(family, anchor, sharpness=1.5), prompts, **(chosen | options))


def ids(results: list[orthrus.Generated]) -> list[list[int]]:
    return [list(result.token_ids) for result in results]


@pytest.mark.parametrize("std", [None, 0.0, 0.3])
@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_text_is_generates_for_a_fresh_a_zero_and_a_random_view(family: str, std: float | None) -> None:
    prompts = ragged_prompts(12)
    wanted = greedy_by_transformers(reference(family), prompts, 10)
    assert len({len(row) for row in wanted}) > 2
    ways = CYCLES if std != 0.3 else CYCLES | CHOSEN
    for anchor, options in ways.values():
        model = with_view(family, anchor, std=std)
        assert ids(orthrus.generate(model, prompts, max_new_tokens=10, **options)) == wanted, (anchor, options)


def test_a_model_of_transformers_is_taken_as_it_is_and_stays_so() -> None:
    theirs, prompts = make("llama"), ragged_prompts(3)
    before = {name: tensor.clone() for name, tensor in theirs.state_dict().items()}
    wanted = greedy_by_transformers(theirs, prompts, 5)
    assert ids(orthrus.generate(orthrus.attach(theirs), prompts, max_new_tokens=5)) == wanted
    assert all(torch.equal(tensor, before[name]) for name, tensor in theirs.state_dict().items())


Say = Callable[[int, int], int]
"""(place in the text, number of the draft in its block) -> the token to draft there."""


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> list[Say]:
    """While it holds a ``Say``, rows in the view answer what that says, for the one sequence of a batch."""
    says: list[Say] = []
    honest = CausalModel.step

    def step(self: CausalModel, tokens: Tensor, rows: Rows, cache: SlotCache, *, asked: Tensor) -> Tensor:
        logits = honest(self, tokens, rows, cache, asked=asked)
        offset: dict[int, int] = {}
        for column, row in enumerate(asked[0].tolist() if says else []):
            if row < rows.slots.shape[1] and bool(rows.in_view[0, row]):
                group = int(rows.group_start[0, row])
                number = offset[group] = offset.get(group, -1) + 1
                logits[0, column] = 0
                logits[0, column, says[-1](int(rows.positions[0, row]) + 1, number)] = 50.0
        return logits

    monkeypatch.setattr(CausalModel, "step", step)
    return says


def continuation(family: str, prompt: Tensor) -> list[int]:
    """The prompt with its greedy continuation, further than any draft reaches."""
    result = mars.generate(network(family), prompt, tau=1.0, max_new_tokens=LENGTH + 2 * K, eos_ids=())
    assert isinstance(result, mars.Generated)
    return [*prompt.tolist(), *result.token_ids]


PROMPT = torch.tensor([3, 7, 4])


def scripted(family: str, way: str, says: list[Say], say: Say) -> orthrus.Generated:
    says.append(say)
    anchor, options = WAYS[way]
    result = orthrus.generate(with_view(family, anchor), PROMPT, max_new_tokens=LENGTH, eos_ids=(), **options)
    says.clear()
    assert isinstance(result, orthrus.Generated)
    return result


@pytest.mark.parametrize("family", FAMILIES)
def test_an_oracle_gets_the_passes_of_theory(family: str, script: list[Say]) -> None:
    """One pass: one, then K tokens each. Two: K + 1 with the bonus. Published: one, then K every two passes."""
    text = continuation(family, PROMPT)
    beyond = LENGTH - 1
    wanted = {
        "one pass": 1 - (-beyond // K),
        "one pass, every outcome": 1 - (-beyond // K),
        "two passes": 2 * (LENGTH // (K + 1)) + min(LENGTH % (K + 1), 2),
        "two passes, anchor in the view": 1 + 2 * (beyond // K) + min(beyond % K, 2),
        "denoised twice": 1 + 3 * (beyond // K) + (0, 1, 2, 3)[beyond % K],
    }
    for way, passes in wanted.items():
        result = scripted(family, way, script, lambda place, _: text[place])
        assert list(result.token_ids) == text[3 : 3 + LENGTH]
        assert result.stats.nfe == passes, way
        assert result.stats.offered == result.stats.accepted


@pytest.mark.parametrize("family", FAMILIES)
def test_an_adversary_costs_no_pass_unless_the_anchor_is_in_the_view(family: str, script: list[Say]) -> None:
    """Never below one token a pass; published, a draft pass is lost every time, and the last token needs none."""
    text = continuation(family, PROMPT)
    for way in CYCLES:
        result = scripted(family, way, script, lambda place, _: (text[place] + 1) % VOCAB)
        assert list(result.token_ids) == text[3 : 3 + LENGTH]
        assert sum(result.stats.accepted) == 0 < sum(result.stats.offered)
        assert result.stats.nfe == (2 * LENGTH - 2 if "anchor" in way else LENGTH), way


@pytest.mark.parametrize("way", CYCLES)
@pytest.mark.parametrize("index", range(K - 1))
def test_a_rejection_at_every_index_keeps_what_was_before_it(way: str, index: int, script: list[Say]) -> None:
    text = continuation("qwen2", PROMPT)
    result = scripted(
        "qwen2", way, script, lambda place, number: text[place] if number < index else (text[place] + 1) % VOCAB
    )
    assert list(result.token_ids) == text[3 : 3 + LENGTH]
    assert result.stats.accepted[:index] == result.stats.offered[:index]
    assert result.stats.accepted[index:] == (0,) * (K - 1 - index)
    assert min(result.stats.offered) > 0


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_is_its_sequences_and_takes_the_passes_of_the_slowest(way: str, passes: list[list[int]]) -> None:
    """Ragged prompts that hold the id that ends a text; nobody waits, nobody computes for those who left."""
    prompts, limits = ragged_prompts(6), [9, 3, 0, 11, 1, 11]
    together = run(way, prompts, max_new_tokens=limits)
    counted_passes = list(passes)
    for row, prompt in enumerate(prompts):
        alone = run(way, prompt, max_new_tokens=limits[row])
        assert alone.token_ids == together[row].token_ids
        counted = ("nfe", "prefill_nfe", "rows", "prefill_rows", "mask_rows", "offered", "accepted", "ended", "tokens")
        for name in counted:
            assert getattr(alone.stats, name) == getattr(together[row].stats, name), name
    assert len(counted_passes) == max(result.stats.nfe + result.stats.prefill_nfe for result in together)
    assert sum(map(sum, counted_passes)) == sum(result.stats.rows for result in together)
    assert 0 not in {rows for taken in counted_passes for rows in taken}


@pytest.mark.parametrize("way", WAYS)
def test_passes_are_counted_as_they_are_made(way: str, passes: list[list[int]]) -> None:
    result = run(way, list(range(1, 8)), max_new_tokens=13)
    stats = result.stats
    assert stats.nfe + stats.prefill_nfe == len(passes)
    assert stats.rows == sum(rows for (rows,) in passes)
    assert stats.prefill_nfe == (3 if "chunk" in way else 0)
    assert stats.tokens == len(result.token_ids)
    assert stats.lossless
    assert stats.tokens_per_forward == stats.tokens / stats.nfe


@pytest.mark.parametrize("way", WAYS)
def test_the_number_of_new_tokens_is_exact_and_a_text_ends_at_its_first_end(way: str) -> None:
    """Every token that occurs is made the end once, so runs are cut at their first, middle and last token."""
    for limit in (0, 1, K - 1, K, K + 1):
        results = run(way, ragged_prompts(5), max_new_tokens=limit, eos_ids=())
        assert [len(result.token_ids) for result in results] == [limit] * 5
        assert {result.stats.ended for result in results} == {"length"}
    prompt = torch.tensor([5, 0, 7])
    free = run(way, prompt, max_new_tokens=9, eos_ids=()).token_ids
    for end in dict.fromkeys(free):
        result = run(way, prompt, max_new_tokens=9, eos_ids=[end, end])
        assert result.token_ids == free[: free.index(end) + 1]
        assert result.stats.ended == "eos"


@pytest.mark.parametrize("way", ["one pass", "two passes, anchor in the view"])
def test_what_streams_is_what_returns(way: str) -> None:
    heard: dict[int, list[int]] = {}
    last: list[int] = []

    def listen(new: orthrus.NewTokens) -> None:
        assert new.token_ids
        assert new.sequence not in last
        heard.setdefault(new.sequence, []).extend(new.token_ids)
        last.extend([new.sequence] * new.is_last)

    results = run(way, ragged_prompts(5), max_new_tokens=10, on_tokens=listen)
    assert [heard[row] for row in range(5)] == ids(results)
    assert sorted(last) == list(range(5))


def test_padding_on_either_side_is_no_prompt() -> None:
    wanted = ids(run("one pass", [[3, 4, 5], [6]], max_new_tokens=6))
    left, right = torch.tensor([[3, 4, 5], [0, 0, 6]]), torch.tensor([[3, 4, 5], [6, 0, 0]])
    for padded, mask in ((left, [[1, 1, 1], [0, 0, 1]]), (right, [[1, 1, 1], [1, 0, 0]])):
        assert ids(run("one pass", padded, attention_mask=torch.tensor(mask), max_new_tokens=6)) == wanted
    assert run("one pass", []) == []


def test_the_same_seed_is_the_same_text_and_is_recorded_when_none_was_given() -> None:
    prompts = ragged_prompts(4)
    drawn = run("one pass, T = 1", prompts, seed=None, max_new_tokens=12)
    again = run("one pass, T = 1", prompts, seed=[result.seed for result in drawn], max_new_tokens=12)
    assert ids(drawn) == ids(again)
    assert ids(drawn) != ids(run("one pass, T = 1", prompts, seed=drawn[0].seed + 1, max_new_tokens=12))


@pytest.mark.parametrize("anchor", ["frozen", "trainable"])
def test_only_sure_rows_are_drafted_but_a_pass_that_only_drafts_is_used(anchor: Any) -> None:
    model, prompts = with_view("qwen3", anchor, sharpness=1.5), ragged_prompts(6)
    offered = []
    for confidence in (0.0, 0.5, 0.9, 1.0):
        results = orthrus.generate(model, prompts, max_new_tokens=12, confidence=confidence, eos_ids=())
        assert isinstance(results, list)
        offered.append([sum(result.stats.offered[index] for result in results) for index in range(3)])
    assert offered[0][2] > offered[1][2] > offered[2][2] >= offered[3][2]
    assert offered[3][0] == 0 if anchor == "frozen" else offered[3][0] > 0 == offered[3][1]


@pytest.mark.parametrize(
    ("anchor", "options", "error", "message"),
    [
        ("trainable", {"cycle": "one-pass"}, ValueError, "one-pass cycle needs a view with anchor='frozen'"),
        ("frozen", {"cycle": "three-pass"}, ValueError, "one-pass, two-pass; got 'three-pass'"),
        ("frozen", {"lookahead": "alternate"}, ValueError, "linear, quadratic; got 'alternate'"),
        ("frozen", {"policy": DraftLengthPolicy(), "lookahead": "quadratic"}, ValueError, "leave lookahead out"),
        ("trainable", {"lookahead": "quadratic"}, ValueError, "lookahead is of the one-pass cycle"),
        ("frozen", {"block": 0}, ValueError, "block must be at least 1; got 0"),
        ("frozen", {"block": 2.0}, TypeError, "block must be an integer; got 2.0"),
        ("frozen", {"policy": "adaptive"}, TypeError, "policy must be a DraftLengthPolicy or None; got str"),
        ("frozen", {"confidence": 1.5}, ValueError, r"confidence must lie in \[0, 1\] .* got 1.5"),
        ("frozen", {"confidence": float("nan")}, ValueError, r"confidence must lie in \[0, 1\]"),
        ("frozen", {"confidence": "high"}, TypeError, "confidence must be a number; got 'high'"),
        ("trainable", {"denoising": 3}, ValueError, "denoising must be 1 or 2; got 3"),
        ("frozen", {"denoising": 2}, ValueError, "denoising=2 is for a view with anchor='trainable'"),
        ("frozen", {"chunk": 0}, ValueError, "chunk must be at least 1; got 0"),
        ("frozen", {"temperature": -1.0}, ValueError, "temperature must be"),
        ("frozen", {"max_new_tokens": [1]}, ValueError, "max_new_tokens has 1 values for 2 prompts"),
        ("frozen", {"max_new_tokens": 4000}, ValueError, "exceed the 2048 positions"),
        ("frozen", {"eos_ids": 99}, ValueError, r"range\(13\), the vocabulary; got 99"),
    ],
)
def test_bad_options_are_one_sentence(
    anchor: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        orthrus.generate(with_view("qwen2", anchor), [[1, 2], [3]], **options)


@pytest.mark.parametrize("way", CYCLES)
def test_a_model_that_returns_no_numbers_is_found_out(way: str) -> None:
    model = with_view("qwen2", CYCLES[way].anchor)
    with torch.no_grad():
        model.norm.fill_(float("nan"))
    with pytest.raises(ValueError, match="are its weights intact"):
        orthrus.generate(model, [1, 2], **CYCLES[way].options)
