"""Causal models as an ``Infiller`` for blanks that nothing stands behind: they go on where the text ends.

Plain decoding and the adapters' (MARS, arXiv 2604.07023; Orthrus, arXiv 2605.12825) are the same network and the same
cache here, so that nothing but the method differs between two rows of a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from anyorder.adapters import mars, orthrus
from anyorder.adapters.causal.generation import Generated
from anyorder.integers import check_integer
from anyorder.sampling import Sampling
from infill_eval.causal_loading import CausalText
from infill_eval.infiller import Request, Sample

CausalMethod = Literal["greedy", "sample", "mars", "mars-verify", "orthrus"]
"""Plain decoding, greedy or drawn; MARS by threshold (lossy, greedy) or verified; Orthrus."""


@dataclass(frozen=True, kw_only=True)
class CausalDecoding:
    """How the model decodes; the names are those of ``mars.generate`` and ``orthrus.generate``.

    Attributes:
        method: see ``CausalMethod``.
        tau: threshold of ``"mars"``.
        block: how far drafts reach; ``None`` is what the model was trained for.
        temperature: 0 is greedy.

    Raises:
        ValueError: for an unknown method, a number out of range, or a temperature that the method cannot have.
    """

    method: CausalMethod = "greedy"
    tau: float = 0.95
    block: int | None = None
    temperature: float = 0.0

    def __post_init__(self) -> None:
        if self.method not in get_args(CausalMethod):
            raise ValueError(f"method must be one of {', '.join(get_args(CausalMethod))}; got {self.method!r}")
        Sampling(temperature=self.temperature)
        if self.method in ("greedy", "mars") and self.temperature > 0:
            raise ValueError(f"the method {self.method} is greedy: temperature must be 0; got {self.temperature:g}")
        if self.method == "sample" and self.temperature == 0:
            raise ValueError("the method sample needs a temperature above 0 (1 is the model's own); 0 is greedy")
        if self.block is not None:
            check_integer("block", self.block, least=1)
        if not self.tau >= 0:
            raise ValueError(f"tau must be at least 0 (1 or more is greedy decoding); got {self.tau!r}")

    def label(self, trained: int | None) -> str:
        """The method as tables show it, on a model that was trained for this block."""
        parts: list[str] = [self.method]
        parts += [f"tau={self.tau:g}"] if self.method == "mars" else []
        block = self.block or trained or mars.DEFAULT_BLOCK
        parts += [f"B={block}"] if self.method in ("mars", "mars-verify") else []
        parts += [f"K={block}"] if self.method == "orthrus" else []
        parts += [f"T={self.temperature:g}"] if self.temperature > 0 else []
        return " ".join(parts)


class CausalInfiller:
    """A causal model with one way of decoding.

    Args:
        model: the model with its tokenizer; with a view for ``"orthrus"``.
        decoding: how to decode.
    """

    def __init__(self, model: CausalText, decoding: CausalDecoding | None = None) -> None:
        self.model = model
        self.decoding = decoding if decoding is not None else CausalDecoding()

    def describe(self) -> dict[str, Any]:
        """Model, weights and decoding."""
        return {
            "model": self.model.name,
            "method": self.decoding.label(self.model.network.block),
            "decoding": dict(vars(self.decoding)),
            "max_length": self.model.network.config.max_length,
            **self.model.facts,
        }

    def round_trip(self, text: str) -> str:
        """The text after its own tokenizer."""
        return self.model.tokenizer.decode(self.model.tokenizer.encode(text))

    def check_requests(self, requests: Sequence[Request]) -> None:
        """Refuse what does not fit into the model.

        Raises:
            ValueError: for text behind a blank, a range of lengths, or a prompt that leaves too little room.
        """
        for request in requests:
            self._prompt(request)

    def __call__(self, request: Request) -> list[Sample]:
        """The samples of one request."""
        return self.batch([request])[0]

    def batch(self, requests: Sequence[Request]) -> list[list[Sample]]:
        """The samples of several requests, decoded together: every sample is a text of its own."""
        prompts: list[list[int]] = []
        limits: list[int] = []
        seeds: list[int] = []
        # Greedy decoding would write the same text n times.
        copies = [request.n if self.decoding.temperature > 0 else 1 for request in requests]
        for request, n in zip(requests, copies, strict=True):
            prompt, limit = self._prompt(request)
            prompts += [prompt] * n
            limits += [limit] * n
            seeds += [request.seed + j for j in range(n)]
        pairs = zip(prompts, self._generated(prompts, limits, seeds), strict=True)
        samples = iter([self._sample(prompt, result) for prompt, result in pairs])
        drawn = [[next(samples) for _ in range(n)] for n in copies]
        return [row * (request.n // len(row)) for row, request in zip(drawn, requests, strict=True)]

    def _generated(self, prompts: list[list[int]], limits: list[int], seeds: list[int]) -> list[Generated]:
        network, decoding = self.model.network, self.decoding
        if decoding.method == "orthrus":
            results = orthrus.generate(
                network,
                prompts,
                block=decoding.block,
                max_new_tokens=limits,
                temperature=decoding.temperature,
                seed=seeds,
            )
        else:
            results = mars.generate(
                network,
                prompts,
                tau=decoding.tau,
                block=decoding.block,
                max_new_tokens=limits,
                mode="threshold" if decoding.method == "mars" else "verify",
                masks=0 if decoding.method in ("greedy", "sample") else None,  # without masks nothing is drafted
                temperature=decoding.temperature,
                seed=seeds,
            )
        return cast("list[Generated]", results)

    def _prompt(self, request: Request) -> tuple[list[int], int]:
        """A request's prompt in tokens, and how many may follow."""
        prefix, suffix = request.segments[0], "".join(request.segments[1:])
        if len(request.segments) != 2 or suffix:
            raise ValueError(
                f"a causal model goes on where a text ends: {request.id} must have one blank and nothing behind it, "
                f"got {len(request.segments) - 1} blanks with {len(suffix)} characters behind the first"
            )
        prompt = list(self.model.tokenizer.encode(prefix))
        if not prompt:
            raise ValueError(f"{request.id}: a causal model needs a token to start from, and {prefix!r} has none")
        limit = self._limit(request)
        room = self.model.network.config.max_length
        if len(prompt) + limit > room:
            raise ValueError(
                f"{request.id}: a prompt of {len(prompt)} tokens and {limit} new ones exceed the {room} positions of "
                f"{self.model.name}: ask for fewer (--max-new-tokens, and --shots where there are some)"
            )
        return prompt, limit

    def _limit(self, request: Request) -> int:
        budget, encode = request.budget, self.model.tokenizer.encode
        if budget.like is not None:
            # On its own: encoded behind the prompt its indent would join the newline, which the prompt already has.
            return len(encode(budget.like[0])) - len(encode(""))
        if not isinstance(budget.tokens, int):
            raise ValueError(
                f"a causal model writes until it ends or may write no more: the length is a number of tokens or "
                f"oracle, not the {budget.policy} {budget.tokens!r}"
            )
        return budget.tokens

    def _sample(self, prompt: Sequence[int], result: Generated) -> Sample:
        stats, ids = result.stats, list(result.token_ids)
        written = ids[:-1] if stats.ended == "eos" else ids
        # Some tokenizers write the first token of a text without its space, so the new text is what the whole has more.
        head, whole = (self.model.tokenizer.decode([*prompt, *new]) for new in ([], written))
        text = whole[len(head) :] if whole.startswith(head) else self.model.tokenizer.decode(written)
        return Sample(
            texts=(text,),
            stats={
                "nfe": stats.nfe,
                "prefill nfe": stats.prefill_nfe,
                "tokens": stats.tokens,
                "rows": stats.rows,
                "seconds": stats.seconds,
                "ended": float(stats.ended == "eos"),
                "offered by offset": list(stats.offered),
                "accepted by offset": list(stats.accepted),
            },
        )
