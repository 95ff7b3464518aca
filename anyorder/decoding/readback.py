"""What comes back from the device: how many drafts were kept, and whether every row that was drawn from had a token.

One small transfer a round carries both. To look at logits in the pass that made them would be to wait for the device:
their largest ones are noted there until something is transferred anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anyorder.arrays import Bools, Ints

NO_NUMBERS = "the model returned logits that are not numbers (NaN or infinity): are its weights intact?"


class Readback:
    """The largest logits that wait for a transfer. Shapes: A sequences alive, the same ones until the next transfer."""

    def __init__(self) -> None:
        self._tops: list[Tensor] = []
        self._matters: list[Bools] = []

    def note(self, allowed: Tensor, matters: Bools) -> None:
        """Note rows (A, K, V) that tokens are drawn from and that may allow none, where it ``matters`` (A, K)."""
        self._tops.append(allowed.amax(-1))
        self._matters.append(matters)

    def num_kept(self, num_kept: Tensor, allowed: Tensor, num_rows: Ints) -> Ints:
        """Bring to the host how many drafts were kept, the one transfer of a round, and look for faults.

        Args:
            num_kept: (A,) on the device.
            allowed: (A, K, V) of the rows that tested; the one after the kept drafts has decided a token,
            num_rows: (A,) if it is among so many.

        Raises:
            ValueError: as ``report``.
        """
        after = num_kept.clamp(max=allowed.shape[1] - 1)[:, None]
        self._tops += [allowed.amax(-1).gather(1, after), num_kept[:, None]]
        read = torch.cat(self._tops, 1).cpu().numpy()
        kept = read[:, -1].astype(np.int64)
        self._judge(read[:, :-1], [*self._matters, (kept < num_rows)[:, None]])
        return kept

    def report(self) -> None:
        """Look for faults in what was noted, before the sequences alive change.

        Raises:
            ValueError: if some sequence had no token to draw, or the model returned NaN.
        """
        if self._tops:
            self._judge(torch.cat(self._tops, 1).cpu().numpy(), self._matters)

    def _judge(self, tops: NDArray[np.floating], matters: Sequence[Bools]) -> None:
        """Forget what was noted; raise an error if a largest logit (A, N) that matters is not a number."""
        self._tops, self._matters = [], []
        wrong = np.concatenate(matters, 1) & ~np.isfinite(tops)
        if not wrong.any():
            return
        if (tops[wrong] == -np.inf).all():
            raise ValueError(
                "every token is forbidden at some step: forbidden ids and strings must leave at least one token "
                "everywhere"
            )
        raise ValueError(NO_NUMBERS)
