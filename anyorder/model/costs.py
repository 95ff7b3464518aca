"""What a round costs by its rows, stored: a draft length is chosen from these tables, never from a clock in the run.

The CPU numbers come from ``benchmarks/costs.py``, which times whole rounds of both ways of speculative decoding at
several lengths of draft and prints them relative to sequential decoding (two rows: one token encoded, one query
answered). What a round costs beside the network is thus part of it.
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
    one_pass=PassCosts(rows=(2, 4, 6, 12, 19, 28, 51, 79), costs=(1.0, 1.16, 1.25, 1.38, 1.46, 1.69, 2.09, 2.57)),
    two_pass=PassCosts(rows=(2, 5, 8, 11, 17, 23), costs=(1.0, 1.91, 1.97, 2.11, 2.11, 2.37)),
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
