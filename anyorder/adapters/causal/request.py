"""What a caller of ``generate`` asks for, checked once: prompts, limits, what ends a text, seeds."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.adapters.causal.network import CausalModel
from anyorder.adapters.causal.prompts import Prompts, as_prompts
from anyorder.adapters.causal.session import Task
from anyorder.sampling import Sampling


class Request(NamedTuple):
    """A task and the (B,) seeds of its randomness."""

    task: Task
    seeds: list[int]


def open_request(
    network: CausalModel,
    prompts: Prompts,
    sampling: Sampling,
    *,
    max_new_tokens: int | Sequence[int],
    eos_ids: int | Sequence[int] | None,
    seed: int | Sequence[int] | None,
    attention_mask: Tensor | None,
) -> Request:
    """Check and complete; for the arguments see ``mars.generate``.

    Raises:
        TypeError: for a value of the wrong kind.
        ValueError: for one out of range; the message says what is allowed.
    """
    rows = as_prompts(prompts, network.vocab_size, attention_mask)
    seeds = _per_prompt("seed", secrets.randbits(31) if seed is None else seed, len(rows))
    limits = _limits(max_new_tokens, rows, network)
    return Request(Task(rows, limits, _eos(eos_ids, network), sampling), seeds)


def check_count(name: str, value: object, least: int) -> None:
    """Refuse what is not an integer of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer; got {value!r} ({type(value).__name__})")
    if value < least:
        raise ValueError(f"{name} must be at least {least}; got {value}")


def _eos(eos_ids: int | Sequence[int] | None, network: CausalModel) -> tuple[int, ...]:
    """The ids that end a text."""
    if eos_ids is None:
        return network.config.eos_ids
    found = (eos_ids,) if isinstance(eos_ids, int) else tuple(eos_ids)
    for token in found:
        if not 0 <= token < network.vocab_size:
            raise ValueError(f"eos_ids must lie in range({network.vocab_size}), the vocabulary; got {token}")
    return found


def _per_prompt(name: str, value: int | Sequence[int], count: int) -> list[int]:
    """One integer a prompt."""
    if isinstance(value, float | str):
        raise TypeError(f"{name} must be an integer, or one a prompt; got {value!r}")
    values = [value] * count if isinstance(value, int) else list(value)
    if len(values) != count:
        raise ValueError(f"{name} has {len(values)} values for {count} prompts: give one, or one a prompt")
    if any(isinstance(entry, bool) or not isinstance(entry, int) for entry in values):
        raise TypeError(f"{name} must be an integer, or one a prompt; got {value!r}")
    return values


def _limits(max_new_tokens: int | Sequence[int], rows: list[Tensor], network: CausalModel) -> Tensor:
    """(B,) how many tokens each prompt may get."""
    limits = _per_prompt("max_new_tokens", max_new_tokens, len(rows))
    for limit, row in zip(limits, rows, strict=True):
        if limit < 0:
            raise ValueError(f"max_new_tokens must be at least 0; got {limit}")
        if len(row) + limit > network.config.max_length:
            raise ValueError(
                f"a prompt of {len(row)} tokens and max_new_tokens={limit} exceed the "
                f"{network.config.max_length} positions this model was made for"
            )
    return torch.tensor(limits, dtype=torch.long)
