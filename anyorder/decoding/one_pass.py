"""One-pass ASSD: the pass that tests the drafts in hand also answers the next ones, for every outcome of the test.

A draft may come from any distribution as long as it is the one it was drawn from, so the next round's draft queries
need not wait for the outcome of this one: if `a` of w drafts are kept and step n + a is corrected, the steps after it
are drafted from rows that see n + a steps. Those rows exist before the test, one set an outcome, and every one of them
is a prefix length. A pass decides one token more than it keeps drafts, so passes <= targets for every K, where the
published round spends two. A drafter other than the model has nothing to ask in advance; its drafts are made at the
head of the round and the same pass tests them.
"""

from __future__ import annotations

import numpy as np
import torch

from anyorder.arrays import Ints
from anyorder.decoding.outcomes import OutcomeRows, next_lengths
from anyorder.decoding.sequential import decode_step
from anyorder.decoding.session import Session
from anyorder.drafting import Drafter, Drafts, NGramDrafter, check_drafts
from anyorder.verify import verify


def decode_one_pass(session: Session) -> None:
    """Test, decide and draft in every pass until every step of every sequence is decided."""
    num_drafts, drafts = np.zeros_like(session.num_decoded), _no_drafts(session)
    while session.is_alive:
        drafter = session.drafter
        if drafter is not None:
            num_drafts = _external_lengths(session)
            drafts = _propose(session, drafter, num_drafts)
        ahead = next_lengths(session, num_drafts)
        if num_drafts.any() or ahead.any():
            num_drafts, drafts = _test_and_draft(session, num_drafts, drafts, ahead)
        else:
            decode_step(session)
        kept = session.compact()
        if kept is not None:
            num_drafts, drafts = num_drafts[kept], drafts.select(torch.from_numpy(kept))


def _test_and_draft(session: Session, num_drafts: Ints, drafts: Drafts, ahead: Ints) -> tuple[Ints, Drafts]:
    """A round with (A,) drafts in hand that asks for (A, W) next ones; returns those of the outcome that happened."""
    step, has_bonus = session.num_decoded, session.remaining > num_drafts
    session.place(drafts.tokens, num_drafts)
    rows = OutcomeRows.plan(session, num_drafts, ahead)
    logits, query = session.forward(step + num_drafts, rows.query)
    allowed = session.allowed(rows.testing(logits), rows.testing_rows(query))
    verdict = verify(
        drafts,
        session.probs(allowed),
        torch.from_numpy(num_drafts),
        torch.from_numpy(has_bonus),
        uniforms=session.uniforms,
    )
    num_kept = session.readback.num_kept(verdict.num_kept, allowed, num_drafts + has_bonus)
    session.commit(
        verdict.applied_to(drafts.tokens),
        allowed,
        drafts=drafts,
        num_drafts=num_drafts,
        num_kept=num_kept,
        has_final=(num_kept < num_drafts) | has_bonus,
    )
    num_next, answers, asked = rows.of_outcome(num_kept, logits, query)
    if not num_next.any():
        return num_next, _no_drafts(session)
    allowed, is_drafted = session.allowed(answers, asked), np.arange(answers.shape[1]) < num_next[:, None]
    session.readback.note(allowed, is_drafted)
    q = session.probs(allowed)
    tokens = session.uniforms.categorical(q, torch.from_numpy(is_drafted))
    return num_next, Drafts(tokens, q, torch.zeros(len(num_next), dtype=torch.long))


def _external_lengths(session: Session) -> Ints:
    """(A,) how many drafts to take from a drafter that costs no pass, at most what is left."""
    options, remaining = session.options, session.remaining
    if options.draft_length is not None:
        return np.minimum(remaining, options.draft_length)
    choose = options.policy.external_length
    return np.array([choose(level, left) for level, left in zip(session.levels, remaining.tolist(), strict=True)])


def _no_drafts(session: Session) -> Drafts:
    """Drafts of width zero."""
    nothing = session.tokens[:, :0]
    q = torch.zeros(*nothing.shape, session.model.vocab_size, device=nothing.device)
    return Drafts(nothing, q, torch.zeros(len(nothing), dtype=torch.long))


def _propose(session: Session, drafter: Drafter, num_drafts: Ints) -> Drafts:
    """Ask the drafter for (A,) drafts of each sequence, and check what it returns."""
    if not num_drafts.any():
        return _no_drafts(session)
    # Copies: a user's drafter may do with them what it likes.
    text, step, counts = session.tokens[:, :-1].clone(), session.num_decoded.copy(), num_drafts.copy()
    drafts = drafter.propose(
        text,
        session.order,
        torch.from_numpy(step),
        torch.from_numpy(counts),
        session.options.sampling,
        session.uniforms,
    )
    if not isinstance(drafter, NGramDrafter):
        check_drafts(drafts, torch.from_numpy(num_drafts), session.model.vocab_size)
    session.ledger.count_drafts(session.rows, num_drafts)
    asked = session.to_device(np.arange(drafts.tokens.shape[1]) < num_drafts[:, None])
    return Drafts(torch.where(asked, drafts.tokens, 0), drafts.q, drafts.num_exact.cpu())
