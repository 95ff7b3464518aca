"""The query rows of a one-pass round: those that test the drafts in hand, and the next drafts' for every outcome.

With w drafts in hand at steps n .. n + w - 1, row n + a tests draft a (a < w) or yields the bonus token (a = w); it
sees n + a steps. Outcome a, "a drafts kept, step n + a decided by that row", asks in advance for the steps n + a + 1,
... that see n + a steps. Rows that test are mandatory. Rows of next drafts may be left out for any reason known before
the test: a row that was not computed only means fewer drafts in the next round. They are left out by expected use: the
probability that the outcome happens and the draft is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anyorder.decoding.session import Session
from anyorder.visibility import Rows, concat, draft_rows, verify_rows


class Planner:
    """Says how many next drafts to ask for in every outcome of a round."""

    def __init__(self, session: Session) -> None:
        options = session.options
        self._session = session
        self._most = options.policy.max_lag if options.draft_length is None else options.draft_length
        self._table: Tensor | None = None
        self._survival: Tensor | None = None

    def next_lengths(self, num_drafts: Tensor) -> Tensor:
        """(A, max(w) + 1) int64, the next drafts of every outcome, for (A,) drafts in hand."""
        session, options = self._session, self._session.options
        outcome = torch.arange(int(num_drafts.max()) + 1)
        if session.drafter is not None:
            return torch.zeros(len(num_drafts), len(outcome), dtype=torch.long)
        # The outcome's own token takes a step, so this many are left to draft after it.
        left = (session.remaining[:, None] - 1 - outcome).clamp(min=0)
        if options.draft_length is not None and options.max_rows is None:
            return left.clamp(max=self._most) * (outcome <= num_drafts[:, None])
        if self._table is None or self._survival is not session.survival:
            self._survival = session.survival
            self._table = options.policy.next_drafts(
                session.survival[:, : self._most + 1],
                most=self._most,
                adapt=options.draft_length is None,
                max_rows=options.max_rows,
            )
        return torch.minimum(left, self._table[torch.arange(len(num_drafts)), num_drafts, : len(outcome)])


@dataclass(frozen=True)
class OutcomeRows:
    """The query rows of a pass and where each outcome's lie.

    Attributes:
        query: (A, W + R) rows on the host, the W that test first.
        num_testing: W, the largest number of drafts in hand plus one.
        lengths: (A, W) next drafts asked for in every outcome.
    """

    query: Rows
    num_testing: int
    lengths: Tensor

    @classmethod
    def plan(cls, session: Session, num_drafts: Tensor, lengths: Tensor) -> OutcomeRows:
        """Lay out the rows for (A,) drafts in hand and (A, W) next drafts wanted, a sequence's rows packed together."""
        sentinel, remaining = session.order.num_steps, session.remaining
        testing = verify_rows(session.steps(torch.minimum(num_drafts + 1, remaining)))
        width = lengths.shape[1]
        testing = Rows(*(torch.nn.functional.pad(part, (0, width - part.shape[1]), value=sentinel) for part in testing))
        ends = lengths.cumsum(1)
        column = torch.arange(int(ends[:, -1].max()))
        outcome = (column >= ends[:, :, None]).sum(1)
        within = outcome.clamp(max=width - 1)
        ahead = column - (ends - lengths).gather(1, within) + 1
        sees = session.num_decoded[:, None] + outcome
        steps = torch.where(outcome < width, sees + ahead, sentinel)
        return cls(concat(testing, draft_rows(steps, sees)), width, lengths)

    def testing(self, values: Tensor) -> Tensor:
        """The part (A, W, ...) of per-row values that belongs to the rows that test."""
        return values[:, : self.num_testing]

    def testing_rows(self, query: Rows) -> Rows:
        """The rows that test."""
        return Rows(self.testing(query.steps), self.testing(query.num_visible))

    def of_outcome(self, num_kept: Tensor, logits: Tensor, query: Rows) -> tuple[Tensor, Tensor, Rows]:
        """The next drafts' answers in the outcome that happened.

        Args:
            num_kept: (A,) on the host, the outcome of each sequence.
            logits: (A, W + R, V) of the pass.
            query: its rows, on the device.

        Returns:
            (A,) how many next drafts there are, (A, N, V) their logits, and their (A, N) rows.
        """
        chosen = num_kept[:, None]
        counts = self.lengths.gather(1, chosen)[:, 0]
        start = self.num_testing + (self.lengths.cumsum(1) - self.lengths).gather(1, chosen)
        column = start + torch.arange(int(counts.max()))
        column = column.clamp(max=logits.shape[1] - 1).to(logits.device, non_blocking=True)
        answers = logits.gather(1, column[..., None].expand(-1, -1, logits.shape[-1]))
        return counts, answers, Rows(query.steps.gather(1, column), query.num_visible.gather(1, column))
