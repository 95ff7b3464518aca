"""The rows of a decoding pass: what is decided but not encoded, the drafts in hand, and masks for what comes after.

With w drafts at steps n .. n + w - 1, outcome a means "a drafts kept, step n + a decided by the row before it". Masks
of outcome a stand at positions n + a, n + a + 1, ..., see the tokens before them and each other, and ask for the steps
from n + a + 1 on: the mask at position r is asked for the token at r + 1, as every row of a causal model is. One group
of masks an outcome gives drafts whatever happens; a single group, after the drafts, gives them only if all are kept.

Where the *anchor*, the last decided token, stands in the masks' view too (published Orthrus), it opens the block: the
block sees the tokens before the anchor and itself, its rows ask for the steps from n on, and the last of them for one
beyond what is drafted. Such a pass leaves the anchor undecoded and decides nothing; the next one reads anchor and
drafts as tokens. Its scratch slots are those the anchor and the drafts will get, so they are written over in place.
Drafts in hand may stand in the block as tokens, between the anchor and the masks: a second denoising pass.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.adapters.causal.rows import Rows, clean_rows, concat


class Stand(NamedTuple):
    """How far (A,) sequences have come, on the host.

    Attributes:
        num_decoded: n, tokens decided, the prompt included.
        num_encoded: how many of them are in the cache.
        num_drafts: w, drafts in hand for the steps from n on.
    """

    num_decoded: Tensor
    num_encoded: Tensor
    num_drafts: Tensor


class Plan(NamedTuple):
    """The rows of a pass and where the answers lie.

    Attributes:
        rows: (A, C + M), clean rows before masks.
        asked: (A, W + 1 + M): the rows that test drafts 1 .. W, the one after them, then those that draft.
        num_clean: (A,) clean rows of each sequence.
        num_in_view: (A,) rows of each sequence that go the way of masks.
        num_testing: W + 1.
        lengths: (A, W + 1) drafts asked for in each outcome.
        decides: (A,) bool, whether the pass decides anything.
        prefills: (A,) bool, whether it only reads a part of a long prompt.
    """

    rows: Rows
    asked: Tensor
    num_clean: Tensor
    num_in_view: Tensor
    num_testing: int
    lengths: Tensor
    decides: Tensor
    prefills: Tensor

    def of_outcome(self, num_kept: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
        """(A,) how many masks the outcome that happened had, and their (A, K, V) answers, from all (A, Q, V) logits."""
        chosen = num_kept[:, None]
        counts = self.lengths.gather(1, chosen)[:, 0]
        start = self.num_testing + (self.lengths.cumsum(1) - self.lengths).gather(1, chosen)
        column = (start + torch.arange(int(counts.max()))).clamp(max=logits.shape[1] - 1)
        column = column.to(logits.device, non_blocking=True)
        return counts, logits.gather(1, column[..., None].expand(-1, -1, logits.shape[-1]))


class Blocks(NamedTuple):
    """How the masks of a group stand to each other and to the token before them.

    Attributes:
        sees_both_ways: whether the rows of a group see all of it, or only those before.
        anchor_in_view: whether the last decided token opens the group, followed by the drafts in hand; then a sequence
            drafts, whatever it holds, in outcome 0, and only while it has nothing but that token to read.
    """

    sees_both_ways: bool = False
    anchor_in_view: bool = False


def plan_pass(stand: Stand, lengths: Tensor, *, sentinel: int, chunk: int, blocks: Blocks) -> Plan:
    """Lay out a pass.

    Args:
        stand: how far the sequences are.
        lengths: (A, W + 1) drafts wanted in each outcome, zero beyond ``num_drafts``.
        sentinel: the cache's number of slots.
        chunk: at most so many undecided rows of a prompt are read in a pass.
        blocks: how masks are grouped.
    """
    decided, encoded, drafts = stand
    pending = decided - encoded
    prefills = pending > chunk
    lengths = lengths * ~prefills[:, None]
    if blocks.anchor_in_view:
        lengths = lengths * (pending == 1)[:, None]
    is_drafting = lengths.any(1) & blocks.anchor_in_view
    decides = ~prefills & ~is_drafting
    num_clean = torch.where(prefills, chunk, torch.where(is_drafting, 0, pending + drafts))
    column = torch.arange(int(num_clean.max()))
    rows = clean_rows(torch.where(column < num_clean[:, None], encoded[:, None] + column, sentinel), sentinel)
    num_asked = lengths.sum(1)
    in_view = num_asked
    if bool(num_asked.any()):
        masks = _mask_rows(stand, lengths, sentinel=sentinel, blocks=blocks)
        rows, in_view = concat(rows, masks), num_asked + is_drafting * (1 + drafts)
    none = rows.slots.shape[1]
    test, draft = torch.arange(lengths.shape[1]), torch.arange(int(num_asked.max()))
    is_testing = (test <= drafts[:, None]) & decides[:, None]
    asked = torch.cat(
        [
            torch.where(is_testing, pending[:, None] - 1 + test, none),
            torch.where(draft < num_asked[:, None], len(column) + draft + (is_drafting * drafts)[:, None], none),
        ],
        1,
    )
    return Plan(rows, asked, num_clean, in_view, lengths.shape[1], lengths, decides, prefills)


def _mask_rows(stand: Stand, lengths: Tensor, *, sentinel: int, blocks: Blocks) -> Rows:
    """(A, M) rows in the view, the groups of a sequence packed together in the slots after its clean ones."""
    decided, drafts = stand.num_decoded[:, None], stand.num_drafts[:, None]
    given = (1 + drafts) if blocks.anchor_in_view else torch.zeros_like(drafts)  # tokens that open the group
    lengths = lengths + given * (lengths > 0)
    first_slot = decided + drafts - given
    ends = lengths.cumsum(1)
    column = torch.arange(int(ends[:, -1].max()))
    outcome = (column >= ends[:, :, None]).sum(1)
    takes_part = outcome < lengths.shape[1]
    outcome = outcome.clamp(max=lengths.shape[1] - 1)
    start = (ends - lengths).gather(1, outcome)
    sees = decided + outcome - int(blocks.anchor_in_view)
    slots = torch.where(takes_part, first_slot + column, sentinel)
    group_end = first_slot + (ends.gather(1, outcome) if blocks.sees_both_ways else column + 1)
    return Rows(
        slots=slots,
        positions=torch.where(takes_part, sees + column - start, 0),
        num_visible=torch.where(takes_part, sees, 1),
        group_start=torch.where(takes_part, first_slot + start, 0),
        group_end=torch.where(takes_part, group_end, 0),
        is_mask=takes_part & (column - start >= given),
        in_view=takes_part,
    )
