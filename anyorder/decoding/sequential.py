"""Sequential decoding, the oracle: one query a pass, each token drawn from p given everything before it.

Every claim of losslessness is relative to this loop. It takes as many passes as there are targets, the prompt being
encoded by the pass that asks for the first of them, and it never waits for the device.
"""

from __future__ import annotations

import torch

from anyorder.decoding.generation import Round
from anyorder.decoding.session import Session
from anyorder.visibility import verify_rows


def decode_sequential(session: Session) -> None:
    """Decide one step of every sequence a pass until none is left."""
    while session.is_alive:
        decode_step(session)
        session.compact()


def decode_step(session: Session) -> None:
    """One pass that decides the next step of every sequence: a round of any method that has nothing to draft."""
    alive = (session.remaining > 0).long()
    logits, query = session.forward(session.num_decoded, verify_rows(session.steps(alive)))
    allowed = session.allowed(logits, query)
    session.inspect(allowed[:, 0], alive)
    tokens = session.uniforms.categorical(session.probs(allowed), alive[:, None] > 0)
    nothing = torch.zeros_like(alive)
    done = Round(
        rows=session.rows,
        step=session.num_decoded,
        drafted=tokens[:, :0],
        num_drafts=nothing,
        num_exact=nothing,
        num_kept=nothing,
        has_final=alive > 0,
    )
    session.commit(tokens, allowed, done)
