"""The decoding loops and what they return; ``decode`` is the way in."""

from __future__ import annotations

from anyorder.decoding.generation import Generation, Method, Progress, RoundRecord, Stats
from anyorder.decoding.options import DecodeOptions
from anyorder.decoding.run import decode

__all__ = ["DecodeOptions", "Generation", "Method", "Progress", "RoundRecord", "Stats", "decode"]
