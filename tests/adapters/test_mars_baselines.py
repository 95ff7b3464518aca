"""What MARS is compared with is what it says: a schedule that waits at blocks, and Jacobi decoding."""

from __future__ import annotations

import pytest
import torch
from causal_models import FAMILIES, network, ragged_prompts
from torch import Tensor

from anyorder.adapters import mars
from anyorder.adapters.causal import CausalModel
from benchmarks.mars_baselines import Run, jacobi, published_batch

BLOCK = 4
LIMIT = 20
NEVER_SURE, ALWAYS_SURE, SOMETIMES_SURE = 2.0, 0.0, 0.5


def alone(family: str, prompt: Tensor, tau: float) -> mars.Generated:
    result = mars.generate(network(family), prompt, tau=tau, block=BLOCK, max_new_tokens=LIMIT)
    assert isinstance(result, mars.Generated)
    return result


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tau", [SOMETIMES_SURE, ALWAYS_SURE])
def test_within_one_block_of_the_cache_it_is_our_threshold_decoding(family: str, tau: float) -> None:
    """Nothing waits then, so texts and passes of the batch are ours, and the passes those of the slowest."""
    prompts = ragged_prompts(5)
    made = published_batch(network(family), prompts, max_new_tokens=LIMIT, tau=tau, block=BLOCK, cache_block=LIMIT)
    ours = [alone(family, prompt, tau) for prompt in prompts]
    assert made.tokens == [list(result.token_ids) for result in ours]
    assert made.num_passes == max(result.stats.nfe for result in ours)


@pytest.mark.parametrize("cache_block", [3, 8])
def test_a_batch_is_its_sequences_but_waits_at_every_block(cache_block: int) -> None:
    model, prompts = network("qwen2"), ragged_prompts(5)

    def run(some: list[Tensor], limit: int = LIMIT) -> list[list[int]]:
        made = published_batch(
            model, some, max_new_tokens=limit, tau=SOMETIMES_SURE, block=BLOCK, cache_block=cache_block
        )
        passes.append(made.num_passes)
        return made.tokens

    passes: list[int] = []
    together = run(prompts)
    assert [text for prompt in prompts for text in run([prompt])] == together
    # A block costs the passes of its slowest sequence, and a sequence alone does its blocks one after the other.
    waited = 0
    before = [0] * len(prompts)
    for limit in range(cache_block, LIMIT + cache_block, cache_block):
        passes = []
        for prompt in prompts:
            run([prompt], min(limit, LIMIT))
        waited += max(now - old for now, old in zip(passes, before, strict=True))
        before = passes
    passes = []
    run(prompts)
    assert passes == [waited]
    assert waited > max(before) or cache_block > 3  # with longer blocks one sequence may be the slowest in all


def test_a_model_that_is_never_sure_decides_greedily_one_token_a_pass() -> None:
    prompts = ragged_prompts(4)
    made = published_batch(network("llama"), prompts, max_new_tokens=LIMIT, tau=NEVER_SURE, block=BLOCK, cache_block=8)
    assert made.tokens == [list(alone("llama", prompt, 1.0).token_ids) for prompt in prompts]


def test_a_model_that_is_always_sure_takes_a_block_a_pass() -> None:
    """Eight tokens of the cache's block are two passes of four; the last four of twenty are one."""
    model = network("qwen3", eos_ids=())
    made = published_batch(model, ragged_prompts(3), max_new_tokens=LIMIT, tau=ALWAYS_SURE, block=BLOCK, cache_block=8)
    assert made.num_passes == 2 + 2 + 1
    assert [len(text) for text in made.tokens] == [LIMIT] * 3


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("width", [1, 5])
def test_jacobi_decoding_is_the_plain_loop_without_a_cache(family: str, width: int) -> None:
    for prompt in ragged_prompts(4):
        made = jacobi(network(family), [prompt], LIMIT, width=width)
        assert made.tokens == [list(alone(family, prompt, 1.0).token_ids)]
        assert made == plain_jacobi(network(family), prompt, width)


def plain_jacobi(model: CausalModel, prompt: Tensor, width: int) -> Run:
    """Read everything anew in every pass."""
    text, guesses, passes = prompt.tolist(), list[int](), 0
    while len(text) - len(prompt) < LIMIT and model.config.eos_ids[0] not in text[len(prompt) :]:
        tokens = torch.tensor([text + guesses])
        place = torch.arange(tokens.shape[1])
        hidden = model(tokens, place[None], (place[:, None] >= place)[None])
        best = model.logits(hidden)[0, len(text) - 1 :].argmax(-1).tolist()
        kept = next((i for i, guess in enumerate(guesses) if guess != best[i]), len(guesses))
        new = best[: kept + 1]
        if model.config.eos_ids[0] in new:
            new = new[: new.index(model.config.eos_ids[0]) + 1]
        text, passes = text + new, passes + 1
        left = LIMIT - (len(text) - len(prompt)) - 1
        guesses = [best[min(kept + 1 + i, len(best) - 1)] for i in range(min(width, left))]
    return Run([text[len(prompt) :]], passes)


def test_jacobi_keeps_guesses_where_a_text_repeats_itself() -> None:
    """A model that says one token for ever decides a token and its three guesses a pass, once it has guessed."""
    model = network("qwen2", eos_ids=())
    for weight in (model.norm, model.head.weight):
        weight.zero_()
    made = jacobi(model, [torch.tensor([0, 0])], 13, width=3)
    assert made.tokens == [[0] * 13]
    assert made.num_passes == 1 + 12 // 4
