"""Protocols: what exactly is done with a model's text before it is scored; it moves numbers, so every row names it.

``corrected`` encodes jointly and splices the fill into the untouched text. ``reference`` does what the published
evaluation script of "Reviving Any-Subset Autoregressive Models" does: prefix, fill and suffix encoded apart, the
reference's token count, temperature 1, ASSD with 10 drafts; for code it also cuts the suffix off by a slice that is
empty where the suffix is (156 of the 1,033 problems get no code at all, whatever the model wrote) and drops the fill's
first character. ``diffullama`` is ``corrected`` on the first 1,000 stories with one sentence missing. ``truncated`` is
for code that is written left to right by models that do not know where to end: what follows the function is cut off.
``stripped`` is ``truncated`` with a prompt that ends where its last line does: many vocabularies have one token for the
newline and the indent behind it, which a model cannot write once the prompt has the newline.
Sources: the scripts ``eval_coding.py`` and ``eval_infilling.py`` published with Guo & Ermon 2025; for ``truncated``
Chen et al. 2021, section 2.1; for ``stripped`` Ben Allal et al. 2022 (bigcode-evaluation-harness).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

Protocol = Literal["corrected", "reference", "diffullama", "truncated", "stripped"]
"""What is done with a model's text before it is scored."""

REFERENCE_SETTINGS: dict[str, Any] = {"method": "assd", "draft_length": 10, "temperature": 1.0, "length": "oracle"}
"""What the published scripts fix; a run that names the protocol and other values is refused."""


LEFT_TO_RIGHT = ("truncated", "stripped")
"""The protocols of code that is written left to right."""
STOP_SEQUENCES = ("\nclass", "\ndef", "\n#", "\nif", "\nprint")
"""Where a completed function has ended, as published with HumanEval."""


def truncated(text: str, stops: Sequence[str]) -> str:
    """The text up to where the first of the stop sequences begins."""
    return text[: min((at for stop in stops if (at := text.find(stop)) >= 0), default=len(text))]


def completion(protocol: Protocol, fill: str, suffix: str) -> str:
    """What a code protocol makes of a model's fill."""
    if protocol in LEFT_TO_RIGHT:
        return truncated(fill, STOP_SEQUENCES)
    if protocol != "reference":
        return fill
    # tokens[len(prefix):-len(suffix)] is empty if there are no suffix tokens; then [1:] of what is left.
    return fill[1:] if suffix else ""
