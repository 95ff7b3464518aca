"""Every text that a tiny causal model can write, with its probability: what lossless decoding is compared with."""

from __future__ import annotations

from functools import cache

import torch
from causal_models import causal_logits, network
from torch import Tensor

from anyorder.adapters.causal import CausalModel
from anyorder.sampling import Sampling

EXACT, CAUGHT = 1e-10, 1e-3
VOCAB, EOS = 3, 2
NUM_TEXTS = (VOCAB + 1) ** 4
PROMPTS = [torch.tensor([1, 2]), torch.tensor([0, 2, 1]), torch.tensor([2])]
LIMITS = torch.tensor([3, 4, 2])
SAMPLINGS = {
    "plain": Sampling(),
    "T = 0.7": Sampling(temperature=0.7),
    "top-k": Sampling(top_k=2),
    "T, top-k, top-p": Sampling(temperature=1.3, top_k=2, top_p=0.7),
}


@cache
def model_of(family: str) -> CausalModel:
    return network(family, sharpness=2.5, vocab_size=VOCAB, width=16, inner=16, dtype=torch.float64)


def code_of(tokens: list[int]) -> int:
    """A text of at most four tokens as a number; 0 is no token."""
    code = 0
    for token in (*(token + 1 for token in tokens), *[0] * (4 - len(tokens))):
        code = code * (VOCAB + 1) + token
    return code


@torch.no_grad()
def wanted(model: CausalModel, sampling: Sampling) -> Tensor:
    """(3, M) the probability of every text, as a product of single conditionals of whole passes."""
    joint = torch.zeros(len(PROMPTS), NUM_TEXTS, dtype=torch.float64)
    for case, (prompt, limit) in enumerate(zip(PROMPTS, LIMITS.tolist(), strict=True)):
        texts: list[tuple[list[int], Tensor]] = [([], torch.ones((), dtype=torch.float64))]
        while texts:
            text, mass = texts.pop()
            if len(text) == limit or (text and text[-1] == EOS):
                joint[case, code_of(text)] += mass
                continue
            tokens = torch.cat([prompt, torch.tensor(text, dtype=torch.long)])
            probs = sampling.probs(causal_logits(model, tokens[None])[0, -1])
            texts += [([*text, token], mass * probs[token]) for token in range(VOCAB) if probs[token] > 0]
    return joint
