"""The published loop: take what the model is sure of.

A pass encodes what was decided last and appends masks; the row of the last token decides the next one exactly, and the
masks' candidates are taken left to right as long as the confidence is at least tau. Lossy. (Verify mode, which tests
them instead, is the loop of ``causal.drafted``.)
Source: MARS (arXiv 2604.07023), section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from anyorder.adapters.causal.drafted import Confidence, confidence_of
from anyorder.adapters.causal.session import Session
from anyorder.integers import as_number, check_number

Tau = float | Sequence[float] | Callable[[int, int], float]
"""One threshold, one a prompt, or a function of (number of the prompt, tokens generated) asked before every pass."""


class Thresholds:
    """What tau is for every sequence, as it goes.

    Args:
        tau: see ``Tau``.
        num_sequences: B.
    """

    def __init__(self, tau: Tau, num_sequences: int) -> None:
        self._ask = tau if callable(tau) else None
        given = [] if callable(tau) else _given(tau, num_sequences)
        if self._ask is None and len(given) != num_sequences:
            raise ValueError(f"tau has {len(given)} values for {num_sequences} prompts: give one, or one a prompt")
        self._given = torch.tensor([_checked(value) for value in given], dtype=torch.float64)

    def levels(self, session: Session) -> Tensor:
        """(A,) float64 on the host for the sequences alive, whose books say where they are lossy."""
        rows = session.rows.tolist()
        if self._ask is None:
            levels = self._given[session.rows]
        else:
            made = [_checked(self._ask(row, len(session.books.tokens[row]))) for row in rows]
            levels = torch.tensor(made, dtype=torch.float64)
        for row, level in zip(rows, levels.tolist(), strict=True):
            session.books.is_lossless[row] &= level >= 1
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
        none = torch.zeros_like(session.num_decoded)
        wanted = torch.minimum(torch.where(levels < 1, masks, 0), session.remaining - 1)
        plan, logits = session.forward(session.no_drafts(), none, wanted[:, None])
        num_masks = plan.lengths[:, 0]
        is_offered = torch.arange(logits.shape[1] - 1) < num_masks[:, None]
        sure = confidence_of(logits[:, 1:], confidence) >= levels[:, None].to(logits.device, non_blocking=True)
        num_kept = (sure & is_offered.to(logits.device, non_blocking=True)).long().cumprod(1).sum(1)
        session.commit(logits.argmax(-1), num_kept, logits=logits, plan=plan, num_drafts=num_masks, encoded=False)


def _given(tau: object, count: int) -> list[object]:
    """One value for all, or those of a sequence."""
    is_one = as_number(tau) is not None or isinstance(tau, str | bytes) or getattr(tau, "ndim", 1) == 0
    return list(tau) if isinstance(tau, Iterable) and not is_one else [tau] * count


def _checked(tau: object) -> float:
    number = check_number("tau", tau)
    if not number >= 0:
        raise ValueError(f"tau must be at least 0 (1 or more decodes one token a pass); got {tau!r}")
    return number
