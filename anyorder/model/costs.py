"""What a pass costs by its rows, stored: a draft length is chosen from these tables, never from a clock in the run.

The CPU numbers come from ``benchmarks/costs.py``, which times whole rounds of one-pass decoding at several lengths of
draft and prints them relative to sequential decoding (two rows: one token encoded, one query answered).
"""

from __future__ import annotations

import torch

from anyorder.draft_length import PassCosts
from anyorder.model.config import XLNetConfig

SMALL_CPU = PassCosts(rows=(2, 6, 12, 19, 28, 51, 83), costs=(1.0, 1.57, 1.7, 1.71, 2.05, 2.05, 2.79))
BASE_CPU = PassCosts(rows=(2, 6, 12, 19, 28, 49, 68), costs=(1.0, 1.31, 1.49, 1.55, 1.58, 2.21, 2.77))
ACCELERATOR = PassCosts(rows=(1, 64, 256), costs=(1.0, 1.0, 1.2))
"""An assumption, not a measurement: reading the weights bounds a pass of up to some hundred rows."""

SMALL_WIDTH = 384
"""Up to this embedding width the small table holds: a pass is bound by the number of operations, not by weights."""


def stored_costs(config: XLNetConfig, device: torch.device) -> PassCosts:
    """The table for a shape on a class of device."""
    if device.type != "cpu":
        return ACCELERATOR
    return SMALL_CPU if config.d_model <= SMALL_WIDTH else BASE_CPU
