"""One-pass ASSD: the pass that tests the drafts in hand also answers the next ones, for every outcome of the test.

A draft may come from any distribution as long as it is the one it was drawn from, so the next round's draft queries
need not wait for the outcome of this one: if `a` of w drafts are kept and step n + a is corrected, the steps after it
are drafted from rows that see n + a steps. Those rows exist before the test, one set an outcome, and every one of them
is a prefix length. A pass decides one token more than it keeps drafts, so passes <= targets for every K, where the
published round spends two. A drafter other than the model has nothing to ask in advance; its drafts are made at the
head of the round and the same pass tests them.
"""

from __future__ import annotations

import torch

from anyorder.decoding.generation import Round
from anyorder.decoding.outcomes import OutcomeRows, Planner
from anyorder.decoding.sequential import decode_step
from anyorder.decoding.session import Session
from anyorder.drafting import Drafts
from anyorder.verify import verify


def decode_one_pass(session: Session) -> None:
    """Test, decide and draft in every pass until every step of every sequence is decided."""
    num_drafts = torch.zeros_like(session.num_decoded)
    drafts, planner = session.no_drafts(), Planner(session)
    while session.is_alive:
        step = session.num_decoded
        if session.drafter is not None:
            num_drafts = external_lengths(session)
            drafts = session.propose(num_drafts)
        ahead = planner.next_lengths(num_drafts)
        if not (num_drafts.any() or ahead.any()):
            decode_step(session)
            session.compact()
            num_drafts, drafts = torch.zeros_like(session.num_decoded), session.no_drafts()
            continue
        session.place(drafts.tokens, num_drafts)
        rows = OutcomeRows.plan(session, num_drafts, ahead)
        logits, query = session.forward(step + num_drafts, rows.query)
        allowed = session.allowed(rows.testing(logits), rows.testing_rows(query))
        has_bonus = session.remaining > num_drafts
        verdict = verify(drafts, session.probs(allowed), num_drafts, has_bonus, uniforms=session.uniforms)
        session.inspect_after(verdict.num_kept, allowed, num_drafts + has_bonus)
        num_kept = session.read(verdict.num_kept)
        done = Round(
            rows=session.rows,
            step=step,
            drafted=drafts.tokens,
            num_drafts=num_drafts,
            num_exact=drafts.num_exact,
            num_kept=num_kept,
            has_final=(num_kept < num_drafts) | has_bonus,
        )
        session.commit(verdict.applied_to(drafts.tokens), allowed, done)
        num_drafts, answers, asked = rows.of_outcome(num_kept, logits, query)
        q = session.probs(session.allowed(answers, asked))
        tokens = session.uniforms.categorical(q, torch.arange(q.shape[1]) < num_drafts[:, None])
        drafts = Drafts(tokens, q, torch.zeros_like(num_drafts))
        kept = session.compact()
        if kept is not None:
            num_drafts, drafts = num_drafts[kept], drafts.select(kept)


def external_lengths(session: Session) -> torch.Tensor:
    """(A,) how many drafts to take from a drafter that costs no pass, at most what is left."""
    options, remaining = session.options, session.remaining
    if options.draft_length is not None:
        return remaining.clamp(max=options.draft_length)
    return options.policy.external_length(session.survival, remaining)
