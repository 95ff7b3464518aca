"""Any-subset speculative decoding as published: a pass that drafts, then a pass that tests, until all is decided.

In a round the model first answers K queries that all see the decided steps only, and drafts are drawn independently
from those parallel conditionals (q). A second pass encodes the drafts and answers each of their steps given exactly its
past (p). The first draft's row is its own verification, so it is kept untested and no pass is ever wasted; with one
target left there is nothing to test and the second pass is skipped. Hence passes <= targets for every K >= 2, with
equality at K = 2.
Source: Guo & Ermon 2025, algorithm 1, theorems 1 and 2.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

from anyorder.decoding.generation import Round
from anyorder.decoding.session import Session
from anyorder.drafting import Drafts
from anyorder.verify import verify
from anyorder.visibility import draft_rows, verify_rows


def decode_assd(session: Session) -> None:
    """Draft and test until every step of every sequence is decided."""
    while session.is_alive:
        step, num_drafts = session.num_decoded, _draft_lengths(session)
        num_exact = num_drafts.clamp(max=1)
        logits, query = session.forward(step, draft_rows(session.steps(num_drafts), step))
        allowed = session.allowed(logits, query)
        session.inspect(allowed[:, 0], num_exact)
        q = session.probs(allowed)
        tokens = session.uniforms.categorical(q, session.steps(num_drafts) < session.order.num_steps)
        session.place(tokens, num_drafts)
        if bool((num_drafts > 1).any()):
            # The last draft is tested, but no row sees it yet: it is encoded by the next round, if it stays.
            last = step + num_drafts - 1
            logits, query = session.forward(last, verify_rows(session.steps(num_drafts - 1, offset=1)))
            allowed = torch.cat([allowed[:, :1], session.allowed(logits, query)], 1)
        p = F.pad(session.probs(allowed), (0, 0, 0, 1))
        no_bonus = torch.zeros_like(step, dtype=torch.bool)
        verdict = verify(Drafts(tokens, q, num_exact), p, num_drafts, no_bonus, uniforms=session.uniforms)
        session.inspect_after(verdict.num_kept, allowed, num_drafts)
        num_kept = session.read(verdict.num_kept)
        done = Round(
            rows=session.rows,
            step=step,
            drafted=tokens,
            num_drafts=num_drafts,
            num_exact=num_exact,
            num_kept=num_kept,
            has_final=num_kept < num_drafts,
        )
        session.commit(verdict.applied_to(tokens), allowed, done)
        session.compact()


def _draft_lengths(session: Session) -> torch.Tensor:
    """(A,) K of this round, at most what is left; 1 is a plain step, 0 a sequence that is finished."""
    options, remaining = session.options, session.remaining
    if options.draft_length is not None:
        return remaining.clamp(max=options.draft_length)
    chosen = options.policy.two_pass_length(session.survival, remaining)
    return torch.where(remaining > 0, chosen, 0)
