"""WikiText with 95 % of its tokens masked: is the text a faster decoding writes as good as the slow one's?

Text is packed and cut into chunks of a number of tokens (the model's own if it shows its tokenizer, else words); a
seeded 95 % of them are blanked, each run of blanked tokens one blank with the same number of tokens. Quality is the
generative perplexity of the completed text under a causal model that the user names, and the entropy of its tokens, low
when a model repeats itself. Source: Guo & Ermon 2025, section 5 (its tables of perplexity, entropy, NFE and time).
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from infill_eval.tasks.base import Filled, Item
from infill_eval.tracking import Track, untracked

Offsets = Callable[[str], Sequence[tuple[int, int]]]
"""Where the tokens of a text begin and end."""


class Scorer(Protocol):
    """A causal model that says how likely a text is."""

    @property
    def name(self) -> str:
        """Printed with every perplexity, as it means nothing without."""
        ...

    def score(self, texts: Sequence[str]) -> list[tuple[float, list[int]]]:
        """For each text its negative log-density in nats, and its token ids."""
        ...


@dataclass(frozen=True, kw_only=True)
class MaskingOptions:
    """How chunks are cut and blanked.

    Attributes:
        chunks: how many.
        length: tokens of a chunk.
        masked: share of its tokens that are blanked.
        seed: which tokens.
    """

    chunks: int = 128
    length: int = 256
    masked: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        if self.chunks < 1 or self.length < 2:
            raise ValueError(f"WikiText needs chunks >= 1 of length >= 2, got {self.chunks} of {self.length}")
        if not 0 < self.masked <= 1:
            raise ValueError(f"the masked share must lie in (0, 1], got {self.masked}")


def words(text: str) -> list[tuple[int, int]]:
    """Words with the white space before them: tokens for a model that shows no tokenizer of its own."""
    return [match.span() for match in re.finditer(r"\s*\S+", text)]


def read_text(path: Path) -> str:
    """The text of a file.

    Raises:
        ValueError: if it cannot be read, is not UTF-8, or is empty.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}; --data names a text file") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8: {error}") from None
    if not text.strip():
        raise ValueError(f"{path} is empty: --data names a file with the text to cut into chunks")
    return text


def cut(text: str, offsets: Offsets, options: MaskingOptions) -> list[Item]:
    """Consecutive chunks of a text with most of their tokens blanked.

    Raises:
        ValueError: if the text is too short.
    """
    tokens = offsets(text)
    available = len(tokens) // options.length
    if available < options.chunks:
        raise ValueError(
            f"the text has {len(tokens)} tokens, {available} chunks of {options.length}; asked for: {options.chunks}"
        )
    return [
        _blanked(text, tokens[number * options.length : (number + 1) * options.length], number, options)
        for number in range(options.chunks)
    ]


def _blanked(text: str, tokens: Sequence[tuple[int, int]], number: int, options: MaskingOptions) -> Item:
    generator = random.Random(f"{options.seed}:{number}")
    count = min(len(tokens), max(1, round(options.masked * len(tokens))))
    is_target = [False] * len(tokens)
    for index in generator.sample(range(len(tokens)), count):
        is_target[index] = True
    segments: list[str] = [""]
    reference: list[str] = []
    position = tokens[0][0]
    for index, (_, end) in enumerate(tokens):
        piece, position = text[position:end], max(end, position)
        if not is_target[index]:
            segments[-1] += piece
        elif index and is_target[index - 1]:
            reference[-1] += piece
        else:
            reference.append(piece)
            segments.append("")
    return Item(id=f"chunk-{number}", segments=tuple(segments), reference=tuple(reference))


class WikiText:
    """Chunks of a text, 95 % blanked, scored by a causal model.

    Args:
        text: the text to cut.
        scorer: the causal model that measures quality.
        offsets: the tokens of a text.
        options: how chunks are cut and blanked.
    """

    baselines = True

    def __init__(self, text: str, scorer: Scorer, *, offsets: Offsets = words, options: MaskingOptions | None = None):
        self._options = options if options is not None else MaskingOptions()
        self._scorer = scorer
        self._scored: dict[str, tuple[float, list[int]]] = {}
        self._items = cut(text, offsets, self._options)
        self.name = f"wikitext {self._options.length} tokens"

    def describe(self) -> dict[str, Any]:
        """Cut, blanking and scorer."""
        return {"task": self.name, "protocol": "corrected", "scorer": self._scorer.name, "masking": vars(self._options)}

    def items(self) -> list[Item]:
        """One item a chunk."""
        return self._items

    def score(self, filled: Sequence[Filled], *, track: Track[Any] = untracked) -> list[dict[str, float]]:
        """Negative log-density a token of the completed text under the scorer, and the entropy of its tokens.

        A chunk none of whose completed texts has two tokens has no perplexity and counts as missing. A text is scored
        once however many samples, baselines and methods share it.
        """
        values = []
        for item, samples in track(filled, len(filled), f"scoring with {self._scorer.name}"):
            texts = [item.filled(sample.texts) for sample in samples]
            unknown = [text for text in dict.fromkeys(texts) if text not in self._scored]
            if unknown:
                self._scored.update(zip(unknown, self._scorer.score(unknown), strict=True))
            scored = [self._scored[text] for text in texts]
            # Without a second token there is no perplexity; 0 nats would make an empty text the best of all.
            nats = [total / (len(ids) - 1) for total, ids in scored if len(ids) > 1]
            known = {"log-perplexity": sum(nats) / len(nats)} if nats else {}
            values.append(known | {"entropy": sum(entropy(ids) for _, ids in scored) / len(scored)})
        return values


def entropy(ids: Sequence[int]) -> float:
    """Shannon entropy, in nats, of the empirical distribution of a text's tokens."""
    counts = Counter(ids)
    return -sum(count / len(ids) * math.log(count / len(ids)) for count in counts.values())


def from_hub() -> str:
    """The test split of WikiText-103 from the Hugging Face hub.

    Raises:
        ValueError: if it cannot be downloaded.
    """
    from datasets import load_dataset

    try:
        rows = load_dataset("Salesforce/wikitext", "wikitext-103-raw-v1", split="test")
    except (OSError, ValueError) as error:
        raise ValueError(f"WikiText cannot be downloaded ({error}); --data names a text file to use instead") from None
    return "".join(rows["text"])
