"""Parallel decoding: many targets at once from their parallel conditionals, as if they were independent. Lossy.

This is what a diffusion model does, and the baseline of quality against speed: the targets are decided in groups, a
pass a group, each token drawn without a look at the others of its group. Only forbidden strings are watched inside a
group, since no fill may contain one whatever the method.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from anyorder.arrays import Ints
from anyorder.decoding.session import Session
from anyorder.drafting import Drafts
from anyorder.visibility import Rows, draft_rows, verify_rows


def decode_parallel(session: Session) -> None:
    """Decide the targets of each sequence in ``options.steps`` groups of as equal a size as possible."""
    targets, first = session.remaining, session.num_decoded
    groups = np.minimum(targets, session.options.steps)
    for number in range(1, int(groups.max(initial=0)) + 1):
        until = first + targets * number // np.maximum(groups, 1)
        count = np.where(number <= groups, until - session.num_decoded, 0)
        steps, seen = torch.from_numpy(session.steps(count)), torch.from_numpy(session.num_decoded)
        logits, query = session.forward(session.num_decoded, draft_rows(steps, seen))
        tokens, allowed = _draw(session, logits, query, count)
        session.commit(
            tokens,
            allowed,
            drafts=Drafts(tokens, allowed, torch.zeros(len(count), dtype=torch.long)),  # untested: their q is of no use
            num_drafts=count,
            num_kept=count,
            has_final=np.zeros(len(count), dtype=bool),
        )
        kept = session.compact()
        if kept is not None:
            targets, first, groups = targets[kept], first[kept], groups[kept]


def _draw(session: Session, logits: Tensor, query: Rows, count: Ints) -> tuple[Tensor, Tensor]:
    """(A, K) tokens and (A, K, V) what they were drawn from, for ``count`` (A,) rows of each sequence.

    The network saw the same steps in every row; a draw that watches for forbidden strings also sees what the group has
    drawn, so that the draws are then made one by one.
    """
    width = logits.shape[1]
    size = 1 if session.forbidden.strings else width
    tokens, allowed = [], []
    for start in range(0, width, size):
        part = slice(start, start + size)
        allowed.append(session.allowed(logits[:, part], verify_rows(query.steps[:, part])))
        where = np.arange(start, min(start + size, width)) < count[:, None]
        session.readback.note(allowed[-1], where)
        tokens.append(session.uniforms.categorical(session.probs(allowed[-1]), torch.from_numpy(where)))
        session.place(torch.cat(tokens, 1), np.minimum(count, start + where.shape[1]))
    return torch.cat(tokens, 1), torch.cat(allowed, 1)
