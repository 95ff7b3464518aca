"""What a pass costs by its rows, stored: a draft length is chosen from these tables, never from a clock in the run.

The numbers come from ``benchmarks/costs.py``, which measures a pass of one layer shape at several row counts and prints
them relative to a pass of two rows (one token encoded, one query: sequential decoding).
"""

from __future__ import annotations

import torch

from anyorder.draft_length import PassCosts
from anyorder.model.config import XLNetConfig

SMALL_CPU = PassCosts(rows=(1, 2, 8, 32, 64), costs=(1.0, 1.0, 1.3, 2.0, 3.0))
BASE_CPU = PassCosts(rows=(1, 2, 8, 32, 64), costs=(1.0, 1.05, 1.4, 2.7, 4.6))
ACCELERATOR = PassCosts(rows=(1, 64, 256), costs=(1.0, 1.0, 1.2))

SMALL_WIDTH = 384
"""Up to this embedding width the small table holds: a pass is bound by the number of operations, not by weights."""


def stored_costs(config: XLNetConfig, device: torch.device) -> PassCosts:
    """The table for a shape on a class of device."""
    if device.type != "cpu":
        return ACCELERATOR
    return SMALL_CPU if config.d_model <= SMALL_WIDTH else BASE_CPU
