"""Orthrus: a frozen causal model drafts through a small trainable view and stays itself (arXiv 2605.12825).

from anyorder.adapters import causal, orthrus

model = orthrus.load_view(causal.load("its base"), "a trained view").pack("lossless")
result = orthrus.generate(model, ids, max_new_tokens=100)
"""

from anyorder.adapters.causal.generation import CausalStats, Generated, NewTokens
from anyorder.adapters.causal.policy import adaptive
from anyorder.adapters.orthrus.checkpoint import load, load_view, read_view, save_view
from anyorder.adapters.orthrus.generating import generate
from anyorder.adapters.orthrus.objective import Distillation, block_mask, distillation, draw_anchors
from anyorder.adapters.orthrus.view import Anchor, attach, detach

__all__ = [
    "Anchor",
    "CausalStats",
    "Distillation",
    "Generated",
    "NewTokens",
    "adaptive",
    "attach",
    "block_mask",
    "detach",
    "distillation",
    "draw_anchors",
    "generate",
    "load",
    "load_view",
    "read_view",
    "save_view",
]
