"""The end of a run whose figures are no numbers any more."""

from __future__ import annotations

import math
from collections.abc import Mapping


def refuse_diverged(score: float, figures: Mapping[str, float], step: int) -> None:
    """Stop where nothing better can come: no number is lower than another that is none.

    Args:
        score: what is compared, of ``figures``.
        figures: held-out figures.
        step: after which.

    Raises:
        ValueError: if the score is infinite or no number.
    """
    if math.isfinite(score):
        return
    shown = ", ".join(f"{name} {value:.4g}" for name, value in figures.items() if not math.isfinite(value))
    raise ValueError(
        f"training has diverged: at step {step} the held-out figures are {shown or score}; start over with a lower "
        "--learning_rate (and --resume false, or another --out)"
    )
