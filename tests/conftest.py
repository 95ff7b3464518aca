"""Settings all tests share; this file also puts ``tests/`` on the path, where their helpers lie."""

from __future__ import annotations

import pytest
import torch
from hypothesis import settings

# Shared machines make timings unreliable: a slow example is no failure.
settings.register_profile("anyorder", deadline=None)
settings.load_profile("anyorder")


@pytest.fixture(autouse=True)
def _same_start() -> None:
    """Whatever a test draws from torch's global generator is the same in every run."""
    torch.manual_seed(0)
