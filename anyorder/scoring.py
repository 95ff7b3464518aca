"""How likely a part of a text is given the rest of it, in one pass: ``log_prob``, ``token_log_probs``, ``rank``.

``log_prob`` is the joint log-density, in nats, of the tokens in the named spans, by the chain rule in one declared
order with the prompt fixed: the sum over targets of log p(target | prompt, targets before it). Decoded targets are
causal while the prompt sees itself, so moving tokens from the targets into the prompt of another call changes the sum.
A text is scored with the canonical tokens of its segments, an ``InfillResult`` with the very tokens it was filled with.
Source: Guo & Ermon 2025, section 3.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from anyorder import blanks
from anyorder.batching import batches
from anyorder.codec import Layout
from anyorder.decoding.readback import NO_NUMBERS
from anyorder.default import resolve_model
from anyorder.exclusions import exclude
from anyorder.forbidden import Forbidden
from anyorder.likelihood import joint_log_prob
from anyorder.options import Context, InfillOptions, TargetOrder
from anyorder.passage import Passage, assemble, collate
from anyorder.per_text import check_texts, spread
from anyorder.prepare import target_permutation
from anyorder.result import InfillResult
from anyorder.spans import MaskPositions, span_of

if TYPE_CHECKING:
    from anyorder.model.loaded import Model


class Ranked(NamedTuple):
    """A candidate and its joint log-density in nats."""

    text: str
    log_prob: float


class _Question(NamedTuple):
    """A passage whose targets are to be scored, their order, and what could not have been drawn."""

    passage: Passage
    permutation: Tensor
    forbidden: tuple[str, ...]


def log_prob(
    text: str | InfillResult,
    mask_positions: MaskPositions | None = None,
    *,
    model: Model | None = None,
    order: TargetOrder = None,
    context: Context = "full",
) -> float:
    """The joint log-density, in nats, of the named parts of a text given the rest, in one pass.

    Args:
        text: a text, or a result of ``infill``, which is scored with its own tokens, order and forbidden strings and
            gives its ``log_prob`` again. Its text and spans may not: a fill of nothing but the space
            its blank owns is an empty span of the text, which has no token to score.
        mask_positions: which parts, as for ``infill``; not for a result.
        model: what ``anyorder.load`` returned; the bundled default model if ``None``.
        order: the order of the chain rule, as for ``infill``; ``"random"`` is the permutation that seed 0 draws.
        context: ``"crop"`` shows the model a window around each part of a text longer than it takes.

    Raises:
        TypeError: for a value of the wrong kind, or if the parts are not named.
        ValueError: for positions or an order that do not fit the text, or a text the model cannot take.
    """
    return math.fsum(token_log_probs(text, mask_positions, model=model, order=order, context=context))


def token_log_probs(
    text: str | InfillResult,
    mask_positions: MaskPositions | None = None,
    *,
    model: Model | None = None,
    order: TargetOrder = None,
    context: Context = "full",
) -> list[float]:
    """The terms of ``log_prob``, one a token of the named parts, in text order; see there for the arguments."""
    chosen = resolve_model(model)
    question = _question(text, mask_positions, InfillOptions(order=order, context=context), chosen)
    return _answer([question], chosen)[0]


def log_prob_batch(
    texts: Sequence[str] | Sequence[InfillResult],
    mask_positions: MaskPositions | Sequence[MaskPositions | None] | None = None,
    *,
    model: Model | None = None,
    order: TargetOrder | Sequence[TargetOrder] = None,
    context: Context | Sequence[Context] = "full",
) -> list[float]:
    """``log_prob`` of many texts in as few passes as memory allows; options are one value, or a list with one a text.

    Raises:
        TypeError: as ``log_prob``, or if ``texts`` is a single text.
        ValueError: as ``log_prob``, or if a list of options has not one value a text.
    """
    check_texts(texts)
    chosen = resolve_model(model)
    given = {"mask_positions": mask_positions, "order": order, "context": context}
    columns = {name: spread(name, value, len(texts)) for name, value in given.items()}
    questions = [
        _question(text, positions, InfillOptions(order=one_order, context=one_context), chosen)
        for text, positions, one_order, one_context in zip(texts, *columns.values(), strict=True)
    ]
    return [math.fsum(terms) for terms in _answer(questions, chosen)]


def rank(
    text: str,
    span: tuple[int, int] | slice,
    candidates: Sequence[str],
    *,
    model: Model | None = None,
    order: TargetOrder = None,
    context: Context = "full",
) -> list[Ranked]:
    """What could stand at a place of a text, most likely first, scored in one batched pass.

    Joint densities of texts of different length compare as densities do: a shorter candidate has fewer factors, and the
    empty one has none, so its log-density is 0.

    Args:
        text: the text; what stands at ``span`` does not matter.
        span: the characters that each candidate replaces.
        candidates: the texts to compare.
        model: what ``anyorder.load`` returned; the bundled default model if ``None``.
        order: the order of the chain rule, as for ``log_prob``.
        context: as for ``log_prob``.

    Returns:
        ``(text, log_prob)`` pairs, sorted by ``log_prob``; equal ones in the order they were given.

    Raises:
        TypeError: if ``span`` is not one pair or slice, or ``candidates`` not a list of strings.
        ValueError: for a span outside the text, or a text the model cannot take.
    """
    chosen = resolve_model(model)
    options = InfillOptions(order=order, context=context)
    if isinstance(candidates, str) or not isinstance(candidates, Sequence):
        raise TypeError(f"candidates must be a list of strings; got {candidates!r:.80}")
    start, end = span_of(span, len(_checked(text)))
    layouts = [
        chosen.codec.layout(text[:start] + candidate + text[end:], [(start, start + len(candidate))])
        for candidate in map(_checked, candidates)
    ]
    longest = max((len(layout.blanks[0].ids) for layout in layouts), default=0)
    # The margin gives every candidate the same window of a cropped text.
    questions = [_ask(layout, options, chosen, margin=longest - len(layout.blanks[0].ids)) for layout in layouts]
    scores = [math.fsum(terms) for terms in _answer(questions, chosen)]
    ranked = [Ranked(candidate, score) for candidate, score in zip(candidates, scores, strict=True)]
    return sorted(ranked, key=lambda one: -one.log_prob)


def _question(
    text: str | InfillResult, mask_positions: MaskPositions | None, options: InfillOptions, model: Model
) -> _Question:
    if isinstance(text, InfillResult):
        return _ask_again(text, mask_positions, options, model)
    if mask_positions is None:
        raise TypeError("mask_positions must say which part of the text to score, for instance [(4, 9)]; got None")
    blanked = blanks.find(text, mask_positions, options.marker, model.codec)
    return _ask(blanks.lay_out(blanked, model.codec, options.forbidden_strings()), options, model)


def _ask(layout: Layout, options: InfillOptions, model: Model, *, margin: int = 0) -> _Question:
    """About the text that stands in the blanks of a layout."""
    contents = [blank.ids for blank in layout.blanks]
    crop = options.context == "crop"
    passage = assemble(layout, contents, max_length=model.max_length, crop=crop, margin=margin)
    return _Question(passage, target_permutation(passage, options.order, model, seed=0), ())


def _ask_again(
    result: InfillResult, mask_positions: MaskPositions | None, options: InfillOptions, model: Model
) -> _Question:
    """About what ``infill`` filled in, with the tokens it was filled with."""
    if mask_positions is not None:
        raise TypeError("a result is scored at its own blanks: leave mask_positions out, or pass result.text")
    if not _is_same(result.model, model.name):
        raise ValueError(f"the result came from model {result.model!r}: pass that as model=, not {model.name!r}")
    own = torch.tensor(result.order, dtype=torch.long)
    permutation = own if options.order is None else target_permutation(result.passage, options.order, model, seed=0)
    return _Question(result.passage, permutation, tuple(result.forbidden))


def _is_same(one: str, other: str) -> bool:
    """Whether two names mean the same model: equal ones, or paths of one directory."""
    return one == other or (os.path.isdir(one) and os.path.isdir(other) and os.path.samefile(one, other))


def _answer(questions: Sequence[_Question], model: Model) -> list[list[float]]:
    """The log-density of every target, in text order, for each question."""
    answers: list[list[float]] = [[] for _ in questions]
    for strings in dict.fromkeys(question.forbidden for question in questions):
        forbidden = exclude(model, strings)
        group = [number for number, question in enumerate(questions) if question.forbidden == strings]
        passages = [questions[number].passage for number in group]
        lengths, targets = [len(each.tokens) for each in passages], [each.num_targets for each in passages]
        for rows in batches(lengths, targets, model.network.vocab_size):
            numbers = [group[row] for row in rows]
            for number, values in zip(numbers, _score([questions[n] for n in numbers], forbidden, model), strict=True):
                answers[number] = values
    return answers


@torch.no_grad()
def _score(questions: Sequence[_Question], forbidden: Forbidden, model: Model) -> list[list[float]]:
    passages = [question.passage for question in questions]
    permutations = [question.permutation for question in questions]
    batch = collate(passages, permutations, padding_id=model.codec.mask_id)
    tokens, bans = batch.order.to_steps(batch.tokens), forbidden.within(batch.blank, batch.spaced)
    with torch.autocast(model.device.type, enabled=False):  # as in ``decode``
        terms = joint_log_prob(model.network, tokens, batch.order, forbidden=bans)
    if bool(terms.isnan().any()):
        raise ValueError(NO_NUMBERS)
    by_position = batch.order.to_positions(terms.cpu()).tolist()
    return [
        list(passage.at_targets(row[: len(passage.tokens)])) for passage, row in zip(passages, by_position, strict=True)
    ]


def _checked(text: object) -> str:
    if not isinstance(text, str):
        raise TypeError(f"a text must be a string; got {type(text).__name__}")
    return text
