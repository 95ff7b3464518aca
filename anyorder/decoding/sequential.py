"""Sequential decoding, the oracle: one query a pass, each token drawn from p given everything before it.

Every claim of losslessness is relative to this loop. It takes as many passes as there are targets, the prompt being
encoded by the pass that asks for the first of them, and it never waits for the device.
"""

from __future__ import annotations

import numpy as np
import torch

from anyorder.decoding.session import Session
from anyorder.drafting import Drafts
from anyorder.visibility import verify_rows


def decode_sequential(session: Session) -> None:
    """Decide one step of every sequence a pass until none is left."""
    while session.is_alive:
        decode_step(session)
        session.compact()


def decode_step(session: Session, *, is_draft: bool = False) -> None:
    """One pass that decides the next step of every sequence: a round of any method that has nothing to test.

    Args:
        session: the sequences.
        is_draft: whether the books call the token an exact draft, as a round of ASSD does.
    """
    alive = session.remaining > 0
    steps = session.steps(alive.astype(np.int64))
    logits, query = session.forward(session.num_decoded, verify_rows(torch.from_numpy(steps)))
    allowed = session.allowed(logits, query)
    session.readback.note(allowed, alive[:, None])
    probs = session.probs(allowed)
    tokens = session.uniforms.categorical(probs, torch.from_numpy(alive[:, None]))
    exact = (alive & is_draft).astype(np.int64)
    session.commit(
        tokens,
        allowed,
        drafts=Drafts(tokens[:, : int(is_draft)], probs[:, : int(is_draft)], torch.from_numpy(exact)),
        num_drafts=exact,
        num_kept=exact,
        has_final=alive & (not is_draft),
    )
