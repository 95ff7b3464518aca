"""``orthrus.generate``: prompts in, the base model's own tokens and their cost out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from anyorder.adapters.causal.convert import wrap
from anyorder.adapters.causal.drafted import decode_verified
from anyorder.adapters.causal.generation import Generated, NewTokens
from anyorder.adapters.causal.network import CausalModel
from anyorder.adapters.causal.plan import Blocks
from anyorder.adapters.causal.prompts import Prompts
from anyorder.adapters.causal.request import answer, open_request
from anyorder.adapters.causal.schedules import Adaptive, Constant, Lookahead, Schedule, TwoDenoisings
from anyorder.adapters.causal.session import Layout, Session
from anyorder.adapters.orthrus.options import Cycle, OrthrusOptions
from anyorder.adapters.orthrus.view import check_has_view
from anyorder.draft_length import DraftLengthPolicy
from anyorder.sampling import Sampling


@torch.no_grad()
def generate(  # noqa: PLR0913
    model: CausalModel | Any,
    prompts: Prompts,
    *,
    block: int | None = None,
    cycle: Cycle | None = None,
    lookahead: Lookahead = "linear",
    policy: DraftLengthPolicy | None = None,
    denoising: int = 1,
    confidence: float = 0.0,
    max_new_tokens: int | Sequence[int] = 128,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    eos_ids: int | Sequence[int] | None = None,
    seed: int | Sequence[int] | None = None,
    attention_mask: Tensor | None = None,
    chunk: int = 512,
    on_tokens: Callable[[NewTokens], None] | None = None,
) -> Generated | list[Generated]:
    """Continue one prompt or many as the base would, several tokens a pass; lossless whatever the view's weights are.

    Args:
        model: with a view, from ``attach``, ``load_view`` or ``load``.
        prompts: token ids: one prompt, a list of prompts of any lengths, or a padded (B, T) tensor.
        block: K, how far drafts reach: the trained one by default; 1 is plain autoregressive decoding.
        cycle: ``"one-pass"`` (the default where the anchor is frozen) or ``"two-pass"`` (the only one where it is in
            the view).
        lookahead: a one-pass cycle drafts for the outcome that all drafts are kept (``"linear"``), or for each
            (``"quadratic"``).
        policy: chooses K anew every round, from stored costs and what became of this sequence's drafts; see
            ``adaptive``. With it ``lookahead`` is chosen too.
        denoising: 2 drafts the second half of a block in a pass of its own, in which the first half stands (the paper's
            ablation); for the published view.
        confidence: draw a draft only if its row, and those before it, give some token at least this probability.
        max_new_tokens: exactly so many unless the text ends; one value or one a prompt.
        temperature: 0 is greedy.
        top_k: as in transformers.
        top_p: as in transformers.
        eos_ids: what ends a text, the model's own by default; ``()`` never ends one.
        seed: of the randomness; one for every prompt, or one a prompt.
        attention_mask: (B, T), where a padded tensor holds tokens.
        chunk: rows of a long prompt that are read in one pass.
        on_tokens: called with the new tokens of each sequence after every pass that decided some.

    Returns:
        A ``Generated`` for one prompt, a list of them for many.

    Raises:
        TypeError: for a value of the wrong kind.
        ValueError: for one out of range, or a model without a view; the message says what is allowed.
    """
    network = wrap(model)
    check_has_view(network)
    options = OrthrusOptions(
        block=(network.block or 1) if block is None else block,
        anchor_in_view=network.anchor_in_view,
        cycle=cycle,
        lookahead=lookahead,
        policy=policy,
        denoising=denoising,
        confidence=confidence,
        sampling=Sampling(temperature=temperature, top_k=top_k, top_p=top_p),
        chunk=chunk,
    )
    request = open_request(
        network,
        prompts,
        options.sampling,
        max_new_tokens=max_new_tokens,
        eos_ids=eos_ids,
        seed=seed,
        attention_mask=attention_mask,
    )
    return answer(
        network, request, layout_of(options), partial(_decode, options), mode=options.name, on_tokens=on_tokens
    )


def _decode(options: OrthrusOptions, session: Session) -> None:
    decode_verified(session, schedule_of(options, session), confidence=options.confidence)


def layout_of(options: OrthrusOptions) -> Layout:
    """How passes are laid out."""
    return Layout(
        scratch=options.scratch,
        max_lag=options.num_masks,
        chunk=options.chunk,
        blocks=Blocks(sees_both_ways=True, anchor_in_view=options.anchor_in_view),
    )


def schedule_of(options: OrthrusOptions, session: Session) -> Schedule:
    """What says how many drafts to ask for."""
    if options.policy is not None:
        return Adaptive(options.policy, options.num_masks, options.rounds, len(session.rows))
    if options.denoising == 2:
        return TwoDenoisings(options.num_masks, len(session.rows))
    return Constant(options.num_masks, "alternate" if options.is_two_pass else options.lookahead)
