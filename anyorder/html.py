"""A completed text for a notebook: filled tokens shaded by probability, underlined by the round that decided them.

Everything from the text is escaped; the markup is inline, so that it survives in a saved notebook.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyorder.result import FilledSpan

_ROUND_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
"""Neighbouring rounds differ; Okabe and Ito's palette, which colour-blind readers can tell apart."""


def render(text: str, spans: Sequence[FilledSpan], log_prob: float) -> str:
    """The text as HTML, with the joint log-density below it.

    HTML drops one newline after ``<pre>``; there is one to drop, so that the text keeps its own.
    """
    parts: list[str] = []
    at = 0
    for span in spans:
        parts.append(html.escape(text[at : span.start]))
        parts += [
            _token(*token)
            for token in zip(span.token_texts, span.token_log_probs, span.rounds, strict=True)
            if token[0]
        ]
        at = span.end
    parts.append(html.escape(text[at:]))
    count = sum(len(span.token_ids) for span in spans)
    return (
        f'<pre style="white-space:pre-wrap;font-family:monospace;line-height:1.6">\n{"".join(parts)}</pre>'
        f'<div style="font-size:smaller;opacity:0.7">{count} tokens, log-density {log_prob:.2f} nats. '
        "Shade: probability (darker is less likely). Underline: round.</div>"
    )


def _token(text: str, log_prob: float, round_: int) -> str:
    probability = math.exp(log_prob)
    lightness = 60 + 35 * probability
    colour = _ROUND_COLOURS[(round_ - 1) % len(_ROUND_COLOURS)]
    style = f"background:hsl(45 90% {lightness:.0f}%);color:#111;border-bottom:2px solid {colour}"
    return f'<span style="{style}" title="p = {probability:.3f}, round {round_}">{html.escape(text)}</span>'
