"""A call of ``generate``: prompts, limits, what ends a text and seeds, checked once; and the answer to it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.adapters.causal.generation import Generated, NewTokens
from anyorder.adapters.causal.network import CausalModel
from anyorder.adapters.causal.prompts import Prompts, as_prompts, is_single
from anyorder.adapters.causal.session import Layout, Session, Task
from anyorder.integers import as_integer, check_integer
from anyorder.sampling import Sampling
from anyorder.uniforms import MAX_SEED, Uniforms


class Request(NamedTuple):
    """A task, the (B,) seeds of its randomness, and whether one prompt was given rather than a list of them."""

    task: Task
    seeds: list[int]
    is_single: bool


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
    seeds = _seeds(seed, len(rows))
    limits = _limits(max_new_tokens, rows, network)
    return Request(Task(rows, limits, _eos(eos_ids, network), sampling), seeds, is_single(prompts))


def answer(
    network: CausalModel,
    request: Request,
    layout: Layout,
    decode: Callable[[Session], None],
    *,
    mode: str,
    on_tokens: Callable[[NewTokens], None] | None,
) -> Generated | list[Generated]:
    """Decode what was asked for.

    Args:
        network: the model.
        request: what was asked for.
        layout: how passes are laid out.
        decode: the loop; it takes a session to its end.
        mode: what the stats call that.
        on_tokens: called with the new tokens of each sequence after every pass that decided some.

    Returns:
        A ``Generated`` for one prompt, a list of them for many.
    """
    if not request.seeds:
        return []
    session = Session(network, request.task, layout, uniforms=Uniforms(request.seeds), on_tokens=on_tokens)
    decode(session)
    results = session.books.close(mode, request.seeds)
    return results[0] if request.is_single else results


def _eos(eos_ids: int | Sequence[int] | None, network: CausalModel) -> tuple[int, ...]:
    """The ids that end a text."""
    if eos_ids is None:
        return network.config.eos_ids
    found = tuple(_integers("eos_ids", "ids of the vocabulary", eos_ids))
    for token in found:
        if not 0 <= token < network.vocab_size:
            raise ValueError(f"eos_ids must lie in range({network.vocab_size}), the vocabulary; got {token}")
    return found


def _integers(name: str, wanted: str, value: object) -> list[int]:
    """One integer, or all of several."""
    one = as_integer(value)
    if one is not None:
        return [one]
    if not isinstance(value, Iterable) or isinstance(value, str | bytes) or getattr(value, "ndim", 1) == 0:
        raise TypeError(f"{name} must be {wanted}; got {value!r} ({type(value).__name__})")
    found = []
    for entry in value:
        number = as_integer(entry)
        if number is None:
            raise TypeError(f"{name} must be {wanted}; got {value!r:.80}, where {entry!r:.80} is no integer")
        found.append(number)
    return found


def _per_prompt(name: str, value: object, count: int) -> list[int]:
    """One integer a prompt."""
    values = _integers(name, "an integer, or one a prompt", value)
    if as_integer(value) is not None:
        return values * count
    if len(values) != count:
        raise ValueError(f"{name} has {len(values)} values for {count} prompts: give one, or one a prompt")
    return values


def _seeds(seed: int | Sequence[int] | None, count: int) -> list[int]:
    """One seed a prompt, such that torch takes it."""
    seeds = _per_prompt("seed", secrets.randbits(31) if seed is None else seed, count)
    return [check_integer("seed", each, least=0, most=MAX_SEED) for each in seeds]


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
