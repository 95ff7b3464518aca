"""What a round costs by its rows, stored: a draft length is chosen from these tables, never from a clock in the run.

The numbers are seconds a round of both ways of speculative decoding at several lengths of draft, relative to sequential
decoding (two rows: one token encoded, one query answered). What a round costs beside the network is thus part of them.
Those of the base shape come from ``benchmarks/costs.py``. Those of small models come from filling 200 held-out texts
of two kinds with ``mini-code`` (``benchmarks/held_out.py``), on one thread and two, the dearest of each: rounds there
are dearer than in the former, by a tenth, and a table that flatters rounds drafts where that does not pay.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from anyorder.draft_length import PassCosts
from anyorder.model.config import XLNetConfig


class StoredCosts(NamedTuple):
    """The tables of one kind of device.

    Attributes:
        one_pass: a round of one-pass decoding, by the rows of its pass.
        two_pass: a round of ASSD, by the rows of its two passes together; ``None`` if it costs no more than they do.
    """

    one_pass: PassCosts
    two_pass: PassCosts | None = None


SMALL_CPU = StoredCosts(
    one_pass=PassCosts(rows=(2, 3, 6, 12, 30, 72), costs=(1.0, 1.36, 1.38, 1.52, 1.85, 2.47)),
    two_pass=PassCosts(rows=(2, 5, 8, 11, 17), costs=(1.0, 2.2, 2.29, 2.37, 2.48)),
)
BASE_CPU = StoredCosts(
    one_pass=PassCosts(rows=(2, 6, 12, 19, 28, 49, 68), costs=(1.0, 1.31, 1.49, 1.55, 1.58, 2.21, 2.77)),
)
ACCELERATOR = StoredCosts(PassCosts(rows=(1, 64, 256), costs=(1.0, 1.0, 1.2)))
"""An assumption, not a measurement: reading the weights bounds a pass of up to some hundred rows."""

SMALL_WIDTH = 384
"""Up to this embedding width the small table holds: a pass is bound by the number of operations, not by weights."""


def stored_costs(config: XLNetConfig, device: torch.device) -> StoredCosts:
    """The tables for a shape on a class of device."""
    if device.type != "cpu":
        return ACCELERATOR
    return SMALL_CPU if config.d_model <= SMALL_WIDTH else BASE_CPU
