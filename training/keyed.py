"""Randomness by name: whatever a run draws is drawn from (seed, what for, which one), never from a running state.

So a draw does not depend on which rank or worker makes it, nor on what was drawn before it, and a run that was killed
goes on as if it had not been.
"""

from __future__ import annotations

import hashlib
import random

import torch


def key(*parts: int | str) -> int:
    """63 bits that depend on all parts."""
    text = "/".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def keyed_random(*parts: int | str) -> random.Random:
    """A source of Python's random numbers for these parts."""
    return random.Random(key(*parts))


def keyed_generator(*parts: int | str) -> torch.Generator:
    """A source of torch's random numbers, on the CPU, for these parts."""
    return torch.Generator().manual_seed(key(*parts))
