"""Drafters: what a proposal must satisfy, and what the n-gram knows."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from anyorder.drafting import Drafter, Drafts, NGramDrafter, check_drafts
from anyorder.forbidden import Forbidden
from anyorder.order import Order
from anyorder.sampling import Sampling
from anyorder.uniforms import Uniforms

A, B, C, D = range(4)


def identity(length: int) -> Order:
    return Order(torch.arange(length)[None], torch.tensor([0]), torch.tensor([length]))


def propose(
    text: list[int], decided: int, k: int, *, ban: tuple[int, ...] = (), sampling: Sampling | None = None, seed: int = 0
) -> Drafts:
    """Left to right, the first ``decided`` tokens of ``text`` being decided."""
    drafter = NGramDrafter(forbidden=Forbidden.of(4, ids=ban))
    arguments = (torch.tensor([text]), identity(len(text)), torch.tensor([decided]), torch.tensor([k]))
    return drafter.propose(*arguments, sampling or Sampling(), Uniforms([seed]))


def test_the_bigram_counts_what_followed_the_left_neighbour() -> None:
    drafts = propose([A, B, A, C, A, B, A, D, D], decided=7, k=1)
    assert torch.allclose(drafts.q[0, 0], torch.tensor([0, 2 / 3, 1 / 3, 0], dtype=torch.float64))
    assert drafts.num_exact.tolist() == [0]


def test_a_neighbour_never_followed_backs_off_to_the_unigram() -> None:
    drafts = propose([A, A, B, C, 0], decided=4, k=1)
    assert torch.allclose(drafts.q[0, 0], torch.tensor([0.5, 0.25, 0.25, 0], dtype=torch.float64))


def test_a_bigram_that_is_all_forbidden_backs_off_too() -> None:
    drafts = propose([A, B, C, A, 0], decided=4, k=1, ban=(B,))
    assert torch.allclose(drafts.q[0, 0], torch.tensor([2 / 3, 0, 1 / 3, 0], dtype=torch.float64))


def test_without_counts_anything_allowed_is_as_likely() -> None:
    drafts = propose([0, 0, 0], decided=0, k=1, ban=(C,))
    assert torch.allclose(drafts.q[0, 0], torch.tensor([1 / 3, 1 / 3, 0, 1 / 3], dtype=torch.float64))


def test_what_is_not_decided_is_not_counted() -> None:
    seen = propose([A, B, D, D, D, D], decided=2, k=1)
    assert seen.q[0, 0, D] == 0


def test_a_pair_counts_only_if_both_of_it_are_decided() -> None:
    # Position 0 is decided last; what stands there is not text, so that B after it says nothing about what follows A.
    order = Order(torch.tensor([[1, 2, 3, 0]]), torch.tensor([0]), torch.tensor([4]))
    drafter = NGramDrafter(forbidden=Forbidden.of(4))
    arguments = (torch.tensor([[B, A, 0, A]]), order, torch.tensor([2]), torch.tensor([1]))
    q = drafter.propose(*arguments, Sampling(), Uniforms([0])).q
    assert torch.allclose(q[0, 0], torch.tensor([0.5, 0.5, 0, 0], dtype=torch.float64))


def test_the_first_position_has_no_left_neighbour() -> None:
    order = Order(torch.tensor([[1, 2, 0]]), torch.tensor([0]), torch.tensor([3]))
    arguments = (torch.tensor([[A, B, 0]]), order, torch.tensor([2]), torch.tensor([1]))
    q = NGramDrafter(forbidden=Forbidden.of(4)).propose(*arguments, Sampling(), Uniforms([0])).q
    assert torch.allclose(q[0, 0], torch.tensor([0.5, 0.5, 0, 0], dtype=torch.float64))


def test_the_second_position_has_one() -> None:
    assert propose([A, A, 0], decided=2, k=1).q[0, 0].tolist() == [1, 0, 0, 0]
    order = Order(torch.tensor([[0, 2, 3, 1]]), torch.tensor([0]), torch.tensor([4]))
    arguments = (torch.tensor([[B, B, A, 0]]), order, torch.tensor([3]), torch.tensor([1]))
    q = NGramDrafter(forbidden=Forbidden.of(4)).propose(*arguments, Sampling(), Uniforms([0])).q
    assert q[0, 0].tolist() == [1, 0, 0, 0]


def test_what_would_complete_a_forbidden_string_is_not_drafted() -> None:
    forbidden = Forbidden.of(4, strings=[b"ab"], token_bytes=[b"a", b"b", b"c", b"d"]).within(torch.zeros(1, 5).long())
    arguments = (torch.tensor([[A, B, A, C, A]]), identity(5), torch.tensor([3]), torch.tensor([1]))
    q = NGramDrafter(forbidden=forbidden).propose(*arguments, Sampling(), Uniforms([0])).q
    assert torch.allclose(q[0, 0], torch.tensor([1, 0, 0, 0], dtype=torch.float64))


def test_drafts_of_some_rows_are_theirs_whole() -> None:
    drafts = Drafts(torch.tensor([[1], [2], [3]]), torch.rand(3, 1, 4), torch.tensor([0, 1, 0]))
    chosen = drafts.select(torch.tensor([1, 2]))
    assert (chosen.tokens.tolist(), chosen.num_exact.tolist()) == ([[2], [3]], [1, 0])
    assert torch.equal(chosen.q, drafts.q[1:])


def test_drafts_chain() -> None:
    drafts = propose([A, B, C, D, A, 0, 0, 0], decided=5, k=3)
    assert drafts.tokens.tolist() == [[B, C, D]]
    assert drafts.q.argmax(-1).tolist() == [[B, C, D]]


def test_the_left_neighbour_is_one_in_position_not_in_order() -> None:
    # Positions 0 1 2 3 hold A B A ?; the step order is scrambled, so that B was decided last.
    order = Order(torch.tensor([[0, 2, 1, 3]]), torch.tensor([0]), torch.tensor([4]))
    drafter = NGramDrafter(forbidden=Forbidden.of(4))
    arguments = (torch.tensor([[A, A, B, 0]]), order, torch.tensor([3]), torch.tensor([1]))
    q = drafter.propose(*arguments, Sampling(), Uniforms([0])).q
    assert torch.allclose(q[0, 0], torch.tensor([0, 1, 0, 0], dtype=torch.float64))


def test_a_left_neighbour_not_yet_decided_says_nothing() -> None:
    order = Order(torch.tensor([[0, 1, 3, 2]]), torch.tensor([0]), torch.tensor([4]))
    drafter = NGramDrafter(forbidden=Forbidden.of(4))
    arguments = (torch.tensor([[A, B, 0, 0]]), order, torch.tensor([2]), torch.tensor([1]))
    q = drafter.propose(*arguments, Sampling(), Uniforms([0])).q
    assert torch.allclose(q[0, 0], torch.tensor([0.5, 0.5, 0, 0], dtype=torch.float64))


def test_sampling_acts_on_log_counts() -> None:
    text = [A, B, A, B, A, C, A, 0]
    assert propose(text, 7, 1, sampling=Sampling(temperature=0.0)).q[0, 0].tolist() == [0, 1, 0, 0]
    squared = propose(text, 7, 1, sampling=Sampling(temperature=0.5)).q[0, 0]
    assert torch.allclose(squared, torch.tensor([0, 4 / 5, 1 / 5, 0], dtype=torch.float64))


def test_a_row_may_ask_for_fewer_drafts_than_its_neighbour() -> None:
    drafter = NGramDrafter(forbidden=Forbidden.of(4))
    order = Order(torch.arange(5).expand(2, -1), torch.zeros(2).long(), torch.tensor([5, 5]))
    arguments = (torch.tensor([[A, B, A, 0, 0]] * 2), order, torch.tensor([3, 3]), torch.tensor([2, 0]))
    uniforms, untouched = Uniforms([1, 2]), Uniforms([1, 2])
    drafts = drafter.propose(*arguments, Sampling(), uniforms)
    assert drafts.tokens.shape == (2, 2)
    assert torch.equal(uniforms.draw(torch.tensor([0, 1])), untouched.draw(torch.tensor([0, 1])))


def test_the_ngram_is_a_drafter() -> None:
    assert isinstance(NGramDrafter(forbidden=Forbidden.of(4)), Drafter)


HONEST = Drafts(torch.tensor([[1, 0]]), torch.tensor([[[0.5, 0.5], [1.0, 0.0]]]), torch.tensor([0]))


@pytest.mark.parametrize(
    ("proposal", "error", "says"),
    [
        ((1, 0), TypeError, "must return anyorder.Drafts; got tuple"),
        (
            dataclasses.replace(HONEST, tokens=torch.tensor([[1]])),
            ValueError,
            r"of shapes \(\(1, 2\), .* got \(\(1, 1\)",
        ),
        (dataclasses.replace(HONEST, q=torch.ones(1, 2, 3)), ValueError, r"shapes .* got .*\(1, 2, 3\)"),
        (dataclasses.replace(HONEST, tokens=torch.tensor([[2, 0]])), ValueError, r"must lie in range\(2\)"),
        (dataclasses.replace(HONEST, tokens=torch.tensor([[-1, 0]])), ValueError, r"must lie in range\(2\)"),
        (
            dataclasses.replace(HONEST, tokens=torch.tensor([[1, 1]])),
            ValueError,
            "not be drafted where its own q is zero",
        ),
        (dataclasses.replace(HONEST, q=HONEST.q * 0.9), ValueError, "q must sum to one"),
        (dataclasses.replace(HONEST, q=HONEST.q * torch.nan), ValueError, "q must not be negative"),
        (dataclasses.replace(HONEST, q=torch.tensor([[[1.5, -0.5], [1.0, 0.0]]])), ValueError, "must not be negative"),
        (dataclasses.replace(HONEST, num_exact=torch.tensor([3])), ValueError, "num_exact must lie between 0 and"),
        (dataclasses.replace(HONEST, num_exact=torch.tensor([-1])), ValueError, r"got \[-1\]"),
        (dataclasses.replace(HONEST, num_exact=[0]), TypeError, "its num_exact is a list"),
        (dataclasses.replace(HONEST, tokens=[[1, 0]]), TypeError, "its tokens is a list"),
        (dataclasses.replace(HONEST, tokens=HONEST.tokens.int()), TypeError, "tokens as torch.int64; got torch.int32"),
        (
            dataclasses.replace(HONEST, num_exact=torch.tensor([0.0])),
            TypeError,
            "num_exact as torch.int64; got torch.fl",
        ),
        (dataclasses.replace(HONEST, q=HONEST.q.long()), TypeError, "q in float32 or float64; got torch.int64"),
    ],
)
def test_a_dishonest_proposal_is_refused(proposal: object, error: type[Exception], says: str) -> None:
    check_drafts(HONEST, torch.tensor([2]), 2)
    with pytest.raises(error, match=says):
        check_drafts(proposal, torch.tensor([2]), 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("num_exact", [0, 1, 2])
def test_any_number_of_the_drafts_asked_for_may_be_exact(num_exact: int) -> None:
    check_drafts(dataclasses.replace(HONEST, num_exact=torch.tensor([num_exact])), torch.tensor([2]), 2)


def test_what_lies_beyond_a_rows_drafts_is_not_judged() -> None:
    nan = torch.full((1, 1, 2), torch.nan)
    tokens = torch.cat([HONEST.tokens, torch.tensor([[1, 9]])])
    q = torch.cat([HONEST.q, torch.cat([HONEST.q[:, :1], nan], 1)])
    check_drafts(Drafts(tokens, q, torch.tensor([0, 0])), torch.tensor([2, 1]), 2)
