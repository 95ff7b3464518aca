"""Causal networks of transformers (Qwen2, Qwen3, Llama) on our own linear layers and cache; see ``network``."""

from anyorder.adapters.causal.config import CausalConfig
from anyorder.adapters.causal.convert import load, to_transformers, wrap
from anyorder.adapters.causal.network import CausalModel

__all__ = ["CausalConfig", "CausalModel", "load", "to_transformers", "wrap"]
