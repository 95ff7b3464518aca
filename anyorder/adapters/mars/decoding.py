"""The two loops: take what the model is sure of (threshold), or test what it proposed (verify).

*Threshold* (published): a pass encodes what was decided last and appends masks; the row of the last token decides the
next one exactly, and the masks' candidates are taken left to right as long as the confidence is at least tau. Lossy.
*Verify* (ours): a token that was taken is encoded in the next pass anyway, and the logits it yields there are the exact
autoregressive ones. So candidates are held back as drafts, encoded, tested against those logits with the q they were
drawn from, and corrected at the first rejection: lossless at every temperature, for no extra pass. Masks for the next
drafts ride along, after the drafts (*linear*: useful if all are kept) or once an outcome (*quadratic*).
Sources: MARS (arXiv 2604.07023), section 4; Leviathan et al. 2023 for the test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from anyorder.adapters.causal.session import Session
from anyorder.adapters.mars.options import Confidence, Lookahead

Tau = float | Sequence[float] | Callable[[int, int], float]
"""One threshold, one a prompt, or a function of (number of the prompt, tokens generated) asked before every pass."""


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


class Thresholds:
    """What tau is for every sequence, as it goes.

    Args:
        tau: see ``Tau``.
        num_sequences: B.
    """

    def __init__(self, tau: Tau, num_sequences: int) -> None:
        self._ask = tau if callable(tau) else None
        given = [] if callable(tau) else [tau] * num_sequences if isinstance(tau, int | float | str) else list(tau)
        if self._ask is None and len(given) != num_sequences:
            raise ValueError(f"tau has {len(given)} values for {num_sequences} prompts: give one, or one a prompt")
        self._given = torch.tensor([_checked(value) for value in given], dtype=torch.float64)
        self.is_lossless = [True] * num_sequences

    def levels(self, session: Session) -> Tensor:
        """(A,) float64 on the host for the sequences alive."""
        rows = session.rows.tolist()
        if self._ask is None:
            levels = self._given[session.rows]
        else:
            made = [_checked(self._ask(row, len(session.books.tokens[row]))) for row in rows]
            levels = torch.tensor(made, dtype=torch.float64)
        for row, level in zip(rows, levels.tolist(), strict=True):
            self.is_lossless[row] &= level >= 1
        return levels


def decode_threshold(session: Session, thresholds: Thresholds, *, masks: int, confidence: Confidence) -> None:
    """Take candidates while the model is sure enough; at tau of 1 or more, one token a pass, without masks.

    That case is not left to a comparison with 1: half precision rounds what lies above 0.998 to 1.

    Args:
        session: what to decode.
        thresholds: tau.
        masks: mask rows a pass.
        confidence: how sureness is measured.
    """
    while session.is_alive:
        levels = thresholds.levels(session)
        none = torch.zeros_like(session.num_decided)
        wanted = torch.minimum(torch.where(levels < 1, masks, 0), session.remaining - 1)
        plan, logits = session.forward(session.no_drafts(), none, wanted[:, None])
        num_masks = plan.lengths[:, 0]
        is_offered = torch.arange(logits.shape[1] - 1) < num_masks[:, None]
        sure = confidence_of(logits[:, 1:], confidence) >= levels[:, None].to(logits.device, non_blocking=True)
        num_kept = (sure & is_offered.to(logits.device, non_blocking=True)).long().cumprod(1).sum(1)
        session.commit(logits.argmax(-1), num_kept, first=logits[:, 0], plan=plan, num_drafts=num_masks, encoded=False)


def decode_verified(session: Session, *, masks: int, lookahead: Lookahead) -> None:
    """Test every draft against the model's own distribution; see the module.

    How many drafts a pass has depends on nothing but how many were kept before: once drawn, a draft is tested.

    Args:
        session: what to decode.
        masks: drafts a pass asks for, in every outcome it prepares for.
        lookahead: which outcomes those are.
    """
    drafts, num_drafts = session.no_drafts(), torch.zeros_like(session.num_decided)
    while session.is_alive:
        width = drafts.tokens.shape[1]
        outcome = torch.arange(width + 1)
        # The outcome's own token takes a step, so this many are left to draft after it.
        left = (session.remaining[:, None] - 1 - outcome).clamp(min=0, max=masks)
        prepared = outcome == num_drafts[:, None] if lookahead == "linear" else outcome <= num_drafts[:, None]
        has_bonus = num_drafts < session.remaining
        plan, logits = session.forward(drafts, num_drafts, left * prepared)
        testing = logits[:, : width + 1]
        verdict = session.test(drafts, testing, num_drafts, has_bonus & plan.decides)
        done = session.commit(
            verdict.applied_to(drafts.tokens),
            verdict.num_kept,
            first=testing[:, 0],
            plan=plan,
            num_drafts=num_drafts,
            encoded=True,
        )
        num_drafts, answers = plan.of_outcome(done.num_kept, logits)
        num_drafts, answers = num_drafts[done.alive], answers[done.alive.to(answers.device)]
        drafts = session.draw(answers, num_drafts)


def _checked(tau: object) -> float:
    if isinstance(tau, bool) or not isinstance(tau, int | float):
        raise TypeError(f"tau must be a number; got {tau!r} ({type(tau).__name__})")
    if not tau >= 0:
        raise ValueError(f"tau must be at least 0 (1 or more decodes one token a pass); got {tau!r}")
    return float(tau)
