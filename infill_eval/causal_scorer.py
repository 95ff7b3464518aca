"""A causal language model from the Hugging Face hub or a directory, as the judge of fluency (``--scorer``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class CausalScorer:
    """Negative log-density of texts under a causal model, its first token given.

    Args:
        name: hub id or directory.
        device: where to run.
        max_length: tokens scored at most; what the model takes by default. A longer text is an error, not a cut.

    Raises:
        ValueError: if the model or its tokenizer cannot be loaded.
    """

    def __init__(self, name: str, *, device: str = "cpu", max_length: int | None = None) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.name = name
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(name)
            model: Any = AutoModelForCausalLM.from_pretrained(name)
            self._model = model.to(device).eval()
        except (OSError, ValueError) as error:
            raise ValueError(f"--scorer {name} is no causal model that can be loaded: {error}") from None
        self._max_length = max_length or getattr(self._model.config, "max_position_embeddings", None) or 1 << 30

    def score(self, texts: Sequence[str]) -> list[tuple[float, list[int]]]:
        """For each text its negative log-density in nats, and its token ids; one text a pass.

        Raises:
            ValueError: if a text has more tokens than the model takes.
        """
        return [self._one(text) for text in texts]

    def _one(self, text: str) -> tuple[float, list[int]]:
        import torch

        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        if len(ids) > self._max_length:
            raise ValueError(f"{self.name} takes {self._max_length} tokens, a completed text has {len(ids)}")
        if len(ids) < 2:
            return 0.0, ids
        tokens = torch.tensor([ids], device=self._model.device)
        with torch.no_grad():
            logits = self._model(tokens).logits[0, :-1].float()
        return float(torch.nn.functional.cross_entropy(logits, tokens[0, 1:], reduction="sum")), ids
