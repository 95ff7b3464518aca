"""MARS' decoding: greedy is greedy, a batch is its sequences, limits are exact, and the books are right."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from causal_models import (
    EAGER,
    FAMILIES,
    VOCAB,
    causal_logits,
    greedy_by_transformers,
    network,
    ragged_prompts,
    reference,
    stubborn,
)
from torch import Tensor

from anyorder.adapters import mars
from anyorder.adapters.causal import CausalModel
from anyorder.adapters.causal.cache import SlotCache
from anyorder.adapters.causal.drafted import confidence_of, decode_verified
from anyorder.adapters.causal.rows import Rows
from anyorder.adapters.causal.schedules import Constant
from anyorder.adapters.causal.session import Layout, Session, Task
from anyorder.adapters.mars.decoding import Thresholds, decode_threshold
from anyorder.draft_length import DraftLengthPolicy
from anyorder.sampling import Sampling
from anyorder.uniforms import Uniforms

VERIFY: dict[str, dict[str, Any]] = {
    "linear": {"mode": "verify"},
    "quadratic": {"mode": "verify", "lookahead": "quadratic"},
    "linear, a mask more": {"mode": "verify", "masks": 4},
    "quadratic, block of two": {"mode": "verify", "lookahead": "quadratic", "block": 2},
    "no masks": {"mode": "verify", "masks": 0},
    "adaptive": {"mode": "verify", "policy": EAGER},
}
METHODS: dict[str, dict[str, Any]] = {
    "tau = 1": {"tau": 1.0},
    "tau = 0.3": {"tau": 0.3},
    "tau = 0": {"tau": 0.0, "masks": 4},
    **VERIFY,
    "adaptive, T = 1": {"mode": "verify", "policy": EAGER, "masks": 4, "temperature": 1.0, "seed": 3},
    "linear, T = 1": {"mode": "verify", "temperature": 1.0, "seed": 11},
    "quadratic, T = 0.7, top-k, top-p": {
        "mode": "verify",
        "lookahead": "quadratic",
        "temperature": 0.7,
        "top_k": 9,
        "top_p": 0.9,
        "seed": 5,
    },
    "long prompts in chunks": {"mode": "verify", "chunk": 2},
}
SHARP = 1.5
"""Multiplies logits so that random models are sure often enough for thresholds to be crossed."""


def ids(results: list[mars.Generated]) -> list[list[int]]:
    return [list(result.token_ids) for result in results]


@pytest.mark.parametrize("family", FAMILIES)
def test_tau_of_one_and_verify_mode_are_generate_whatever_the_weights(family: str) -> None:
    prompts, model = ragged_prompts(20), network(family)
    wanted = greedy_by_transformers(reference(family), prompts, 12)
    assert len({len(row) for row in wanted}) > 2
    for options in ({"tau": 1.0}, {"tau": 7.0}, *VERIFY.values()):
        assert ids(mars.generate(model, prompts, max_new_tokens=12, **options)) == wanted, options


def test_a_model_of_transformers_is_taken_as_it_is() -> None:
    prompts = ragged_prompts(3)
    wanted = greedy_by_transformers(reference("llama"), prompts, 5)
    assert ids(mars.generate(reference("llama"), prompts, max_new_tokens=5, mode="verify")) == wanted


def test_tau_of_one_takes_one_token_a_pass_even_where_a_rounded_probability_is_one() -> None:
    """The published comparison, p >= 1.0, would take every one of these candidates."""
    model, prompt = network("qwen2", sharpness=1000.0).to(torch.bfloat16), torch.tensor([3, 4])
    sure = causal_logits(model, prompt[None]).float().softmax(-1).amax(-1)
    assert bool((sure == 1).all())
    stats = mars.generate(model, prompt, tau=1.0, max_new_tokens=9, eos_ids=()).stats
    assert (stats.nfe, stats.tokens, stats.mask_rows, stats.lossless) == (9, 9, 0, True)
    lossy = mars.generate(model, prompt, tau=0.99, max_new_tokens=9, eos_ids=()).stats
    assert (lossy.nfe, lossy.lossless) == (3, False)


def slow_threshold(model: CausalModel, prompt: Tensor, tau: float, masks: int, limit: int, eos: int) -> list[int]:
    """The published loop without a cache: one whole pass over [decided tokens, masks] a round."""
    text, start = prompt.tolist(), len(prompt)
    while len(text) - start < limit:
        width = len(text) + masks
        place, is_mask = torch.arange(width), torch.arange(width)[None] >= len(text)
        tokens = torch.tensor([text + [0] * masks])
        logits = model.logits(model(tokens, place[None], (place[:, None] >= place)[None], is_mask))[0, len(text) - 1 :]
        for number, row in enumerate(logits.softmax(-1)):
            if number and float(row.max()) < tau:
                break
            text.append(int(row.argmax()))
            if text[-1] == eos or len(text) - start == limit:
                return text[start:]
    return text[start:]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("masks", [3, 4])
@torch.no_grad()
def test_threshold_mode_is_the_published_loop_without_its_cache(family: str, masks: int) -> None:
    model, prompts = network(family, sharpness=SHARP), ragged_prompts(6)
    results = mars.generate(model, prompts, tau=0.5, masks=masks, max_new_tokens=14)
    assert ids(results) == [slow_threshold(model, prompt, 0.5, masks, 14, eos=0) for prompt in prompts]
    kept, offered = (sum(sum(getattr(r.stats, name)) for r in results) for name in ("accepted", "offered"))
    assert 0 < kept < offered


@pytest.mark.parametrize(
    ("family", "method"),
    [("qwen3", method) for method in METHODS]
    + [
        (family, method)
        for family in ("qwen2", "llama")
        for method in ("tau = 0.3", "quadratic, T = 0.7, top-k, top-p")
    ],
)
def test_a_batch_is_its_sequences_and_takes_the_passes_of_the_slowest(
    family: str, method: str, passes: list[list[int]]
) -> None:
    """Ragged prompts that hold the id that ends a text and pads; nobody waits, nobody computes for those who left."""
    model, prompts, limits = network(family, sharpness=SHARP), ragged_prompts(6), [9, 3, 0, 11, 1, 11]
    together = mars.generate(model, prompts, max_new_tokens=limits, **METHODS[method])
    counted_passes = list(passes)
    for row, prompt in enumerate(prompts):
        alone = mars.generate(model, prompt, max_new_tokens=limits[row], **METHODS[method])
        assert alone.token_ids == together[row].token_ids
        counted = ("nfe", "prefill_nfe", "rows", "prefill_rows", "mask_rows", "offered", "accepted", "ended", "tokens")
        for name in counted:
            assert getattr(alone.stats, name) == getattr(together[row].stats, name), name
    assert len(counted_passes) == max(result.stats.nfe + result.stats.prefill_nfe for result in together)
    assert sum(map(sum, counted_passes)) == sum(result.stats.rows for result in together)
    assert len(counted_passes[-1]) < 5
    assert 0 not in {rows for taken in counted_passes for rows in taken}


@pytest.mark.parametrize("method", METHODS)
def test_passes_are_counted_as_they_are_made(method: str, passes: list[list[int]]) -> None:
    result = mars.generate(network("qwen3", sharpness=SHARP), list(range(1, 8)), max_new_tokens=13, **METHODS[method])
    stats = result.stats
    assert stats.nfe + stats.prefill_nfe == len(passes)
    assert stats.rows == sum(rows for (rows,) in passes)
    assert stats.prefill_nfe == (3 if "chunk" in METHODS[method] else 0)
    assert stats.tokens == len(result.token_ids)
    assert 0 < stats.prefill_seconds <= stats.seconds
    assert stats.tokens_per_forward == stats.tokens / stats.nfe


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("limit", [0, 1, 3, 4, 5])
def test_the_number_of_new_tokens_is_exact(method: str, limit: int) -> None:
    model = network("llama", sharpness=SHARP)
    results = mars.generate(model, ragged_prompts(5), max_new_tokens=limit, eos_ids=(), **METHODS[method])
    assert [len(result.token_ids) for result in results] == [limit] * 5
    assert {result.stats.ended for result in results} == {"length"}
    assert limit or all(result.stats.nfe == 0 for result in results)


@pytest.mark.parametrize("method", METHODS)
def test_a_text_ends_at_its_first_end_wherever_that_falls_in_a_run(method: str) -> None:
    """Every token that occurs is made the end once, so runs are cut at their first, middle and last token."""
    model, prompt = network("qwen2", sharpness=SHARP), torch.tensor([5, 0, 7])
    free = mars.generate(model, prompt, max_new_tokens=12, eos_ids=(), **METHODS[method]).token_ids
    for end in dict.fromkeys(free):
        result = mars.generate(model, prompt, max_new_tokens=12, eos_ids=end, **METHODS[method])
        assert result.token_ids == free[: free.index(end) + 1]
        assert result.stats.ended == "eos"
        assert result.stats.tokens == len(result.token_ids)


@pytest.mark.parametrize("lookahead", ["linear", "quadratic"])
@pytest.mark.parametrize("masks", [1, 3, 4])
def test_drafts_that_are_all_right_make_every_pass_but_the_first_decide_one_more_than_it_drafted(
    lookahead: Any, masks: int
) -> None:
    options: dict[str, Any] = {"mode": "verify", "lookahead": lookahead, "masks": masks, "max_new_tokens": 23}
    stats = mars.generate(stubborn(5, 5), [3, 4], **options).stats
    assert stats.nfe == 1 + -(-22 // (masks + 1))
    assert stats.offered == stats.accepted


@pytest.mark.parametrize(("lookahead", "drafting"), [("linear", 11), ("quadratic", 21)])
def test_drafts_that_are_all_wrong_cost_no_pass(lookahead: Any, drafting: int) -> None:
    """Linear masks follow the drafts, so a pass that rejects leaves none for the next; quadratic ones always do."""
    options: dict[str, Any] = {"mode": "verify", "lookahead": lookahead, "max_new_tokens": 23}
    result = mars.generate(stubborn(5, 6), [3, 4], **options)
    assert result.token_ids == (5,) * 23
    assert result.stats.nfe == 23
    assert result.stats.accepted == (0, 0, 0)
    assert abs(result.stats.offered[0] - drafting) <= 1


def test_a_policy_drafts_where_that_pays_and_stops_where_no_draft_is_kept() -> None:
    options: dict[str, Any] = {"mode": "verify", "policy": EAGER, "max_new_tokens": 60}
    right, wrong = (mars.generate(stubborn(5, drafted), [3, 4], **options).stats for drafted in (5, 6))
    assert right.nfe <= 20
    assert wrong.nfe == 60
    assert sum(wrong.offered) < sum(
        mars.generate(stubborn(5, 6), [3, 4], mode="verify", max_new_tokens=60).stats.offered
    )


def test_several_ids_end_a_text_and_the_models_own_are_the_default() -> None:
    model, prompt = network("qwen2"), torch.tensor([5, 6])
    options: dict[str, Any] = {"mode": "verify", "temperature": 1.0, "seed": 7, "max_new_tokens": 12}
    free = mars.generate(model, prompt, eos_ids=(), **options).token_ids
    distinct = list(dict.fromkeys(free))
    first, second = distinct[1], distinct[2]
    ended = mars.generate(model, prompt, eos_ids=[second, first], **options)
    assert ended.token_ids == free[: free.index(first) + 1]
    default = mars.generate(model, prompt, **options)
    assert default.token_ids == mars.generate(model, prompt, eos_ids=0, **options).token_ids
    assert 0 in free
    assert default.token_ids == free[: free.index(0) + 1]


@pytest.mark.parametrize("method", METHODS)
def test_the_mask_is_never_emitted_even_where_the_head_favours_it(method: str) -> None:
    model, mask = network("llama", sharpness=SHARP), 8
    with torch.no_grad():
        model.head.weight[mask] = 0  # type: ignore[index]
        model.head.weight[mask] += 50 * model.norm.sign()  # type: ignore[index]
        prompts = ragged_prompts(6)
        flat = [
            token
            for result in mars.generate(model, prompts, max_new_tokens=8, **METHODS[method])
            for token in result.token_ids
        ]
        assert mask in flat
        model.use_mask_id(mask)
        results = mars.generate(model, prompts, max_new_tokens=8, **METHODS[method])
    assert mask not in [token for result in results for token in result.token_ids]


def test_a_mask_row_is_the_mask_ids_embedding_or_the_vector() -> None:
    vector, by_id = network("qwen3"), network("qwen3").use_mask_id(4)
    place, is_mask = torch.arange(3), torch.tensor([[False, True, True]])
    seen = (place[:, None] >= place)[None]
    hidden = by_id(torch.tensor([[9, 0, 0]]), place[None], seen, is_mask)
    assert torch.equal(hidden, by_id(torch.tensor([[9, 4, 4]]), place[None], seen))
    assert not torch.allclose(hidden, vector(torch.tensor([[9, 0, 0]]), place[None], seen, is_mask))
    with torch.no_grad():
        vector.mask_embedding.copy_(vector.embedding[4])
    assert torch.equal(hidden, vector(torch.tensor([[9, 0, 0]]), place[None], seen, is_mask))


def test_the_same_seed_is_the_same_text_and_is_recorded_when_none_was_given() -> None:
    model, prompts = network("qwen2"), ragged_prompts(4)
    options: dict[str, Any] = {"mode": "verify", "temperature": 1.0, "max_new_tokens": 12}
    drawn = mars.generate(model, prompts, **options)
    again = mars.generate(model, prompts, seed=[result.seed for result in drawn], **options)
    assert ids(drawn) == ids(again)
    assert ids(drawn) != ids(mars.generate(model, prompts, seed=drawn[0].seed + 1, **options))


def test_tau_is_one_number_or_one_a_prompt_or_a_function_asked_before_every_pass() -> None:
    model, prompts = network("qwen2", sharpness=SHARP), ragged_prompts(3)
    options: dict[str, Any] = {"max_new_tokens": 12, "eos_ids": ()}
    taus = (0.2, 1.0, 0.6)
    alone = [mars.generate(model, prompt, tau=tau, **options) for prompt, tau in zip(prompts, taus, strict=True)]
    together = mars.generate(model, prompts, tau=taus, **options)
    assert ids(together) == ids(alone)
    assert [result.stats.lossless for result in together] == [False, True, False]
    asked: list[tuple[int, int]] = []

    def dial(prompt: int, generated: int) -> float:
        asked.append((prompt, generated))
        return 0.0 if generated >= 10 else 1.0

    result = mars.generate(model, prompts[0], tau=dial, max_new_tokens=18, eos_ids=())
    assert asked == [(0, count) for count in (*range(11), 14)]
    assert not result.stats.lossless
    assert result.stats.nfe == 12


def test_a_lower_tau_never_takes_fewer_candidates_of_a_pass() -> None:
    model, prompts = network("llama", sharpness=SHARP), ragged_prompts(6)
    first_pass = [
        [sum(result.stats.accepted) for result in mars.generate(model, prompts, tau=tau, max_new_tokens=4, eos_ids=())]
        for tau in (0.99, 0.7, 0.4, 0.2, 0.0)
    ]
    assert all(sum(few) <= sum(more) for few, more in itertools.pairwise(first_pass))
    assert first_pass[-1] == [3] * 6


def test_confidence_is_a_probability_a_perplexity_or_a_margin() -> None:
    logits = torch.tensor([[0.5, 0.25, 0.25, 0.0]], dtype=torch.float64).log()
    assert float(confidence_of(logits, "probability")) == pytest.approx(0.5)
    assert float(confidence_of(logits, "margin")) == pytest.approx(0.25)
    assert float(confidence_of(logits, "entropy")) == pytest.approx(2**-1.5)
    model, prompts = network("qwen2", sharpness=SHARP), ragged_prompts(6)
    kinds = ("probability", "entropy", "margin")
    runs = [ids(mars.generate(model, prompts, tau=0.5, max_new_tokens=16, confidence=kind)) for kind in kinds]
    assert runs[0] != runs[1] != runs[2]


@pytest.mark.parametrize("method", ["tau = 0.3", "linear"])
def test_what_streams_is_what_returns(method: str) -> None:
    heard: dict[int, list[int]] = {}
    last: list[int] = []

    def listen(new: mars.NewTokens) -> None:
        assert new.token_ids
        assert new.sequence not in last
        heard.setdefault(new.sequence, []).extend(new.token_ids)
        last.extend([new.sequence] * new.is_last)

    results = mars.generate(
        network("qwen3", sharpness=SHARP), ragged_prompts(5), max_new_tokens=10, on_tokens=listen, **METHODS[method]
    )
    assert [heard[row] for row in range(5)] == ids(results)
    assert sorted(last) == list(range(5))


def test_prompts_come_as_lists_tensors_or_padded_on_either_side() -> None:
    model = network("qwen2")
    wanted = ids(mars.generate(model, [[3, 4, 5], [6]], mode="verify", max_new_tokens=6))
    left, right = torch.tensor([[3, 4, 5], [0, 0, 6]]), torch.tensor([[3, 4, 5], [6, 0, 0]])
    for padded, mask in ((left, [[1, 1, 1], [0, 0, 1]]), (right, [[1, 1, 1], [1, 0, 0]])):
        result = mars.generate(model, padded, attention_mask=torch.tensor(mask), mode="verify", max_new_tokens=6)
        assert ids(result) == wanted
    single = mars.generate(model, [3, 4, 5], mode="verify", max_new_tokens=6)
    assert list(single.token_ids) == wanted[0]
    assert mars.generate(model, []) == []


def test_a_session_shares_nothing_between_calls() -> None:
    model, prompts = network("qwen2"), ragged_prompts(3)
    task = Task(prompts, torch.tensor([6, 6, 6]), (), Sampling(temperature=0.0))
    once: list[list[list[int]]] = []
    for _ in range(2):
        session = Session(model, task, Layout(scratch=3, max_lag=3), uniforms=Uniforms([0, 0, 0]))
        decode_verified(session, Constant(3, "linear"))
        once.append(session.books.tokens)
    session = Session(model, task, Layout(scratch=3, max_lag=3), uniforms=Uniforms([0, 0, 0]))
    decode_threshold(session, Thresholds(1.0, 3), masks=3, confidence="probability")
    assert once[0] == once[1] == session.books.tokens


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"temperature": 1.0}, ValueError, "threshold mode is greedy: .* needs mode='verify'"),
        ({"policy": EAGER}, ValueError, "threshold mode keeps what tau says: a policy is of mode='verify'"),
        ({"mode": "verify", "policy": 3}, TypeError, "policy must be a DraftLengthPolicy or None; got int"),
        ({"mode": "fast"}, ValueError, "threshold, verify; got 'fast'"),
        (
            {"mode": "verify", "policy": DraftLengthPolicy(), "lookahead": "quadratic"},
            ValueError,
            "a policy chooses for which outcomes to draft: leave lookahead out",
        ),
        ({"lookahead": "cubic"}, ValueError, "linear, quadratic; got 'cubic'"),
        ({"confidence": "hope"}, ValueError, "probability, entropy, margin; got 'hope'"),
        ({"masks": 5}, ValueError, "at most the block, 4: .* got 5"),
        ({"masks": -1}, ValueError, "masks must be at least 0; got -1"),
        ({"block": 0}, ValueError, "block must be at least 1; got 0"),
        ({"block": 2.0}, TypeError, "block must be an integer; got 2.0"),
        ({"tau": -0.1}, ValueError, "tau must be at least 0 .* got -0.1"),
        ({"tau": float("nan")}, ValueError, "tau must be at least 0"),
        ({"tau": "low"}, TypeError, "tau must be a number; got 'low'"),
        ({"tau": [0.5]}, ValueError, "tau has 1 values for 2 prompts"),
        ({"max_new_tokens": -1}, ValueError, "max_new_tokens must be at least 0; got -1"),
        ({"max_new_tokens": 1.5}, TypeError, "max_new_tokens must be an integer"),
        ({"max_new_tokens": [1]}, ValueError, "max_new_tokens has 1 values for 2 prompts"),
        ({"max_new_tokens": 40000}, ValueError, "exceed the 2048 positions"),
        ({"seed": [1]}, ValueError, "seed has 1 values for 2 prompts"),
        ({"eos_ids": 99}, ValueError, r"range\(13\), the vocabulary; got 99"),
        ({"attention_mask": torch.ones(2, 2)}, ValueError, "attention_mask must have the shape"),
    ],
)
def test_bad_options_are_one_sentence(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        mars.generate(network("qwen2"), [[1, 2], [3]], **options)


@pytest.mark.parametrize(
    ("prompts", "error", "message"),
    [
        ([[1], []], ValueError, "prompt 1 is empty: .* BOS"),
        ([[1], [13]], ValueError, r"prompt 1 has ids outside range\(13\)"),
        ([[0.5]], TypeError, "prompt 0 must be a sequence of integer ids"),
        ("text", TypeError, "encode text with the model's tokenizer first"),
        (["text"], TypeError, "encode text with the model's tokenizer first"),
    ],
)
def test_bad_prompts_are_one_sentence(prompts: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        mars.generate(network("qwen2"), prompts)


@pytest.mark.parametrize("method", METHODS)
def test_a_model_that_returns_no_numbers_is_found_out(method: str) -> None:
    model = network("qwen2")
    with torch.no_grad():
        model.norm.fill_(float("nan"))
    with pytest.raises(ValueError, match="are its weights intact"):
        mars.generate(model, [1, 2], **METHODS[method])


@pytest.mark.parametrize("lookahead", ["linear", "quadratic"])
def test_mask_rows_that_return_no_numbers_are_found_out_where_drafts_are_drawn_from_them(
    lookahead: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(self: CausalModel, tokens: Tensor, rows: Rows, cache: SlotCache, *, asked: Tensor) -> Tensor:
        logits = plain_step(self, tokens, rows, cache, asked=asked)
        is_mask = torch.nn.functional.pad(rows.is_mask, (0, 1)).gather(1, asked.clamp(max=tokens.shape[1]))
        return logits.masked_fill(is_mask[..., None], torch.nan)

    plain_step = CausalModel.step
    model, options = network("qwen2"), {"mode": "verify", "lookahead": lookahead, "max_new_tokens": 6, "seed": 0}
    greedy = mars.generate(model, [[1, 2]], tau=1.0, max_new_tokens=6)
    monkeypatch.setattr(CausalModel, "step", step)
    with pytest.raises(ValueError, match="are its weights intact"):
        mars.generate(model, [1, 2], temperature=1.0, **options)  # type: ignore[arg-type]
    # Greedy drafts are held to what greedy decoding writes, whatever they come from.
    assert ids(mars.generate(model, [[1, 2]], **options)) == ids(greedy)  # type: ignore[arg-type]


def test_every_row_that_decided_is_looked_at_and_no_other() -> None:
    task = Task([torch.tensor([1, 2])], torch.tensor([9]), (), Sampling(temperature=0.0))
    for kept, is_found in ((0, False), (1, True), (2, True)):
        session = Session(network("qwen2"), task, Layout(scratch=0, max_lag=3), uniforms=Uniforms([0]))
        plan, _ = session.forward(session.no_drafts(), torch.tensor([0]), torch.zeros(1, 1, dtype=torch.long))
        logits = torch.zeros(1, 4, VOCAB)
        logits[:, 1] = torch.nan
        tokens, counts = torch.ones(1, 4, dtype=torch.long), torch.tensor([kept])
        with pytest.raises(ValueError, match="are its weights intact") if is_found else nullcontext():
            session.commit(tokens, counts, logits=logits, plan=plan, num_drafts=torch.tensor([3]), encoded=False)
