"""A sequence's result is its own: no neighbour, no padding and no hidden token has a part in it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from joint import Cases, ragged_cases
from methods import LOSSLESS, StubbornDrafter, options
from table_model import TableModel
from torch import Tensor

from anyorder.decoding import DecodeOptions, Generation
from anyorder.decoding.session import Session
from anyorder.drafting import Drafts
from anyorder.order import Order
from anyorder.uniforms import Uniforms

MODEL = TableModel(3, seed=3, sharpness=0.8)
EVERY = [*LOSSLESS, "parallel"]


def every(method: str, sampling: str = "plain") -> DecodeOptions:
    return DecodeOptions(method="parallel", steps=3) if method == "parallel" else options(method, sampling)


def alone(cases: Cases, row: int, decode_options: DecodeOptions, seed: int) -> Generation:
    """The row on its own, without the padding its batch gave it."""
    length = int(cases.order.length[row])
    order = Order(
        cases.order.sigma[row : row + 1, :length],
        cases.order.num_prompt[row : row + 1],
        cases.order.length[row : row + 1],
    )
    single = Cases(cases.tokens[row : row + 1, :length], order, cases.forbidden, cases.vocab_size)
    return single.run(torch.tensor([0]), Uniforms([seed]), MODEL, decode_options)


@pytest.mark.parametrize("method", EVERY)
def test_a_result_does_not_depend_on_its_batch(method: str) -> None:
    targets = (9, 1, 4, 0, 7, 2)
    cases = ragged_cases(3, targets, scrambled=True, width=12)
    together = cases.run(torch.arange(6), Uniforms(range(6)), MODEL, every(method))
    for row, _ in enumerate(targets):
        single = alone(cases, row, every(method), row)
        length = int(cases.order.length[row])
        assert torch.equal(together.tokens[row, :length], single.tokens[0])
        assert torch.equal(together.log_probs[row, :length], single.log_probs[0])
        assert torch.equal(together.rounds[row, :length], single.rounds[0])
        assert together.trace[row] == single.trace[0]
        one, other = together.stats[row], single.stats[0]
        assert (one.nfe, one.rows, one.draft_lengths) == (other.nfe, other.rows, other.draft_lengths)


@settings(max_examples=30)
@given(method=st.sampled_from(EVERY), shuffle=st.permutations(range(5)), seed=st.integers(0, 99))
def test_the_order_of_the_batch_is_irrelevant(method: str, shuffle: list[int], seed: int) -> None:
    cases = ragged_cases(3, (6, 1, 4, 3, 5), scrambled=True, width=8)
    straight = cases.run(torch.arange(5), Uniforms([seed + row for row in range(5)]), MODEL, every(method))
    permuted = cases.run(torch.tensor(shuffle), Uniforms([seed + row for row in shuffle]), MODEL, every(method))
    assert torch.equal(permuted.tokens, straight.tokens[shuffle])


@pytest.mark.parametrize("method", EVERY)
def test_what_stood_at_the_targets_is_irrelevant(method: str) -> None:
    cases = ragged_cases(3, (6, 4), scrambled=True, width=8)
    step = torch.arange(8)
    hidden = (step >= cases.order.num_prompt[:, None]) & (step < cases.order.length[:, None])
    other = Cases(torch.where(hidden, 10**6, cases.tokens), cases.order, cases.forbidden, 3)
    results = [c.run(torch.arange(2), Uniforms([5, 6]), MODEL, every(method)).tokens for c in (cases, other)]
    assert torch.equal(*results)


@pytest.mark.parametrize("method", EVERY)
def test_the_prompt_and_the_padding_return_as_they_came(method: str) -> None:
    cases = ragged_cases(3, (6, 2, 0, 4), scrambled=True, width=9)
    generation = cases.run(torch.arange(4), Uniforms(range(4)), MODEL, every(method))
    step = torch.arange(9)
    given_steps = (step < cases.order.num_prompt[:, None]) | (step >= cases.order.length[:, None])
    assert torch.equal(generation.tokens[given_steps], cases.tokens[given_steps])
    assert not generation.log_probs[given_steps].any()


@pytest.mark.parametrize("method", [*EVERY, "one group"])
def test_a_text_that_is_all_targets_is_decided_whole(method: str) -> None:
    chosen = DecodeOptions(method="parallel") if method == "one group" else every(method)
    generation = ragged_cases(3, (6,), scrambled=True).run(torch.arange(1), Uniforms([0]), MODEL, chosen)
    assert bool((generation.rounds > 0).all())
    assert generation.stats[0].tokens == 6


@pytest.mark.parametrize("method", EVERY)
def test_without_targets_nothing_runs(method: str) -> None:
    model, cases = TableModel(3), ragged_cases(3, (0, 0, 0), scrambled=False)
    generation = cases.run(torch.arange(3), Uniforms(range(3)), model, every(method))
    assert model.num_passes == 0
    assert torch.equal(generation.tokens, cases.tokens)
    assert [stats.nfe for stats in generation.stats] == [0, 0, 0]


@pytest.mark.parametrize("method", EVERY)
def test_an_empty_batch_is_legal(method: str) -> None:
    cases = ragged_cases(3, (2,), scrambled=False)
    generation = cases.run(torch.arange(0), Uniforms([]), MODEL, every(method))
    assert generation.tokens.shape == (0, 6)
    assert generation.stats == []


@pytest.mark.parametrize("method", LOSSLESS)
def test_greedy_decoding_is_the_same_by_every_method(method: str) -> None:
    cases = ragged_cases(3, (9, 1, 4, 0, 7), scrambled=True, width=12)
    wanted = cases.run(torch.arange(5), Uniforms(range(5)), MODEL, options("sequential", "greedy"))
    got = cases.run(torch.arange(5), Uniforms(range(9, 14)), MODEL, options(method, "greedy"))
    assert torch.equal(got.tokens, wanted.tokens)


def test_finished_sequences_leave_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    honest = Session.forward

    def forward(self: Session, *args: object) -> tuple[Tensor, object]:
        sizes.append(len(self.rows))
        return honest(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Session, "forward", forward)
    cases = ragged_cases(3, (6, 3, 6, 2), scrambled=False, width=10)
    cases.run(torch.arange(4), Uniforms(range(4)), MODEL, options("sequential"))
    # One of four is not half; two are.
    assert sizes == [4, 4, 4, 2, 2, 2]


def test_a_drafter_is_not_shown_what_stood_at_the_targets() -> None:
    seen: list[Tensor] = []

    class Spy(StubbornDrafter):
        def propose(self, tokens: Tensor, order: Order, num_decoded: Tensor, *others: object) -> Drafts:
            step = torch.arange(order.num_steps)
            seen.append(tokens[(step >= num_decoded[:, None]) & (step < order.length[:, None])])
            return super().propose(tokens, order, num_decoded, *others)  # type: ignore[arg-type]

    cases = ragged_cases(3, (5, 5), scrambled=True, width=8)
    hidden = Cases(torch.full_like(cases.tokens, 2), cases.order, cases.forbidden, 3)
    hidden.run(torch.arange(2), Uniforms([1, 2]), MODEL, DecodeOptions(drafter=Spy(3), draft_length=2))
    assert not seen[0].any()
