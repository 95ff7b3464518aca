"""The lossless loop: a pass tests the drafts in hand as tokens, decides one more, and asks masks for the next drafts.

A token that was taken is encoded in the next pass anyway, and the logits it yields there are the exact autoregressive
ones; so candidates are held back as drafts, encoded, tested against those logits with the q they were drawn from, and
corrected at the first rejection. How many drafts are asked for, and how many of those are drawn, is settled from what
was decided before and from whole distributions, never from a drawn token: once drawn, a draft is tested.
Sources: Leviathan et al. 2023 for the test; MARS (arXiv 2604.07023) and Orthrus (arXiv 2605.12825) for the masks.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from anyorder.adapters.causal.schedules import Schedule
from anyorder.adapters.causal.session import Session
from anyorder.drafting import Drafts

Confidence = Literal["probability", "entropy", "margin"]
"""How sure a row is: its largest probability, exp(-entropy), or the largest less the second; each is 1 at best."""


def confidence_of(logits: Tensor, kind: Confidence) -> Tensor:
    """(..., V) logits in at least float32 -> (...) confidence."""
    if kind == "probability":
        return logits.softmax(-1).amax(-1)
    if kind == "margin":
        top = logits.softmax(-1).topk(2, -1).values
        return top[..., 0] - top[..., 1]
    log_probs = logits.log_softmax(-1)
    # An impossible token adds nothing to the entropy, where 0 * -inf would be NaN.
    return (log_probs.exp() * log_probs.clamp(min=torch.finfo(logits.dtype).min)).sum(-1).exp()


def decode_verified(session: Session, schedule: Schedule, *, confidence: float = 0.0) -> None:
    """Generate, testing every draft against the model's own distribution; see the module.

    Args:
        session: what to decode.
        schedule: how many drafts to ask for.
        confidence: draw a draft only if its row, and those before it, give some token at least this probability.
    """
    drafts, num_drafts = session.no_drafts(), torch.zeros_like(session.num_decoded)
    while session.is_alive:
        width = drafts.tokens.shape[1]
        plan, logits = session.forward(drafts, num_drafts, schedule.lengths(session, num_drafts, width))
        testing = logits[:, : width + 1]
        tested = num_drafts * plan.decides
        verdict = session.test(drafts, testing, tested, (num_drafts < session.remaining) & plan.decides)
        done = session.commit(
            verdict.applied_to(drafts.tokens),
            verdict.num_kept,
            logits=testing,
            plan=plan,
            num_drafts=tested,
            encoded=True,
        )
        schedule.observe(tested, done.num_kept, done.alive)
        held, before = drafts, (num_drafts - tested)[done.alive]
        num_drafts, answers = plan.of_outcome(done.num_kept, logits)
        num_drafts, answers = num_drafts[done.alive], answers[done.alive.to(answers.device)]
        if confidence > 0:
            # A pass that did nothing but draft is paid for: its first draft is tested however unsure it is.
            least = (~plan.decides[done.alive]).long().clamp(max=num_drafts)
            num_drafts = torch.maximum(_sure(answers, num_drafts, confidence), least)
        drafts = session.draw(answers, num_drafts)
        if bool(before.any()):
            drafts, num_drafts = _behind(held.select(done.alive), before, drafts), before + num_drafts


def _behind(held: Drafts, before: Tensor, drawn: Drafts) -> Drafts:
    """The first ``before[a]`` of the drafts held, with those drawn behind them."""
    column = torch.arange(held.tokens.shape[1] + drawn.tokens.shape[1])
    is_held = column < before[:, None]
    place = torch.where(is_held, column, held.tokens.shape[1] + (column - before[:, None])).clamp(max=len(column) - 1)
    place = place.to(held.tokens.device)
    tokens, q = torch.cat([held.tokens, drawn.tokens], 1), torch.cat([held.q, drawn.q], 1)
    if q.shape[1]:  # greedy drafts have none
        q = q.gather(1, place[..., None].expand(-1, -1, q.shape[-1]))
    return Drafts(tokens.gather(1, place), q, drawn.num_exact)


def _sure(answers: Tensor, num_drafts: Tensor, confidence: float) -> Tensor:
    """(A,) how many drafts come from rows that are sure, with all rows before them: known before any is drawn."""
    sure = (confidence_of(answers, "probability") >= confidence).cpu()
    return torch.minimum(sure.long().cumprod(1).sum(1), num_drafts)
