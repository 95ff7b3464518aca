"""Protocols: what exactly is done with a model's text before it is scored; it moves numbers, so every row names it.

``corrected`` encodes jointly and splices the fill into the untouched text. ``reference`` does what the published
evaluation script of "Reviving Any-Subset Autoregressive Models" does: prefix, fill and suffix encoded apart, the
reference's token count, temperature 1, ASSD with 10 drafts; for code it also cuts the suffix off by a slice that is
empty where the suffix is (156 of the 1,033 problems get no code at all, whatever the model wrote) and drops the fill's
first character. ``diffullama`` is ``corrected`` on the first 1,000 stories with one sentence missing.
Source: the scripts ``eval_coding.py`` and ``eval_infilling.py`` published with Guo & Ermon 2025.
"""

from __future__ import annotations

from typing import Any, Literal

Protocol = Literal["corrected", "reference", "diffullama"]
"""What is done with a model's text before it is scored."""

REFERENCE_SETTINGS: dict[str, Any] = {"method": "assd", "draft_length": 10, "temperature": 1.0, "length": "oracle"}
"""What the published scripts fix; a run that names the protocol and other values is refused."""


def completion(protocol: Protocol, fill: str, suffix: str) -> str:
    """What a code protocol makes of a model's fill."""
    if protocol != "reference":
        return fill
    # tokens[len(prefix):-len(suffix)] is empty if there are no suffix tokens; then [1:] of what is left.
    return fill[1:] if suffix else ""
