"""Prompts as a caller gives them, ids in lists or tensors, one or many, padded or ragged; checked once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anyorder.integers import as_integer

Prompts = Tensor | NDArray[Any] | Sequence[int] | Sequence[Sequence[int]] | Sequence[Tensor]
"""One prompt (ids) or many (a padded tensor, or a list of prompts)."""


def is_single(prompts: Prompts) -> bool:
    """Whether this is one prompt."""
    if isinstance(prompts, Tensor | np.ndarray):
        return prompts.ndim == 1
    return len(prompts) > 0 and as_integer(prompts[0]) is not None


def as_prompts(prompts: Prompts, vocab_size: int, attention_mask: Tensor | None = None) -> list[Tensor]:
    """One (T,) int64 tensor a sequence, on the host.

    Args:
        prompts: see ``Prompts``.
        vocab_size: V.
        attention_mask: (B, T), nonzero where a padded (B, T) tensor holds tokens; padding may lie on either side.

    Raises:
        TypeError: if they are not integers.
        ValueError: if a prompt is empty, an id is not in the vocabulary, or the mask does not fit.
    """
    _check_kind(prompts)
    given = [prompts] if is_single(prompts) else prompts
    rows = [_as_row(number, prompt) for number, prompt in enumerate(given)]
    if attention_mask is not None:
        mask = torch.as_tensor(attention_mask)
        if not isinstance(prompts, Tensor | np.ndarray) or mask.shape != prompts.shape:
            got = tuple(prompts.shape) if isinstance(prompts, Tensor | np.ndarray) else "a list"
            raise ValueError(
                f"attention_mask must have the shape of a padded prompt tensor; got {tuple(mask.shape)} for {got}"
            )
        kept = [mask] if is_single(prompts) else list(mask)
        rows = [row[each.bool()] for row, each in zip(rows, kept, strict=True)]
    return [_checked(number, row, vocab_size) for number, row in enumerate(rows)]


def _check_kind(prompts: object) -> None:
    """Refuse what is neither one prompt nor many."""
    if isinstance(prompts, str | bytes) or (
        isinstance(prompts, Sequence) and any(isinstance(prompt, str | bytes) for prompt in prompts)
    ):
        raise TypeError("prompts are token ids; encode text with the model's tokenizer first")
    if not isinstance(prompts, Tensor | np.ndarray | Sequence) or getattr(prompts, "ndim", 1) == 0:
        raise TypeError(
            f"prompts are token ids: one prompt, a list of prompts, or a padded (B, T) tensor; "
            f"got {prompts!r:.80} ({type(prompts).__name__})"
        )


def _as_row(number: int, prompt: object) -> Tensor:
    """A tensor of one prompt, its ids not looked at."""
    wanted = f"prompt {number} must be a sequence of integer ids"
    if isinstance(prompt, Tensor):
        return prompt
    if isinstance(prompt, np.ndarray):
        if not np.issubdtype(prompt.dtype, np.integer) and prompt.size:
            raise TypeError(f"{wanted}; got {prompt.dtype} of shape {prompt.shape}")
        return torch.from_numpy(prompt.astype(np.int64))
    if not isinstance(prompt, Sequence):
        raise TypeError(f"{wanted}; got {prompt!r:.80}")
    ids = [as_integer(token) for token in prompt]
    if None in ids:
        raise TypeError(f"{wanted}; got {prompt!r:.80}, where {prompt[ids.index(None)]!r:.80} is none")
    # What no tensor holds lies outside of every vocabulary, like -1.
    return torch.tensor([token if token is not None and abs(token) < 2**63 else -1 for token in ids], dtype=torch.long)


def _checked(number: int, row: Tensor, vocab_size: int) -> Tensor:
    """One prompt as int64 on the host."""
    if not row.numel():
        raise ValueError(f"prompt {number} is empty: a causal model needs a token to start from, its BOS for instance")
    if row.dim() != 1 or row.is_floating_point() or row.dtype == torch.bool:
        raise TypeError(
            f"prompt {number} must be a sequence of integer ids; got {row.dtype} of shape {tuple(row.shape)}"
        )
    row = row.long().cpu()
    if int(row.min()) < 0 or int(row.max()) >= vocab_size:
        raise ValueError(f"prompt {number} has ids outside range({vocab_size}), the model's vocabulary")
    return row
