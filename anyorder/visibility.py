"""In order space every attention mask is a prefix, so a mask row is one integer: how many steps it may see.

| row at step t | sees the first ... steps | meaning |
| --- | --- | --- |
| content | max(t + 1, num_prompt) | a token in the context of its past; the prompt sees itself in both directions |
| verify query | t | p(x[sigma_t] given x[sigma_<t]): the density-estimation mask |
| draft query | num_decoded | p(x[sigma_t] given x[sigma_<num_decoded]): the parallel-sampling mask |

This module makes those integers and holds the one function that turns them into a mask. True means "may attend".
Source: Guo & Ermon 2025, figure 2 and appendix (the two masks there are ``perm_mask`` matrices in position space).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.order import Order


class Rows(NamedTuple):
    """Rows of one network pass: which steps they stand at and how many steps each may see.

    Attributes:
        steps: (B, R) int64. ``order.num_steps`` marks a row that takes no part (ragged batches): nothing it computes is
            kept, and its logits mean nothing.
        num_visible: (B, R) int64, each row attends to exactly the steps ``0 .. num_visible - 1``.
    """

    steps: Tensor
    num_visible: Tensor


def content_rows(order: Order, steps: Tensor) -> Rows:
    """Rows that encode the tokens at ``steps`` (B, R); each sees its past and itself, the prompt all of the prompt."""
    visible = torch.maximum(steps + 1, order.num_prompt[:, None])
    return Rows(steps, torch.where(steps < order.num_steps, visible, 0))


def verify_rows(steps: Tensor) -> Rows:
    """Query rows that ask for p: each of the (B, R) ``steps`` sees exactly the steps before it."""
    return Rows(steps, steps)


def draft_rows(steps: Tensor, num_decoded: Tensor) -> Rows:
    """Query rows that ask for q: each of the (B, R) ``steps`` sees the first ``num_decoded`` (B,) or (B, R) steps."""
    if num_decoded.dim() == 1:
        num_decoded = num_decoded[:, None]
    return Rows(steps, num_decoded.expand_as(steps))


def concat(first: Rows, second: Rows) -> Rows:
    """Both sets of rows in one pass, ``first`` before ``second``."""
    return Rows(torch.cat([first.steps, second.steps], 1), torch.cat([first.num_visible, second.num_visible], 1))


def prefix_mask(num_visible: Tensor, slot_steps: Tensor) -> Tensor:
    """The attention mask of rows that see a prefix: True where a row may attend.

    Args:
        num_visible: (B, R) int64.
        slot_steps: (S,) or (B, S) int64, the step whose key lies in each slot (``arange`` in a cache, since slot =
            step).

    Returns:
        (B, R, S) bool.
    """
    if slot_steps.dim() == 1:
        slot_steps = slot_steps[None]
    return slot_steps[:, None, :] < num_visible[:, :, None]
