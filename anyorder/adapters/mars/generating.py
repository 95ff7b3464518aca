"""``mars.generate``: prompts in, tokens and their cost out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from anyorder.adapters.causal.convert import wrap
from anyorder.adapters.causal.drafted import Confidence, decode_verified
from anyorder.adapters.causal.generation import Generated, NewTokens
from anyorder.adapters.causal.network import CausalModel
from anyorder.adapters.causal.plan import Blocks
from anyorder.adapters.causal.prompts import Prompts
from anyorder.adapters.causal.request import answer, open_request
from anyorder.adapters.causal.schedules import Adaptive, Constant, Lookahead
from anyorder.adapters.causal.session import Layout, Session
from anyorder.adapters.mars.decoding import Tau, Thresholds, decode_threshold
from anyorder.adapters.mars.options import MarsOptions, Mode
from anyorder.draft_length import DraftLengthPolicy
from anyorder.sampling import Sampling

DEFAULT_BLOCK = 4


@torch.no_grad()
def generate(  # noqa: PLR0913
    model: CausalModel | Any,
    prompts: Prompts,
    *,
    tau: Tau = 0.95,
    block: int | None = None,
    max_new_tokens: int | Sequence[int] = 128,
    mode: Mode = "threshold",
    lookahead: Lookahead = "linear",
    masks: int | None = None,
    policy: DraftLengthPolicy | None = None,
    confidence: Confidence = "probability",
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    eos_ids: int | Sequence[int] | None = None,
    seed: int | Sequence[int] | None = None,
    attention_mask: Tensor | None = None,
    chunk: int = 512,
    on_tokens: Callable[[NewTokens], None] | None = None,
) -> Generated | list[Generated]:
    """Continue one prompt or many, several tokens a pass.

    Args:
        model: from ``causal.load`` or ``causal.wrap``; a model of transformers is wrapped, which copies its weights, so
            wrap it once yourself if you call twice.
        prompts: token ids: one prompt, a list of prompts of any lengths, or a padded (B, T) tensor.
        tau: threshold mode's dial, not read in verify mode: take candidates of at least this confidence. At 1 or more
            the output is greedy decoding's, token for token. One value, one a prompt, or a function of (number of the
            prompt, tokens generated so far).
        block: B, the model's trained block by default, else 4.
        max_new_tokens: exactly so many unless the text ends; one value or one a prompt.
        mode: ``"threshold"`` (published, lossy, greedy) or ``"verify"`` (lossless at any temperature).
        lookahead: verify mode's masks, ``"linear"`` or ``"quadratic"``.
        masks: mask rows a pass (and an outcome); B - 1, as published, by default. B is the most that was trained.
        policy: verify mode chooses anew in every pass how many drafts to ask for, up to ``masks``, and for which
            outcomes, from stored costs of a pass and what became of this sequence's drafts; see ``adaptive``.
        confidence: what tau is compared with.
        temperature: 0 is greedy; above 0 needs verify mode.
        top_k: as in transformers.
        top_p: as in transformers.
        eos_ids: what ends a text, the model's own by default; ``()`` never ends one.
        seed: of the randomness; one for every prompt, or one a prompt.
        attention_mask: (B, T), where a padded tensor holds tokens.
        chunk: rows of a long prompt that are read in one pass.
        on_tokens: called with the new tokens of each sequence after every pass.

    Returns:
        A ``Generated`` for one prompt, a list of them for many.

    Raises:
        TypeError: for a value of the wrong kind.
        ValueError: for one out of range; the message says what is allowed.
    """
    network = wrap(model)
    options = MarsOptions(
        block=(network.block or DEFAULT_BLOCK) if block is None else block,
        mode=mode,
        lookahead=lookahead,
        masks=masks,
        policy=policy,
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
    layout = Layout(
        scratch=options.scratch,
        max_lag=options.num_masks,
        chunk=options.chunk,
        blocks=Blocks(sees_both_ways=network.sees_both_ways),
    )
    return answer(network, request, layout, partial(_decode, options, tau), mode=options.name, on_tokens=on_tokens)


def _decode(options: MarsOptions, tau: Tau, session: Session) -> None:
    """Run the loop that the options ask for."""
    num_masks = options.num_masks
    if options.mode == "threshold":
        thresholds = Thresholds(tau, len(session.books.tokens))
        decode_threshold(session, thresholds, masks=num_masks, confidence=options.confidence)
    elif options.policy is not None:
        decode_verified(session, Adaptive(options.policy, num_masks, "one-pass", len(session.rows)))
    else:
        decode_verified(session, Constant(num_masks, options.lookahead))
