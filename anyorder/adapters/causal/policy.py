"""How many drafts to ask masks for: as many as save more than their rows cost, from stored costs and a sequence's past.

The rules are those of ``anyorder.draft_length``; what differs is what a causal pass consists of. A row that tests is a
row that encodes, so w drafts in hand cost w + 1 rows, and every mask one more. All is settled before a draft is drawn,
from a table, the measured acceptance and how this sequence's drafts fared: neither a clock nor a neighbour in the batch
enters. Where drafting does not pay, none is asked for.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from anyorder.adapters.causal.network import CausalModel
from anyorder.draft_length import TIE, DraftLengthPolicy, PassCosts
from anyorder.model.costs import ACCELERATOR, SMALL_WIDTH
from anyorder.next_drafts import cheapest

MOST_MASKS = 128
"""No pass has more mask rows than this for a sequence, whatever they cost."""

SMALL_CPU = PassCosts(rows=(1, 3, 4, 7, 9, 11, 15, 32), costs=(1.0, 1.28, 1.28, 1.34, 1.36, 1.52, 1.66, 1.98))
"""Width 192, 5 layers, vocabulary 4096, packed losslessly, 64 to 128 tokens cached, one thread, everything around the
network included (``python -m benchmarks.causal_costs``): to draft at all costs a quarter of a pass."""
BASE_CPU = PassCosts(rows=(1, 3, 4, 7, 9, 11, 15, 32), costs=(1.0, 1.16, 1.33, 1.65, 1.8, 2.17, 2.5, 3.55))
"""Width 576, 30 layers, vocabulary 49152 (SmolLM2-135M's shape), otherwise the same."""


def adaptive(model: CausalModel) -> DraftLengthPolicy:
    """The policy for a model: stored costs of its size and device, and the acceptance its checkpoint names."""
    small = SMALL_CPU if model.config.width <= SMALL_WIDTH else BASE_CPU
    policy = DraftLengthPolicy(costs=small if model.device.type == "cpu" else ACCELERATOR.one_pass)
    return replace(policy, acceptance=model.acceptance) if model.acceptance else policy


def most_masks(drafts: int) -> int:
    """The most mask rows of a pass for a sequence, where it may ask for so many drafts in every outcome."""
    return min(drafts * (drafts + 1), MOST_MASKS)


def check_policy(policy: object) -> None:
    """Refuse what is no policy.

    Raises:
        TypeError: if it is neither one nor ``None``.
    """
    if policy is not None and not isinstance(policy, DraftLengthPolicy):
        raise TypeError(f"policy must be a DraftLengthPolicy or None; got {type(policy).__name__}")


@lru_cache(maxsize=1024)
def one_pass_lengths(policy: DraftLengthPolicy, level: int, most: int) -> tuple[tuple[int, ...], ...]:
    """Drafts to ask for by drafts in hand (0 .. most) and outcome (0 .. most, none beyond those in hand)."""
    held, extra = np.arange(most + 1)[:, None], np.arange(most_masks(most) + 1)
    charge = policy.costs(held + 1 + extra) + TIE * extra
    lengths = np.tril(cheapest(policy.survival(level, most), charge))
    return tuple(tuple(row) for row in lengths.tolist())


@lru_cache(maxsize=1024)
def two_pass_length(policy: DraftLengthPolicy, level: int, most: int, is_anchored: bool) -> int:
    """Drafts of a round of two passes; 0 is one pass that decides one token.

    Both passes have a row more than drafts. The test decides those kept and one more; the drafting pass decides one
    too, unless the anchor is in the view.
    """
    drafts = np.arange(most + 1)
    decided = policy.survival(level, most).cumsum() + (0 if is_anchored else drafts > 0)
    cost = policy.costs(drafts + 1) * np.where(drafts > 0, 2, 1) + TIE * drafts
    return int((decided / cost).argmax())
