"""Passes never outnumber targets, and the books add up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from joint import Cases, ragged_cases
from methods import LOSSLESS, options
from table_model import TableModel
from torch import Tensor

from anyorder.decoding import DecodeOptions, Generation, Progress, decode
from anyorder.draft_length import DraftLengthPolicy, PassCosts
from anyorder.forbidden import Forbidden
from anyorder.likelihood import joint_log_prob
from anyorder.order import Order
from anyorder.uniforms import Uniforms
from anyorder.visibility import Rows


def decode_targets(
    targets: Sequence[int],
    decode_options: DecodeOptions,
    *,
    seed: int,
    model: TableModel | None = None,
    width: int = 12,
) -> tuple[Generation, Order]:
    cases = ragged_cases(3, tuple(targets), scrambled=True, width=width)
    rows = torch.arange(len(targets))
    generation = cases.run(rows, Uniforms([seed + row for row in range(len(targets))]), model or MODEL, decode_options)
    return generation, cases.order


MODEL = TableModel(3, seed=2, sharpness=0.7)
TARGETS = st.lists(st.integers(0, 9), min_size=1, max_size=4)


@settings(max_examples=60)
@given(targets=TARGETS, k=st.integers(2, 7), seed=st.integers(0, 999), table=st.integers(0, 99))
def test_assd_never_takes_more_passes_than_there_are_targets(targets: list[int], k: int, seed: int, table: int) -> None:
    model = TableModel(3, seed=table, sharpness=1.0)
    generation, order = decode_targets(targets, DecodeOptions(method="assd", draft_length=k), seed=seed, model=model)
    assert bool((generation.counters.nfe <= order.num_targets).all())
    if k == 2:
        assert torch.equal(generation.counters.nfe, order.num_targets)


@settings(max_examples=60)
@given(
    targets=TARGETS,
    k=st.integers(0, 6),
    max_rows=st.none() | st.integers(1, 12),
    drafter=st.sampled_from(["self", "ngram"]),
    seed=st.integers(0, 999),
)
def test_one_pass_never_takes_more_passes_than_there_are_targets(
    targets: list[int], k: int, max_rows: int | None, drafter: str, seed: int
) -> None:
    chosen = DecodeOptions(method="one-pass", draft_length=k, max_rows=max_rows, drafter=drafter)  # type: ignore[arg-type]
    generation, order = decode_targets(targets, chosen, seed=seed)
    assert bool((generation.counters.nfe <= order.num_targets).all())
    if k == 0:
        assert torch.equal(generation.counters.nfe, order.num_targets)


@pytest.mark.parametrize("method", LOSSLESS)
def test_the_books_add_up(method: str) -> None:
    targets = (9, 4, 0, 7)
    generation, _ = decode_targets(targets, options(method), seed=5)
    for row, (stats, trace) in enumerate(zip(generation.stats, generation.trace, strict=True)):
        assert stats.tokens == targets[row] == sum(record.num_decided for record in trace)
        assert stats.rounds == len(trace) == int(generation.rounds[row].max())
        exact = sum(record.num_exact for record in trace)
        finals = sum(record.final is not None for record in trace)
        assert stats.tokens == stats.num_accepted + exact + finals
        assert stats.num_drafted == sum(stats.draft_lengths) - exact >= stats.num_accepted
        assert stats.lossless
        assert stats.score_nfe == 0
        assert stats.draft_nfe == (sum(stats.draft_lengths) if "ngram" in method or "user" in method else 0)
        assert stats.rows >= stats.tokens
        assert (stats.nfe == 0) == (stats.rows == 0) == (stats.tokens == 0) == (not stats.seconds > 0)
        for record in trace:
            start = record.step
            decided = record.drafted[: record.num_kept] + (() if record.final is None else (record.final,))
            assert generation.tokens[row, start : start + record.num_decided].tolist() == list(decided)
            assert record.num_exact <= record.num_kept <= len(record.drafted)
            after = "correction" if record.num_kept < len(record.drafted) else "bonus" if record.drafted else "sampled"
            assert record.kind == (None if record.final is None else after)


class Counting(TableModel):
    """Keeps the most query rows a pass had for the sequence."""

    most_rows = 0

    def forward(self, tokens: Tensor, *arguments: Any, query: Rows | None, **others: Any) -> Tensor:
        if query is not None:
            self.most_rows = max(self.most_rows, int((query.steps < tokens.shape[1]).sum(1).max()))
        return super().forward(tokens, *arguments, query=query, **others)


@pytest.mark.parametrize("method", [*LOSSLESS, "parallel"])
def test_no_pass_has_more_rows_than_the_options_allow_and_some_pass_has_as_many(method: str) -> None:
    chosen = DecodeOptions(method="parallel", steps=2) if method == "parallel" else options(method)
    reached = []
    for targets in (1, 3, 9):
        most = 0
        for seed in range(6):
            model = Counting(3, seed=seed, sharpness=0.3)
            decode_targets((targets,), chosen, seed=seed, model=model)
            assert model.most_rows <= chosen.most_rows(targets)
            most = max(most, model.most_rows)
        reached.append(most == chosen.most_rows(targets))
    assert any(reached) or chosen.draft_length is None  # a policy need not ask for all it may


@pytest.mark.parametrize("method", LOSSLESS)
def test_rounds_say_when_each_step_was_decided(method: str) -> None:
    generation, order = decode_targets((9, 0, 4, 7), options(method), seed=6)
    for row, trace in enumerate(generation.trace):
        wanted = torch.zeros(order.num_steps, dtype=torch.long)
        for number, record in enumerate(trace, start=1):
            wanted[record.step : record.step + record.num_decided] = number
        assert torch.equal(generation.rounds[row], wanted)


@pytest.mark.parametrize(
    ("given_options", "ran"),
    [
        ({"method": "assd", "draft_length": 0}, "sequential"),
        ({"method": "assd", "draft_length": 1}, "sequential"),
        ({"method": "assd", "draft_length": 2}, "assd"),
        ({"method": "assd", "draft_length": 1, "drafter": "ngram"}, "assd"),
        ({"method": "assd", "draft_length": 0, "drafter": "ngram"}, "sequential"),
        ({"method": "one-pass", "draft_length": 0}, "sequential"),
        ({"method": "one-pass", "draft_length": 1}, "one-pass"),
        ({"method": "one-pass"}, "one-pass"),
    ],
)
def test_the_method_reported_is_the_one_that_ran(given_options: dict[str, object], ran: str) -> None:
    generation, order = decode_targets((5, 3), DecodeOptions(**given_options), seed=1)  # type: ignore[arg-type]
    assert {stats.method for stats in generation.stats} == {ran}
    if ran == "sequential":
        assert torch.equal(generation.counters.nfe, order.num_targets)


@pytest.mark.parametrize("method", ["assd", "one-pass"])
def test_where_drafts_do_not_pay_decoding_is_sequential(method: str) -> None:
    steep = DraftLengthPolicy(costs=PassCosts(rows=(1, 100), costs=(1.0, 100.0)))
    chosen = DecodeOptions(method=method, policy=steep)  # type: ignore[arg-type]
    model = TableModel(3, seed=2, sharpness=0.7)
    got, order = decode_targets((5, 0, 3), chosen, seed=1, model=model)
    assert model.num_passes == 5
    plain, _ = decode_targets((5, 0, 3), options("sequential"), seed=1)
    assert torch.equal(got.tokens, plain.tokens)
    assert torch.equal(got.counters.nfe, order.num_targets)
    assert torch.equal(got.counters.rows, plain.counters.rows)


def test_a_pass_is_counted_once_for_each_sequence_that_asked_something() -> None:
    model = TableModel(3, seed=2)
    generation, _ = decode_targets((6,), DecodeOptions(method="one-pass", draft_length=2), seed=3, model=model)
    assert generation.stats[0].nfe == model.num_passes


def test_rows_counts_content_and_query_rows() -> None:
    generation, order = decode_targets((4,), DecodeOptions(method="sequential"), seed=3)
    prompt = int(order.num_prompt)
    assert generation.stats[0].rows == prompt + 3 + 4


def test_progress_is_reported_after_every_round() -> None:
    seen: list[Progress] = []
    cases = ragged_cases(3, (5, 2), scrambled=True, width=8)
    generation = decode(
        MODEL,
        cases.tokens,
        cases.order,
        uniforms=Uniforms([1, 2]),
        options=DecodeOptions(method="one-pass", draft_length=2),
        forbidden=Forbidden.of(3),
        on_round=seen.append,
    )
    assert [progress.rounds for progress in seen] == list(range(1, max(s.rounds for s in generation.stats) + 1))
    assert [progress.decided for progress in seen] == sorted(progress.decided for progress in seen)
    assert (seen[-1].decided, seen[-1].targets) == (7, 7)


@pytest.mark.parametrize("method", LOSSLESS)
def test_log_probs_are_those_of_the_rows_that_decided(method: str) -> None:
    cases = ragged_cases(3, (9, 0, 4, 7), scrambled=True, width=12)
    generation = cases.run(torch.arange(4), Uniforms(range(4)), MODEL, options(method, "temperature"))
    scored: Tensor = joint_log_prob(MODEL, generation.tokens, cases.order, forbidden=cases.forbidden)
    assert torch.allclose(generation.log_probs, scored, atol=1e-12, rtol=0)


@pytest.mark.parametrize("method", LOSSLESS)
def test_the_prompt_is_encoded_once_and_every_target_as_often_as_it_was_written(method: str) -> None:
    encoded: list[int] = []

    class Watched(TableModel):
        def forward(self, *inputs: object, encode: Rows, **others: object) -> Tensor:
            encoded.extend(encode.steps[encode.steps < 6].tolist())
            return super().forward(*inputs, encode=encode, **others)  # type: ignore[arg-type]

    is_target = torch.tensor([[False, True, True, False, True, True]])
    cases = Cases(torch.zeros(1, 6, dtype=torch.long), Order.from_targets(is_target), Forbidden.of(3), 3)
    generation = cases.run(torch.tensor([0]), Uniforms([1]), Watched(3, seed=2), options(method))
    written = [0] * 6
    for record in generation.trace[0]:
        for ahead in range(len(record.drafted)):
            written[record.step + ahead] += 1
        if record.final is not None:
            written[record.step + record.num_kept] += 1
    counts = [encoded.count(step) for step in range(6)]
    assert counts[:2] == [1, 1]
    assert all(count <= max(times, 1) for count, times in zip(counts[2:], written[2:], strict=True))
    assert counts[5] == 0
