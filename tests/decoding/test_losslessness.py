"""What decoding yields, summed over every branch of its randomness, is the joint of the declared order."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from joint import Cases, decoded_distribution, exact_joint, ragged_cases, total_variation
from methods import CORE, LOSSLESS, SAMPLINGS, options
from table_model import TableModel
from torch import Tensor

from anyorder.forbidden import Forbidden

TOLERANCE = 1e-9
MODEL = TableModel(3, seed=1)


@pytest.mark.parametrize("scrambled", [False, True], ids=["ascending", "scrambled"])
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("method", CORE)
def test_every_method_draws_from_the_joint(method: str, sampling: str, scrambled: bool) -> None:
    cases = ragged_cases(3, (3, 2, 3, 1, 0), scrambled=scrambled)
    wanted = exact_joint(MODEL, cases, SAMPLINGS[sampling])
    assert total_variation(decoded_distribution(MODEL, cases, options(method, sampling)), wanted) <= TOLERANCE


@pytest.mark.parametrize("method", LOSSLESS)
def test_every_method_draws_from_the_joint_of_four_targets(method: str) -> None:
    cases = ragged_cases(3, (4, 4), scrambled=True)
    wanted = exact_joint(MODEL, cases, SAMPLINGS["plain"])
    assert total_variation(decoded_distribution(MODEL, cases, options(method)), wanted) <= TOLERANCE


@pytest.mark.parametrize("method", ["assd K=3", "one-pass K=2", "one-pass ngram K=3", "one-pass adaptive"])
def test_a_larger_vocabulary_and_another_model_change_nothing(method: str) -> None:
    model, cases = TableModel(5, seed=4, sharpness=3.0), ragged_cases(5, (3, 3), scrambled=True)
    wanted = exact_joint(model, cases, SAMPLINGS["plain"])
    assert total_variation(decoded_distribution(model, cases, options(method)), wanted) <= TOLERANCE


@pytest.mark.parametrize("method", LOSSLESS)
def test_forbidden_ids_leave_the_joint_of_the_others(method: str) -> None:
    cases = dataclasses.replace(ragged_cases(3, (3, 3, 2), scrambled=True), forbidden=Forbidden.of(3, ids=[1]))
    wanted = exact_joint(MODEL, cases, SAMPLINGS["plain"])
    assert total_variation(decoded_distribution(MODEL, cases, options(method)), wanted) <= TOLERANCE
    assert float(wanted[0, cases.outcome(torch.tensor([0]), torch.ones(1, 6, dtype=torch.long))]) == 0


PIECES = [b"a", b"ba", b"c"]
STRINGS = [b"ab", b"cca"]


def cases_with_forbidden_strings() -> Cases:
    """Blanks of two to four tokens beside each other and beside prompt tokens, targets in scrambled order."""
    cases = ragged_cases(3, (3, 4), scrambled=True)
    is_target = torch.zeros_like(cases.tokens, dtype=torch.bool)
    step = torch.arange(cases.order.num_steps)
    targets = (step >= cases.order.num_prompt[:, None]) & (step < cases.order.length[:, None])
    is_target.scatter_(1, cases.order.sigma, targets)
    blank = torch.where(is_target, torch.tensor([0, 0, 0, 1, 1, 1]), -1)
    forbidden = Forbidden.of(3, strings=STRINGS, token_bytes=PIECES).within(blank)
    return dataclasses.replace(cases, forbidden=forbidden)


def read_the_rules(cases: Cases, row: Tensor, tokens: Tensor, step: Tensor) -> Tensor:
    """(R, V) bool: literally, would this token complete a forbidden string with its decided neighbours in the blank?"""
    order, blank = cases.order.select(row), cases.forbidden.blank
    banned = torch.zeros(len(row), 3, dtype=torch.bool)
    for r in range(len(row)):
        if int(step[r]) >= int(order.length[r]):
            continue
        position, known = int(order.sigma[r, step[r]]), {}
        for earlier in range(int(step[r])):
            known[int(order.sigma[r, earlier])] = PIECES[int(tokens[r, earlier])]
        own = blank[row[r]]
        sides = []
        for direction in (-1, 1):
            side, place = [], position + direction
            while place in known and 0 <= place < 6 and own[place] == own[position]:
                side.append(known[place])
                place += direction
            sides.append(side)
        left, right = b"".join(reversed(sides[0])), b"".join(sides[1])
        for token in range(3):
            banned[r, token] = any(string in left + PIECES[token] + right for string in STRINGS)
    return banned


@pytest.mark.parametrize("method", CORE)
def test_forbidden_strings_leave_the_joint_of_banned_and_renormalised_conditionals(method: str) -> None:
    cases = cases_with_forbidden_strings()
    wanted = exact_joint(
        MODEL, cases, SAMPLINGS["plain"], ban=lambda row, tokens, step: read_the_rules(cases, row, tokens, step)
    )
    assert bool((wanted == 0).any())
    assert total_variation(decoded_distribution(MODEL, cases, options(method)), wanted) <= TOLERANCE


@pytest.mark.parametrize("method", CORE)
def test_owned_spaces_leave_the_joint_of_conditionals_given_the_space(method: str) -> None:
    cases = ragged_cases(3, (3, 3, 2), scrambled=True)
    spaced = torch.tensor([[False, True, False, False, True, False]]).expand(3, 6)
    forbidden = Forbidden.of(3, space_ids=[0, 2]).within(torch.zeros(3, 6, dtype=torch.long), spaced)
    cases = dataclasses.replace(cases, forbidden=forbidden)

    def ban(row: Tensor, tokens: Tensor, step: Tensor) -> Tensor:
        order = cases.order.select(row)
        position = order.sigma.gather(1, step.clamp(max=5)[:, None])
        return spaced[row].gather(1, position) & torch.tensor([False, True, False])

    wanted = exact_joint(MODEL, cases, SAMPLINGS["plain"], ban=ban)
    assert bool((wanted == 0).any())
    assert total_variation(decoded_distribution(MODEL, cases, options(method)), wanted) <= TOLERANCE
