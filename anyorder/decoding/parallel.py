"""Parallel decoding: many targets at once from their parallel conditionals, as if they were independent. Lossy.

This is what a diffusion model does, and the baseline of quality against speed: the targets are decided in groups, a
pass a group, each token drawn without a look at the others of its group. Only forbidden strings are watched inside a
group, since no fill may contain one whatever the method.
"""

from __future__ import annotations

import torch
from torch import Tensor

from anyorder.decoding.generation import Round
from anyorder.decoding.session import Session
from anyorder.visibility import Rows, draft_rows


def decode_parallel(session: Session) -> None:
    """Decide the targets of each sequence in ``options.steps`` groups of as equal a size as possible."""
    targets, first = session.remaining, session.num_decoded
    groups = targets.clamp(max=session.options.steps)
    num_passes = int(groups.max()) if len(groups) else 0
    for number in range(1, num_passes + 1):
        until = first + targets * number // groups.clamp(min=1)
        count = torch.where(number <= groups, until - session.num_decoded, 0)
        logits, query = session.forward(session.num_decoded, draft_rows(session.steps(count), session.num_decoded))
        tokens, allowed = _draw(session, logits, query, count)
        done = Round(
            rows=session.rows,
            step=session.num_decoded,
            drafted=tokens,
            num_drafts=count,
            num_exact=torch.zeros_like(count),
            num_kept=count,
            has_final=torch.zeros_like(count, dtype=torch.bool),
        )
        session.commit(tokens, allowed, done)
        kept = session.compact()
        if kept is not None:
            targets, first, groups = targets[kept], first[kept], groups[kept]


def _draw(session: Session, logits: Tensor, query: Rows, count: Tensor) -> tuple[Tensor, Tensor]:
    """(A, K) tokens and (A, K, V) what they were drawn from, for ``count`` (A,) rows of each sequence.

    The network saw the same steps in every row; with forbidden strings a draw must also see what the group has drawn.
    """
    width = logits.shape[1]
    size = 1 if session.forbidden.strings else max(width, 1)
    tokens, allowed = [], []
    for start in range(0, width, size):
        part = slice(start, start + size)
        seen = query.num_visible if size == width else query.steps
        rows = Rows(query.steps[:, part], seen[:, part])
        allowed.append(session.allowed(logits[:, part], rows))
        place = torch.arange(start, min(start + size, width))
        where = place < count[:, None]
        for column in range(where.shape[1]):
            session.inspect(allowed[-1][:, column], where[:, column])
        tokens.append(session.uniforms.categorical(session.probs(allowed[-1]), where))
        session.place(torch.cat(tokens, 1), count.clamp(max=start + where.shape[1]))
    return torch.cat(tokens, 1), torch.cat(allowed, 1)
