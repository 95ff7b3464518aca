"""How many drafts a round holds is the policy's word on the sequence's own past: read back from what was recorded."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from joint import ragged_cases
from methods import EAGER, StubbornDrafter
from table_model import TableModel

from anyorder.decoding import DecodeOptions, RoundRecord
from anyorder.draft_length import DraftLengthPolicy, History, PassCosts
from anyorder.drafting import Drafts
from anyorder.uniforms import Uniforms

MODEL = TableModel(3, seed=2, sharpness=0.7)
TARGETS = (24, 0, 7, 15)

CHOSEN = {
    "assd": DecodeOptions(method="assd", policy=EAGER),
    "ngram": DecodeOptions(drafter="ngram", policy=EAGER),
    "user's drafter": DecodeOptions(method="assd", drafter=StubbornDrafter(3), policy=EAGER),
    "one-pass": DecodeOptions(policy=EAGER),
    "one-pass K=3": DecodeOptions(policy=EAGER, draft_length=3),
    "one-pass, 4 rows": DecodeOptions(policy=EAGER, max_rows=4),
    "one-pass K=3, 5 rows": DecodeOptions(policy=EAGER, draft_length=3, max_rows=5),
}


def wanted_length(options: DecodeOptions, level: int, left: int, last: RoundRecord | None, last_level: int) -> int:
    """How many drafts a round must hold at this level with so many steps left, after that round at that level."""
    if options.drafter != "self":
        return options.policy.external_length(level, left)
    if options.method == "assd":
        return options.policy.two_pass_length(level, left)
    if last is None:
        return 0
    asked = options.policy.next_drafts(
        last_level, len(last.drafted), constant=options.draft_length, max_rows=options.max_rows
    )
    return min(asked[last.num_kept], left)


@pytest.mark.parametrize("kind", CHOSEN)
def test_a_round_holds_the_drafts_that_the_policy_chooses_from_the_sequences_own_past(kind: str) -> None:
    options, cases = CHOSEN[kind], ragged_cases(3, TARGETS, scrambled=True, width=26)
    generation = cases.run(torch.arange(4), Uniforms(range(4)), MODEL, options)
    levels_seen = set()
    for targets, trace in zip(TARGETS, generation.trace, strict=True):
        history, left, last, last_level = History.empty(1), targets, None, 0
        for record in trace:
            level = options.policy.levels(history)[0]
            assert len(record.drafted) == wanted_length(options, level, left, last, last_level)
            levels_seen.add(level)
            tested, kept = len(record.drafted) - record.num_exact, record.num_kept - record.num_exact
            history = options.policy.after(history, np.array([tested]), np.array([kept]))
            left, last, last_level = left - record.num_decided, record, level
    assert len(levels_seen) > 2


class Unasked:
    """A drafter that must not be called."""

    def propose(self, *_: object) -> Drafts:
        raise AssertionError("asked for drafts that do not pay")


def test_a_drafter_whose_drafts_do_not_pay_is_not_asked() -> None:
    steep = DraftLengthPolicy(costs=PassCosts(rows=(1, 100), costs=(1.0, 100.0)))
    cases = ragged_cases(3, (5, 0, 3), scrambled=True)
    generations = [
        cases.run(torch.arange(3), Uniforms(range(3)), MODEL, options)
        for options in (DecodeOptions(drafter=Unasked(), policy=steep), DecodeOptions(method="sequential"))
    ]
    assert torch.equal(generations[0].tokens, generations[1].tokens)
    assert [stats.draft_nfe for stats in generations[0].stats] == [0, 0, 0]


class Scribbler(StubbornDrafter):
    """Fills what it was not asked for with ids outside the vocabulary and with NaN."""

    def propose(self, *arguments: object) -> Drafts:
        honest, k = super().propose(*arguments), arguments[3]  # type: ignore[arg-type]
        beyond = torch.arange(honest.tokens.shape[1]) >= k[:, None]  # type: ignore[index]
        q = honest.q.masked_fill(beyond[..., None], torch.nan)
        return Drafts(honest.tokens.masked_fill(beyond, 10**6), q, honest.num_exact)


def test_what_a_drafter_writes_beyond_what_it_was_asked_for_is_not_read() -> None:
    cases = ragged_cases(3, (7, 1, 4, 0, 6, 2), scrambled=True, width=9)
    clean, scribbled = (
        cases.run(torch.arange(6), Uniforms(range(6)), MODEL, DecodeOptions(drafter=drafter, draft_length=3))
        for drafter in (StubbornDrafter(3), Scribbler(3))
    )
    assert torch.equal(scribbled.tokens, clean.tokens)
    assert torch.equal(scribbled.log_probs, clean.log_probs)
    assert scribbled.trace == clean.trace
