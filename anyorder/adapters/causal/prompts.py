"""Prompts as a caller gives them, ids in lists or tensors, one or many, padded or ragged; checked once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

Prompts = Tensor | Sequence[int] | Sequence[Sequence[int]] | Sequence[Tensor]
"""One prompt (ids) or many (a padded tensor, or a list of prompts)."""


def is_single(prompts: Prompts) -> bool:
    """Whether this is one prompt."""
    if isinstance(prompts, Tensor):
        return prompts.dim() == 1
    return len(prompts) > 0 and isinstance(prompts[0], int)


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
    if isinstance(prompts, str) or any(isinstance(prompt, str) for prompt in prompts):
        raise TypeError("prompts are token ids; encode text with the model's tokenizer first")
    rows = [torch.as_tensor(prompt) for prompt in ([prompts] if is_single(prompts) else prompts)]
    if attention_mask is not None:
        if not isinstance(prompts, Tensor) or attention_mask.shape != prompts.shape:
            got = tuple(prompts.shape) if isinstance(prompts, Tensor) else "a list"
            raise ValueError(
                f"attention_mask must have the shape of a padded prompt tensor; "
                f"got {tuple(attention_mask.shape)} for {got}"
            )
        kept = [attention_mask] if is_single(prompts) else list(attention_mask)
        rows = [row[mask.bool()] for row, mask in zip(rows, kept, strict=True)]
    return [_checked(number, row, vocab_size) for number, row in enumerate(rows)]


def _checked(number: int, row: Tensor, vocab_size: int) -> Tensor:
    """One prompt as int64 on the host."""
    if not row.numel():
        raise ValueError(f"prompt {number} is empty: a causal model needs a token to start from, its BOS for instance")
    if row.dim() != 1 or row.is_floating_point() or row.dtype == torch.bool:
        raise TypeError(
            f"prompt {number} must be a sequence of integer ids; got {row.dtype} of shape {tuple(row.shape)}"
        )
    if int(row.min()) < 0 or int(row.max()) >= vocab_size:
        raise ValueError(f"prompt {number} has ids outside range({vocab_size}), the model's vocabulary")
    return row.long().cpu()
