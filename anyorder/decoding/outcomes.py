"""The query rows of a one-pass round: those that test the drafts in hand, and the next drafts' for every outcome.

With w drafts in hand at steps n .. n + w - 1, row n + a tests draft a (a < w) or yields the bonus token (a = w); it
sees n + a steps. Outcome a, "a drafts kept, step n + a decided by that row", asks in advance for the steps n + a + 1,
... that see n + a steps. Rows that test are mandatory. Rows of next drafts may be left out for any reason known before
the test: a row that was not computed only means fewer drafts in the next round. They are left out by expected use: the
probability that the outcome happens and the draft is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from anyorder.arrays import Ints
from anyorder.decoding.session import Session
from anyorder.visibility import Rows, concat, draft_rows, verify_rows


def next_lengths(session: Session, num_drafts: Ints) -> Ints:
    """(A, max(w) + 1), how many next drafts to ask for in every outcome, for (A,) drafts in hand."""
    options, outcome = session.options, np.arange(num_drafts.max(initial=0) + 1)
    if session.drafter is not None:
        return np.zeros((len(num_drafts), len(outcome)), np.int64)
    if options.draft_length is not None and options.max_rows is None:
        wanted = options.draft_length * (outcome <= num_drafts[:, None])
    else:
        wanted = np.zeros((len(num_drafts), len(outcome)), np.int64)
        for row, (level, held) in enumerate(zip(session.levels, num_drafts.tolist(), strict=True)):
            wanted[row, : held + 1] = options.policy.next_drafts(
                level, held, constant=options.draft_length, max_rows=options.max_rows
            )
    # The outcome's own token takes a step, so this many are left to draft after it.
    left = np.maximum(session.remaining[:, None] - 1 - outcome, 0)
    return np.minimum(wanted, left)  # type: ignore[no-any-return]


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
    lengths: Ints

    @classmethod
    def plan(cls, session: Session, num_drafts: Ints, lengths: Ints) -> OutcomeRows:
        """Lay out the rows for (A,) drafts in hand and (A, W) next drafts wanted, a sequence's rows packed together."""
        width = lengths.shape[1]
        first, outcome = session.num_decoded[:, None], np.arange(width)
        is_testing = outcome < np.minimum(num_drafts + 1, session.remaining)[:, None]
        testing = np.where(is_testing, first + outcome, session.order.num_steps)
        ends = lengths.cumsum(1)
        column = np.arange(ends[:, -1].max())
        # The first so many columns belong to outcome 0, the next to outcome 1, ...
        outcome = (column >= ends[:, :, None]).sum(1)
        begin = np.take_along_axis(ends - lengths, np.minimum(outcome, width - 1), 1)
        sees = first + outcome
        asked = np.where(outcome < width, sees + column - begin + 1, session.order.num_steps)
        return cls(
            concat(verify_rows(torch.from_numpy(testing)), draft_rows(torch.from_numpy(asked), torch.from_numpy(sees))),
            width,
            lengths,
        )

    def testing(self, values: Tensor) -> Tensor:
        """The part (A, W, ...) of per-row values that belongs to the rows that test."""
        return values[:, : self.num_testing]

    def testing_rows(self, query: Rows) -> Rows:
        """The rows that test."""
        return Rows(self.testing(query.steps), self.testing(query.num_visible))

    def of_outcome(self, num_kept: Ints, logits: Tensor, query: Rows) -> tuple[Ints, Tensor, Rows]:
        """The next drafts' answers in the outcome that happened.

        Args:
            num_kept: (A,) the outcome of each sequence.
            logits: (A, W + R, V) of the pass.
            query: its rows, on the device.

        Returns:
            (A,) how many next drafts there are, (A, N, V) their logits, and their (A, N) rows.
        """
        row = np.arange(len(num_kept))
        counts = self.lengths[row, num_kept]
        start = self.num_testing + (self.lengths.cumsum(1)[row, num_kept] - counts)
        column = np.minimum(start[:, None] + np.arange(counts.max()), logits.shape[1] - 1)
        there = torch.from_numpy(column).to(logits.device, non_blocking=True)
        answers = logits.gather(1, there[..., None].expand(-1, -1, logits.shape[-1]))
        return counts, answers, Rows(query.steps.gather(1, there), query.num_visible.gather(1, there))
