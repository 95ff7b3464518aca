"""The benchmark runs at tiny size and prints every line it promises; its baselines are what they say."""

from __future__ import annotations

import pytest
import torch
from causal_models import network, ragged_prompts, with_view

from anyorder.adapters import mars
from benchmarks.orthrus import agreement, main
from benchmarks.orthrus_baselines import against_itself, shallow, with_own_cache


def test_every_promised_line_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = [
        "--prompts",
        "2",
        "--max_new_tokens",
        "6",
        "--repeats",
        "1",
        "--batches",
        "1",
        "2",
        "--contexts",
        "20",
        "40",
    ]
    threads = torch.get_num_threads()
    main(["--smoke", "--threads", "1", *sizes])
    torch.set_num_threads(threads)
    printed = capsys.readouterr().out
    assert "ms of a pass: T(1)" in printed
    for batch in (1, 2):
        assert f"batch {batch}, 2 prompts" in printed
    for line in (
        "greedy, our cache",
        "frozen, K = 4, one pass",
        "frozen, K = 4, one pass, every outcome",
        "frozen, K = 4, one pass, adaptive, T = 1",
        "frozen, K = 4, two passes",
        "trainable, K = 4, two passes, adaptive",
        "trainable, K = 4, contrary",
    ):
        assert printed.count(f"\n{line}  ") == 2, line
    assert "trainable, K = 4, one pass" not in printed
    bytes_of = [line.split()[1:3] for line in printed.splitlines() if line.strip().startswith(("20 ", "40 "))]
    assert len(bytes_of) == 4
    assert len({view for view, _ in bytes_of}) == 1
    assert int(bytes_of[1][1]) > int(bytes_of[0][1])


def test_a_drafter_with_a_cache_of_its_own_writes_what_greedy_writes() -> None:
    model = network("qwen3")
    for drafter in (shallow(model, 1), shallow(model, 2)):
        for prompt in ragged_prompts(4):
            wanted = mars.generate(model, prompt, tau=1.0, max_new_tokens=14)
            assert isinstance(wanted, mars.Generated)
            made = with_own_cache(model, drafter, prompt, 14, width=3, eos_ids=model.config.eos_ids)
            assert tuple(made.tokens) == wanted.token_ids
    # The whole model drafts what it would say itself: three drafts and a bonus every pass but the first.
    made = with_own_cache(model, shallow(model, 2), torch.tensor([3, 4]), 13, width=3, eos_ids=model.config.eos_ids)
    assert made.num_passes <= 1 + 3 + 1


def test_the_contrary_of_a_view_costs_no_pass_and_no_text_where_the_anchor_is_frozen() -> None:
    prompts = ragged_prompts(3)
    wanted = mars.generate(network("qwen3"), prompts, tau=1.0, max_new_tokens=9)
    assert isinstance(wanted, list)
    tokens, passes = against_itself(with_view("qwen3", std=None), prompts, 9)
    assert tokens == [list(result.token_ids) for result in wanted]
    assert passes <= sum(map(len, tokens))


def test_texts_that_part_at_a_tie_are_told_from_those_that_do_not() -> None:
    model, prompt = network("qwen3"), torch.tensor([3, 4])
    with torch.no_grad():
        model.head.weight.zero_()  # type: ignore[union-attr]
    assert agreement(model, [prompt] * 3, [[5], [6], [5]], [[5], [5], [6]]).split() == ["0.33", "0.67"]
    other = network("qwen3")
    assert agreement(other, [prompt], [[1]], [[2]]).split() == ["0.00", "0.00"]
