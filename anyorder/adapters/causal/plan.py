"""The rows of a decoding pass: what is decided but not encoded, the drafts in hand, and masks for what comes after.

With w drafts at steps n .. n + w - 1, outcome a means "a drafts kept, step n + a decided by the row before it". Masks
of outcome a stand at positions n + a, n + a + 1, ..., see the tokens before them and each other, and ask for the steps
from n + a + 1 on: the mask at position r is asked for the token at r + 1, as every row of a causal model is. One group
of masks an outcome gives drafts whatever happens; a single group, after the drafts, gives them only if all are kept.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.adapters.causal.rows import Rows, clean_rows, concat


class Stand(NamedTuple):
    """How far (A,) sequences have come, on the host.

    Attributes:
        num_decided: n, tokens decided, the prompt included.
        num_encoded: how many of them are in the cache.
        num_drafts: w, drafts in hand for the steps from n on.
    """

    num_decided: Tensor
    num_encoded: Tensor
    num_drafts: Tensor


class Plan(NamedTuple):
    """The rows of a pass and where the answers lie.

    Attributes:
        rows: (A, C + M), clean rows before masks.
        asked: (A, W + 1 + M): the rows that test drafts 1 .. W, the one after them, then every mask.
        num_clean: (A,) clean rows of each sequence.
        num_testing: W + 1.
        lengths: (A, W + 1) masks of each outcome.
        decides: (A,) bool, whether the pass decides anything; a long prompt is read in chunks first.
    """

    rows: Rows
    asked: Tensor
    num_clean: Tensor
    num_testing: int
    lengths: Tensor
    decides: Tensor

    def of_outcome(self, num_kept: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
        """(A,) how many masks the outcome that happened had, and their (A, K, V) answers, from all (A, Q, V) logits."""
        chosen = num_kept[:, None]
        counts = self.lengths.gather(1, chosen)[:, 0]
        start = self.num_testing + (self.lengths.cumsum(1) - self.lengths).gather(1, chosen)
        column = (start + torch.arange(int(counts.max()))).clamp(max=logits.shape[1] - 1)
        column = column.to(logits.device, non_blocking=True)
        return counts, logits.gather(1, column[..., None].expand(-1, -1, logits.shape[-1]))


def plan_pass(stand: Stand, lengths: Tensor, *, sentinel: int, chunk: int, sees_both_ways: bool) -> Plan:
    """Lay out a pass.

    Args:
        stand: how far the sequences are.
        lengths: (A, W + 1) masks wanted in each outcome, zero beyond ``num_drafts``.
        sentinel: the cache's number of slots.
        chunk: at most so many undecided rows of a prompt are read in a pass.
        sees_both_ways: whether the masks of a group see all of it, or only those before.
    """
    decided, encoded, drafts = stand
    pending = decided - encoded
    decides = pending <= chunk
    num_clean = torch.where(decides, pending + drafts, chunk)
    column = torch.arange(int(num_clean.max()))
    rows = clean_rows(torch.where(column < num_clean[:, None], encoded[:, None] + column, sentinel), sentinel)
    width = lengths.shape[1]
    lengths = lengths * decides[:, None]
    test = torch.arange(width)
    is_testing = (test <= drafts[:, None]) & decides[:, None]
    testing = pending[:, None] - 1 + test
    num_masks = lengths.sum(1)
    if not bool(num_masks.any()):
        asked = torch.where(is_testing, testing, rows.slots.shape[1])
        return Plan(rows, asked, num_clean, width, lengths, decides)
    masks = _mask_rows(stand, lengths, sentinel=sentinel, sees_both_ways=sees_both_ways)
    rows = concat(rows, masks)
    none = rows.slots.shape[1]
    mask_column = torch.arange(masks.slots.shape[1])
    asked = torch.cat(
        [
            torch.where(is_testing, testing, none),
            torch.where(mask_column < num_masks[:, None], len(column) + mask_column, none),
        ],
        1,
    )
    return Plan(rows, asked, num_clean, width, lengths, decides)


def _mask_rows(stand: Stand, lengths: Tensor, *, sentinel: int, sees_both_ways: bool) -> Rows:
    """(A, M) mask rows, the groups of a sequence packed together in the slots after its clean ones."""
    first_slot = (stand.num_decided + stand.num_drafts)[:, None]
    ends = lengths.cumsum(1)
    column = torch.arange(int(ends[:, -1].max()))
    outcome = (column >= ends[:, :, None]).sum(1)
    takes_part = outcome < lengths.shape[1]
    outcome = outcome.clamp(max=lengths.shape[1] - 1)
    start = (ends - lengths).gather(1, outcome)
    sees = stand.num_decided[:, None] + outcome
    slots = torch.where(takes_part, first_slot + column, sentinel)
    group_end = first_slot + ends.gather(1, outcome) if sees_both_ways else first_slot + column + 1
    return Rows(
        slots=slots,
        positions=torch.where(takes_part, sees + column - start, 0),
        num_visible=torch.where(takes_part, sees, 1),
        group_start=torch.where(takes_part, first_slot + start, 0),
        group_end=torch.where(takes_part, group_end, 0),
        is_mask=takes_part,
    )
