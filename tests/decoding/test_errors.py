"""What cannot be decoded is refused in words, before or while it happens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from joint import Cases, ragged_cases
from methods import CORE, options
from table_model import TableModel
from torch import Tensor

from anyorder.decoding import DecodeOptions, decode
from anyorder.drafting import Drafts
from anyorder.forbidden import Forbidden
from anyorder.order import Order
from anyorder.sampling import Sampling
from anyorder.uniforms import Uniforms
from anyorder.visibility import Rows

MODEL = TableModel(3)


def run(cases: Cases, decode_options: DecodeOptions, model: TableModel = MODEL) -> None:
    cases.run(torch.arange(len(cases.tokens)), Uniforms(range(len(cases.tokens))), model, decode_options)


@pytest.mark.parametrize("greedy", [False, True], ids=["sampled", "greedy"])
@pytest.mark.parametrize("method", [*CORE, "parallel"])
def test_a_step_at_which_everything_is_forbidden_is_an_error(method: str, greedy: bool) -> None:
    cases = ragged_cases(3, (3, 2), scrambled=True)
    cases = Cases(cases.tokens, cases.order, Forbidden.of(3, ids=range(3)), 3)
    chosen = (
        DecodeOptions(method="parallel") if method == "parallel" else options(method, "greedy" if greedy else "plain")
    )
    with pytest.raises(ValueError, match="every token is forbidden at some step"):
        run(cases, chosen)


@pytest.mark.parametrize("method", [*CORE, "parallel"])
def test_a_dead_end_of_forbidden_strings_is_an_error(method: str) -> None:
    cases = ragged_cases(3, (4,), scrambled=False)
    strings = [first + second for first in (b"a", b"b", b"c") for second in (b"a", b"b", b"c")]
    forbidden = Forbidden.of(3, strings=strings, token_bytes=[b"a", b"b", b"c"]).within(torch.zeros(1, 6).long())
    chosen = DecodeOptions(method="parallel") if method == "parallel" else options(method)
    with pytest.raises(ValueError, match="every token is forbidden at some step"):
        run(Cases(cases.tokens, cases.order, forbidden, 3), chosen)


@pytest.mark.parametrize("method", [*CORE, "parallel"])
def test_a_model_that_returns_nan_is_an_error(method: str) -> None:
    class Broken(TableModel):
        def _logits(self, key: Tensor) -> Tensor:
            return super()._logits(key) * torch.nan

    chosen = DecodeOptions(method="parallel") if method == "parallel" else options(method)
    with pytest.raises(ValueError, match="not numbers"):
        run(ragged_cases(3, (3, 2), scrambled=True), chosen, Broken(3))


@pytest.mark.parametrize("method", ["assd", "one-pass"])
@pytest.mark.parametrize("worst", [torch.nan, torch.inf])
def test_a_model_that_returns_nan_only_where_it_drafts_is_an_error(method: str, worst: float) -> None:
    class Broken(TableModel):
        def forward(self, *arguments: Any, query: Rows | None, **others: Any) -> Tensor:
            logits = super().forward(*arguments, query=query, **others)
            if query is None:
                return logits
            return logits.masked_fill((query.num_visible < query.steps)[..., None], worst)

    cases = ragged_cases(3, (3, 2), scrambled=True)
    run(cases, options("sequential"), Broken(3))  # which has no such rows
    with pytest.raises(ValueError, match="not numbers"):
        run(cases, DecodeOptions(method=method, draft_length=3), Broken(3))


@dataclass(frozen=True)
class Liar:
    """Claims that its only possible token came from a distribution that excludes it."""

    def propose(self, tokens: Tensor, order: Order, num_decoded: Tensor, k: Tensor, *_: object) -> Drafts:
        q = torch.tensor([1.0, 0.0, 0.0]).expand(len(k), int(k.max()), -1)
        return Drafts(torch.ones(len(k), int(k.max()), dtype=torch.long), q, torch.zeros_like(k))


def test_a_dishonest_drafter_is_an_error() -> None:
    with pytest.raises(ValueError, match="drafted where its own q is zero"):
        run(ragged_cases(3, (3, 2), scrambled=True), DecodeOptions(drafter=Liar(), draft_length=2))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tokens": torch.zeros(2, 6)}, r"tokens must be \(B, L\) int64 in order space; got \(2, 6\) torch.float32"),
        ({"tokens": torch.zeros(2, 5).long()}, r"order and tokens must agree in shape; got \(2, 6\), \(2, 5\)"),
        ({"tokens": torch.full((2, 6), 3)}, r"prompt tokens must lie in range\(3\)"),
        ({"uniforms": Uniforms([0])}, "every sequence needs its own seed: 2 sequences, 1 seeds"),
        ({"forbidden": Forbidden.of(4)}, "forbidden covers 4 ids, the model has 3"),
    ],
)
def test_a_batch_that_does_not_fit_together_is_refused(change: dict[str, object], says: str) -> None:
    cases = ragged_cases(3, (3, 2), scrambled=True)
    arguments = {"tokens": cases.tokens, "uniforms": Uniforms([0, 1]), "forbidden": cases.forbidden} | change
    with pytest.raises(ValueError, match=says):
        decode(MODEL, order=cases.order, options=DecodeOptions(), **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given_options", "error", "says"),
    [
        (
            {"method": "fastest"},
            ValueError,
            "unknown method 'fastest': use 'sequential', 'assd', 'one-pass', 'parallel'",
        ),
        ({"draft_length": -1}, ValueError, r"draft_length must be at least 0 \(None lets the policy choose\); got -1"),
        ({"draft_length": 2.0}, TypeError, "draft_length must be an integer .* got 2.0"),
        ({"draft_length": True}, TypeError, "draft_length must be an integer"),
        ({"steps": 0}, ValueError, "steps must be at least 1 .* got 0"),
        ({"steps": None}, TypeError, "steps must be an integer .* got None"),
        ({"max_rows": 0}, ValueError, "max_rows must be at least 1 .* got 0"),
        ({"drafter": "oracle"}, ValueError, "unknown drafter 'oracle': use 'self', 'ngram' or an object with propose"),
        ({"drafter": 7}, TypeError, r"a drafter needs a method propose\(\); got int"),
        ({"sampling": 0.7}, TypeError, "sampling must be a Sampling; got float"),
        ({"policy": 3}, TypeError, "policy must be a DraftLengthPolicy; got int"),
    ],
)
def test_bad_options_are_refused(given_options: dict[str, object], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        DecodeOptions(**given_options)  # type: ignore[arg-type]


def test_default_options_are_one_pass_from_the_models_own_drafts() -> None:
    default = DecodeOptions()
    assert (default.method, default.drafter, default.draft_length, default.sampling) == (
        "one-pass",
        "self",
        None,
        Sampling(),
    )
