"""``decode``: fill the targets of a batch of sequences with one of the methods."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor

from anyorder.decoding.assd import decode_assd
from anyorder.decoding.generation import Generation, Method, Progress
from anyorder.decoding.one_pass import decode_one_pass
from anyorder.decoding.options import DecodeOptions
from anyorder.decoding.parallel import decode_parallel
from anyorder.decoding.sequential import decode_sequential
from anyorder.decoding.session import Session
from anyorder.forbidden import Forbidden
from anyorder.likelihood import joint_log_prob
from anyorder.model.contract import AnySubsetModel
from anyorder.order import Order
from anyorder.uniforms import Uniforms


@torch.no_grad()
def decode(
    model: AnySubsetModel,
    tokens: Tensor,
    order: Order,
    *,
    uniforms: Uniforms,
    options: DecodeOptions,
    forbidden: Forbidden,
    on_round: Callable[[Progress], None] | None = None,
) -> Generation:
    """Decide every target; all methods but ``"parallel"`` draw from the model's joint of the declared order.

    A sequence's result depends on its own tokens, order and random numbers, and on nothing else in its batch.

    Args:
        model: the network.
        tokens: (B, L) int64 in order space; what stands at the targets is ignored.
        order: which steps are given and which are decided, per row.
        uniforms: the random numbers, one stream a row.
        options: method, draft length, sampling, drafter.
        forbidden: tokens and strings that are never drawn.
        on_round: called after every round.

    Raises:
        ValueError: if shapes disagree, a prompt token lies outside the vocabulary, everything is forbidden at some
            step, a drafter's proposal is not one, or the model returns NaN.
    """
    _check(model, tokens, order, uniforms, forbidden)
    method = options.effective_method
    with torch.autocast(model.device.type, enabled=False):  # a caller's would mix precisions within one sum
        session = Session(
            model, tokens, order, uniforms=uniforms, options=options, forbidden=forbidden, on_round=on_round
        )
        _loop(method, options)(session)
        generation = session.finish()
        if method != "parallel":
            return generation
        scored = joint_log_prob(model, generation.tokens, order, forbidden=forbidden)
    generation.counters.score_nfe.add_((order.num_targets > 0).cpu())
    return dataclasses.replace(generation, log_probs=scored)


def _loop(method: Method, options: DecodeOptions) -> Callable[[Session], None]:
    """The loop of a method. A drafter that is not the model costs no pass, so both ways of ASSD coincide for it."""
    if method == "assd" and options.drafter != "self":
        return decode_one_pass
    loops: dict[Method, Callable[[Session], None]] = {
        "sequential": decode_sequential,
        "assd": decode_assd,
        "one-pass": decode_one_pass,
        "parallel": decode_parallel,
    }
    return loops[method]


def _check(model: AnySubsetModel, tokens: Tensor, order: Order, uniforms: Uniforms, forbidden: Forbidden) -> None:
    if tokens.dim() != 2 or tokens.dtype != torch.long:
        raise ValueError(f"tokens must be (B, L) int64 in order space; got {tuple(tokens.shape)} {tokens.dtype}")
    if order.sigma.shape != tokens.shape:
        raise ValueError(f"order and tokens must agree in shape; got {tuple(order.sigma.shape)}, {tuple(tokens.shape)}")
    if len(uniforms) != len(tokens):
        raise ValueError(f"every sequence needs its own seed: {len(tokens)} sequences, {len(uniforms)} seeds")
    vocab_size = model.vocab_size
    if len(forbidden.ids) != vocab_size:
        raise ValueError(f"forbidden covers {len(forbidden.ids)} ids, the model has {vocab_size}")
    step = torch.arange(order.num_steps, device=order.sigma.device)
    prompt = tokens.to(step.device)[step < order.num_prompt[:, None]]
    if bool(((prompt < 0) | (prompt >= vocab_size)).any()):
        raise ValueError(f"prompt tokens must lie in range({vocab_size}), the model's vocabulary")
