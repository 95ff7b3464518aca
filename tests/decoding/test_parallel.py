"""Parallel decoding draws each group as if its members were independent, says that it is lossy, and is scored."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from branches import output_distribution
from joint import decoded_distribution, exact_joint, ragged_cases, total_variation
from table_model import TableModel
from test_losslessness import PIECES, STRINGS, cases_with_forbidden_strings
from torch import Tensor

from anyorder.decoding import DecodeOptions
from anyorder.likelihood import joint_log_prob
from anyorder.sampling import Sampling
from anyorder.uniforms import Uniforms
from anyorder.visibility import content_rows, draft_rows

MODEL = TableModel(3, seed=5)


def parallel(steps: int = 1) -> DecodeOptions:
    return DecodeOptions(method="parallel", steps=steps)


def test_one_group_is_the_product_of_the_parallel_conditionals() -> None:
    cases = ragged_cases(3, (3, 2, 3), scrambled=True)
    order, ahead = cases.order, torch.arange(6)
    prompt = content_rows(order, torch.where(ahead < order.num_prompt[:, None], ahead, 6))
    asked = order.num_prompt[:, None] + torch.arange(3)
    query = draft_rows(torch.where(asked < order.length[:, None], asked, 6), order.num_prompt)
    q = MODEL.forward(cases.tokens, order.sigma, None, encode=prompt, query=query).softmax(-1)
    # A target that a row does not have counts as token 0.
    q = torch.where(q.isnan(), torch.eye(3, dtype=torch.float64)[0], q)
    wanted = (q[:, 0, :, None, None] * q[:, 1, None, :, None] * q[:, 2, None, None, :]).flatten(1)
    assert total_variation(decoded_distribution(MODEL, cases, parallel()), wanted) <= 1e-12


def test_as_many_groups_as_targets_is_exact() -> None:
    cases = ragged_cases(3, (3, 2, 3), scrambled=True)
    wanted = exact_joint(MODEL, cases, Sampling())
    assert total_variation(decoded_distribution(MODEL, cases, parallel(3)), wanted) <= 1e-9
    assert total_variation(decoded_distribution(MODEL, cases, parallel(1)), wanted) > 1e-3


@pytest.mark.parametrize(("steps", "passes"), [(1, [1, 1, 0, 1]), (3, [3, 1, 0, 3]), (50, [7, 1, 0, 4])])
def test_passes_are_the_groups_and_targets_are_split_evenly(steps: int, passes: list[int]) -> None:
    cases = ragged_cases(3, (7, 1, 0, 4), scrambled=True, width=9)
    generation = cases.run(torch.arange(4), Uniforms(range(4)), MODEL, parallel(steps))
    assert [stats.nfe for stats in generation.stats] == passes
    for stats, targets in zip(generation.stats, (7, 1, 0, 4), strict=True):
        assert sum(stats.draft_lengths) == stats.tokens == targets
        assert not stats.draft_lengths or max(stats.draft_lengths) - min(stats.draft_lengths) <= 1


def test_a_target_takes_one_random_number_whether_or_not_strings_are_watched() -> None:
    cases = cases_with_forbidden_strings()
    unwatched = dataclasses.replace(cases, forbidden=dataclasses.replace(cases.forbidden, strings=()))
    for watched in (cases, unwatched):
        uniforms, straight = Uniforms([0, 1]), Uniforms([0, 1])
        watched.run(torch.arange(2), uniforms, MODEL, parallel(2))
        straight.draw(cases.order.num_targets)
        assert torch.equal(uniforms.draw(torch.tensor([1, 1])), straight.draw(torch.tensor([1, 1])))


def test_it_says_that_it_is_lossy_and_counts_the_pass_that_scores_it() -> None:
    cases = ragged_cases(3, (4, 0, 1), scrambled=True)
    generation = cases.run(torch.arange(3), Uniforms([0, 1, 2]), MODEL, parallel())
    stats = generation.stats
    assert [(s.method, s.lossless, s.num_drafted, s.num_accepted) for s in stats] == [("parallel", False, 0, 0)] * 3
    assert [s.score_nfe for s in stats] == [1, 0, 1]
    scored = joint_log_prob(MODEL, generation.tokens, cases.order, forbidden=cases.forbidden)
    assert torch.equal(generation.log_probs, scored)


def test_no_forbidden_string_is_assembled_inside_a_group() -> None:
    cases = cases_with_forbidden_strings()

    def run(rows: Tensor, uniforms: Uniforms) -> Tensor:
        generation = cases.run(rows, uniforms, MODEL, parallel())
        texts = cases.order.select(rows).to_positions(generation.tokens)
        blanks = cases.forbidden.blank[rows]  # type: ignore[index]
        for text, blank in zip(texts.tolist(), blanks.tolist(), strict=True):
            for number in (0, 1):
                runs = "".join(
                    PIECES[token].decode() if place == number else "|" for token, place in zip(text, blank, strict=True)
                )
                assert not any(string.decode() in runs for string in STRINGS)
        return cases.outcome(rows, generation.tokens)

    run(torch.arange(2).repeat(60), Uniforms(range(120)))
    total = output_distribution(run, 2, cases.num_outcomes)
    assert torch.allclose(total.sum(1), torch.ones(2, dtype=torch.float64))
    unaware = dataclasses.replace(cases, forbidden=dataclasses.replace(cases.forbidden, strings=()))
    assert total_variation(total, decoded_distribution(MODEL, unaware, parallel())) > 1e-3
