"""What filling a text gives back: the completed text, what went into each blank, how likely it was, how it was done.

``log_prob`` is the joint log-density, in nats, of everything filled in, under the declared order, at temperature 1 with
forbidden tokens excluded: the distribution that sampling draws from. Results are plain data; ``to_dict`` is what the
command line writes as JSON.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from anyorder import html

if TYPE_CHECKING:
    from anyorder.codec import Codec
    from anyorder.decoding import RoundRecord, Stats
    from anyorder.passage import Passage


@dataclass(frozen=True, kw_only=True)
class FilledSpan:
    """What went into one blank.

    Attributes:
        start: first character of the fill in the completed text.
        end: the character after its last one.
        text: the fill; bytes that are not UTF-8, which sampling can produce, show as U+FFFD. A space that the blank
            owns stands before it and is no part of it, so a fill whose one token is that space is empty.
        token_ids: the tokens, which stay authoritative where the text shows U+FFFD.
        token_texts: what each token adds to ``text``; a character in several pieces counts for the last of them.
        log_prob: the sum of ``token_log_probs``.
        token_log_probs: of each token given the prompt and the targets decided before it, in nats.
        rounds: the round, from 1, in which each token was decided.
    """

    start: int
    end: int
    text: str
    token_ids: list[int]
    token_texts: list[str]
    log_prob: float
    token_log_probs: list[float]
    rounds: list[int]


@dataclass(frozen=True, kw_only=True)
class InfillResult:
    """A completed text; ``str(result)`` is the text.

    Attributes:
        text: the completed text; everything outside the blanks is byte-identical to the input.
        spans: what went into each blank, in text order.
        log_prob: joint log-density of what was filled in, in nats.
        stats: passes, drafts, seconds and the method that actually ran.
        trace: round by round, what was drafted, kept and corrected.
        seed: the seed of this sample; the same call with it gives the same text.
        order: the targets, numbered in text order, in the order in which they were decided.
        forbidden: the strings that no fill was allowed to contain.
        model: name of the model.
        passage: the token ids as the model saw them, which ``anyorder.log_prob(result)`` scores again.
    """

    text: str
    spans: list[FilledSpan]
    log_prob: float
    stats: Stats
    trace: list[RoundRecord]
    seed: int
    order: list[int]
    forbidden: list[str]
    model: str
    passage: Passage = field(repr=False)

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Everything but the passage, as what JSON can hold."""
        return {
            "text": self.text,
            "spans": [_plain(asdict(span)) for span in self.spans],
            "log_prob": self.log_prob,
            "seed": self.seed,
            "order": list(self.order),
            "forbidden": list(self.forbidden),
            "model": self.model,
            "stats": _plain(asdict(self.stats)),
            "trace": [_plain(asdict(entry)) for entry in self.trace],
        }

    def _repr_html_(self) -> str:
        """The text in a notebook, its fills coloured by probability and annotated with the round."""
        return html.render(self.text, self.spans, self.log_prob)


class Samples(list[InfillResult]):
    """Several samples of one text, most likely first: a list that a notebook shows, and its slices too."""

    @overload
    def __getitem__(self, index: SupportsIndex) -> InfillResult: ...
    @overload
    def __getitem__(self, index: slice) -> Samples: ...
    def __getitem__(self, index: SupportsIndex | slice) -> InfillResult | Samples:
        return Samples(super().__getitem__(index)) if isinstance(index, slice) else super().__getitem__(index)

    def _repr_html_(self) -> str:
        """One below the other."""
        return "".join(result._repr_html_() for result in self)


def _plain(value: Any) -> Any:
    """Tuples as lists all the way down, so that what JSON gives back equals what went in."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def token_texts(codec: Codec, ids: Sequence[int], fill: str) -> list[str]:
    """What each token of a fill adds to its text; together they are the text.

    A character in several pieces belongs to the last of them. Where a codec changes spaces at the border of a blank,
    the first token takes the difference.
    """
    if not ids:
        return []
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    texts = [decoder.decode(codec.token_bytes(token)) for token in ids]
    texts[-1] += decoder.decode(b"", final=True)
    rest = "".join(texts[1:])
    if not fill.endswith(rest):
        return [fill, *[""] * (len(ids) - 1)]
    return [fill[: len(fill) - len(rest)], *texts[1:]]
