"""Any-subset speculative decoding as published: a pass that drafts, then a pass that tests, until all is decided.

In a round the model first answers K queries that all see the decided steps only, and drafts are drawn independently
from those parallel conditionals (q). A second pass encodes the drafts and answers each of their steps given exactly its
past (p). The first draft's row is its own verification, so it is kept untested and no pass is ever wasted; with one
target left there is nothing to test and the second pass is skipped. Hence passes <= targets for every K >= 2, with
equality at K = 2.
Source: Guo & Ermon 2025, algorithm 1, theorems 1 and 2.
"""

from __future__ import annotations

import numpy as np
import torch

from anyorder.arrays import Ints
from anyorder.decoding.sequential import decode_step
from anyorder.decoding.session import Session
from anyorder.drafting import Drafts
from anyorder.verify import verify
from anyorder.visibility import draft_rows, verify_rows


def decode_assd(session: Session) -> None:
    """Draft and test until every step of every sequence is decided."""
    while session.is_alive:
        num_drafts = _draft_lengths(session)
        if num_drafts.max() <= 1:
            decode_step(session, is_draft=True)
        else:
            _draft_and_test(session, num_drafts)
        session.compact()


def _draft_and_test(session: Session, num_drafts: Ints) -> None:
    """A round with (A,) drafts, at least two of them in some sequence."""
    step, num_exact = session.num_decoded, np.minimum(num_drafts, 1)
    steps = torch.from_numpy(session.steps(num_drafts))
    logits, query = session.forward(step, draft_rows(steps, torch.from_numpy(step)))
    allowed = session.allowed(logits, query)
    is_drafted = steps < session.order.num_steps
    session.readback.note(allowed, is_drafted.numpy())
    q = session.probs(allowed)
    tokens = session.uniforms.categorical(q, is_drafted)
    session.place(tokens, num_drafts)
    # The last draft is tested, but no row sees it yet: it is encoded by the next round, if it stays.
    tested = verify_rows(torch.from_numpy(session.steps(num_drafts - 1, offset=1)))
    logits, query = session.forward(step + num_drafts - 1, tested)
    tested_allowed = session.allowed(logits, query)
    p = torch.cat([q[:, :1], session.probs(tested_allowed), torch.zeros_like(q[:, :1])], 1)  # no bonus row
    counts, has_bonus = torch.from_numpy(num_drafts), torch.zeros(len(step), dtype=torch.bool)
    drafts = Drafts(tokens, q, torch.from_numpy(num_exact))
    verdict = verify(drafts, p, counts, has_bonus, uniforms=session.uniforms)
    allowed = torch.cat([allowed[:, :1], tested_allowed], 1)
    num_kept = session.readback.num_kept(verdict.num_kept, allowed, num_drafts)
    session.commit(
        verdict.applied_to(tokens),
        allowed,
        drafts=drafts,
        num_drafts=num_drafts,
        num_kept=num_kept,
        has_final=num_kept < num_drafts,
    )


def _draft_lengths(session: Session) -> Ints:
    """(A,) K of this round, at most what is left; 1 is a plain step, 0 a sequence that is finished."""
    options, remaining = session.options, session.remaining
    if options.draft_length is not None:
        return np.minimum(remaining, options.draft_length)
    choose = options.policy.two_pass_length
    return np.array([choose(level, left) for level, left in zip(session.levels, remaining.tolist(), strict=True)])
