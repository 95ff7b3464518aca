"""MARS: a causal model that drafts its next tokens from appended masks (arXiv 2604.07023), and our lossless variant.

from anyorder.adapters import causal, mars

model = causal.load("a Qwen2, Qwen3 or Llama checkpoint").pack("lossless")
result = mars.generate(model, ids, mode="verify", max_new_tokens=100)
"""

from anyorder.adapters.causal.generation import CausalStats, Generated, NewTokens
from anyorder.adapters.causal.policy import adaptive
from anyorder.adapters.mars.checkpoint import load, save
from anyorder.adapters.mars.generating import DEFAULT_BLOCK, generate
from anyorder.adapters.mars.lora import attach_lora
from anyorder.adapters.mars.objective import Loss, causal_loss, mars_loss, noisy_mask

__all__ = [
    "DEFAULT_BLOCK",
    "CausalStats",
    "Generated",
    "Loss",
    "NewTokens",
    "adaptive",
    "attach_lora",
    "causal_loss",
    "generate",
    "load",
    "mars_loss",
    "noisy_mask",
    "save",
]
