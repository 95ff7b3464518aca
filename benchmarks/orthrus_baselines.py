"""What Orthrus is compared with: a drafter that keeps a cache of its own, and a view that is always wrong.

Both run on the same network, cache and packed weights as ours.
"""

from __future__ import annotations

import dataclasses
import time
from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.adapters.causal import CausalModel
from anyorder.adapters.causal.cache import SlotCache
from anyorder.adapters.causal.drafted import decode_verified
from anyorder.adapters.causal.rows import Rows, clean_rows
from anyorder.adapters.causal.session import Layout, Session, Task
from anyorder.adapters.orthrus.generating import layout_of, schedule_of
from anyorder.adapters.orthrus.options import OrthrusOptions
from anyorder.drafting import Drafts
from anyorder.sampling import Sampling
from anyorder.uniforms import Uniforms


class Run(NamedTuple):
    """What a run came to: new tokens, passes of the model, a drafter's own cache, and the time to decode.

    Attributes:
        tokens: new ones.
        num_passes: of the model.
        drafter_bytes: of the drafter's own cache.
        seconds: from when both have read the prompt and the first token is decided.
    """

    tokens: list[int]
    num_passes: int
    drafter_bytes: int
    seconds: float


def shallow(model: CausalModel, layers: int) -> CausalModel:
    """A drafter made of a model's first layers, with its embedding, norm and head."""
    drafter = CausalModel(dataclasses.replace(model.config, num_layers=layers))
    drafter.frequencies, drafter.rotary_scale = model.frequencies.clone(), model.rotary_scale
    wanted = drafter.state_dict()
    drafter.load_state_dict({name: tensor for name, tensor in model.state_dict().items() if name in wanted})
    return drafter.requires_grad_(False).eval()


@torch.no_grad()
def with_own_cache(
    model: CausalModel,
    drafter: CausalModel,
    prompt: Tensor,
    limit: int,
    *,
    width: int,
    eos_ids: tuple[int, ...],
) -> Run:
    """Greedy speculative decoding as usual: ``width`` drafts, a pass of the drafter each, then a pass that tests them.

    Source: Leviathan et al. 2023.
    """
    task = Task([prompt], torch.tensor([limit]), eos_ids, Sampling(temperature=0.0))
    session = Session(model, task, Layout(scratch=0, max_lag=width), uniforms=Uniforms([0]))
    cache, read = drafter.new_cache(1, session.num_slots), 0
    drafts, num_drafts = session.no_drafts(), torch.zeros(1, dtype=torch.long)
    start: float | None = None
    while True:
        plan, logits = session.forward(drafts, num_drafts, torch.zeros(1, drafts.tokens.shape[1] + 1, dtype=torch.long))
        verdict = session.test(drafts, logits, num_drafts, (num_drafts < session.remaining) & plan.decides)
        session.commit(
            verdict.applied_to(drafts.tokens),
            verdict.num_kept,
            logits=logits,
            plan=plan,
            num_drafts=num_drafts,
            encoded=True,
        )
        if not session.is_alive:
            seconds = 0.0 if start is None else time.perf_counter() - start
            return Run(session.books.tokens[0], session.books.num_passes, cache_bytes(cache), seconds)
        # What the drafter read of its own guesses stays up to the first that was wrong.
        decided = int(session.num_decoded)
        read = min(read, decided - 1)
        num_drafts = (session.remaining - 1).clamp(max=width) * plan.decides
        guessed: list[int] = []
        for _ in range(int(num_drafts)):
            end = decided + len(guessed)
            guessed.append(_read(drafter, cache, session.tokens[0], guessed, (read, end)))
            read = end
            start = start or time.perf_counter()
        if bool(plan.decides):
            start = start or time.perf_counter()
        tokens = torch.tensor([guessed], dtype=torch.long)
        drafts = Drafts(tokens, session.no_drafts().q, torch.zeros(1, dtype=torch.long))


def _read(drafter: CausalModel, cache: SlotCache, tokens: Tensor, guessed: list[int], span: tuple[int, int]) -> int:
    """Let the drafter read the tokens of a span, the last of which are guesses; returns what it says next."""
    start, end = span
    text = tokens[:end].clone()
    if guessed:
        text[end - len(guessed) :] = torch.tensor(guessed)
    for first in range(start, end, 512):
        slots = torch.arange(first, min(first + 512, end))[None]
        asked = torch.tensor([[slots.shape[1] - 1]])
        logits = drafter.step(text[slots[0]][None], clean_rows(slots, cache.num_slots), cache, asked=asked)
    return int(logits[0, 0].argmax())


def cache_bytes(cache: SlotCache) -> int:
    """Bytes of keys and values."""
    return sum(buffer.nbytes for buffer in (*cache.keys, *cache.values))


class Contrary:
    """A network whose rows in the view say the opposite of what they would: the worst drafter there is."""

    def __init__(self, model: CausalModel) -> None:
        self._model = model
        self.vocab_size, self.device = model.vocab_size, model.device

    def new_cache(self, batch: int, num_slots: int) -> SlotCache:
        """See ``Network``."""
        return self._model.new_cache(batch, num_slots)

    def step(self, tokens: Tensor, rows: Rows, cache: SlotCache, *, asked: Tensor) -> Tensor:
        """See ``Network``; answers of rows in the view change sign."""
        logits = self._model.step(tokens, rows, cache, asked=asked)
        inside = asked.clamp(max=rows.slots.shape[1] - 1)
        in_view = rows.in_view.gather(1, inside) & (asked < rows.slots.shape[1])
        return torch.where(in_view[..., None].to(logits.device), -logits, logits)


@torch.no_grad()
def against_itself(model: CausalModel, prompts: list[Tensor], limit: int) -> tuple[list[list[int]], int]:
    """Greedy decoding with the contrary of a view: texts, and passes of all sequences together."""
    options = OrthrusOptions(
        block=model.block or 1, anchor_in_view=model.anchor_in_view, sampling=Sampling(temperature=0.0)
    )
    task = Task(prompts, torch.full((len(prompts),), limit), model.config.eos_ids, options.sampling)
    session = Session(Contrary(model), task, layout_of(options), uniforms=Uniforms([0] * len(prompts)))
    decode_verified(session, schedule_of(options, session))
    return session.books.tokens, int(session.books.nfe.sum())
