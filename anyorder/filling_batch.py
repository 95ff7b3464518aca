"""``infill_batch``: many texts at once, each with its own options if need be.

A pass serves every text of a batch, and what becomes of a text depends neither on its neighbours nor on how many there
are.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, overload

from anyorder.decoding import Method
from anyorder.default import resolve_model
from anyorder.drafting import Drafter
from anyorder.options import Context, ForbiddenStrings, InfillOptions, Length, TargetOrder
from anyorder.per_text import check_texts, spread
from anyorder.prepare import Request, prepare
from anyorder.progress import OnProgress, reporting
from anyorder.result import InfillResult, Samples
from anyorder.sample import fill
from anyorder.spans import MaskPositions

if TYPE_CHECKING:
    from anyorder.model.loaded import Model

Option = TypeVar("Option")
PerText: TypeAlias = Option | Sequence[Option]
"""One value for all texts, or a sequence with one value a text."""


@overload
def infill_batch(  # type: ignore[overload-overlap]
    texts: Sequence[str],
    mask_positions: PerText[MaskPositions | None] = ...,
    *,
    model: Model | None = ...,
    length: PerText[Length] = ...,
    method: PerText[Method] = ...,
    draft_length: PerText[int | None] = ...,
    temperature: PerText[float] = ...,
    top_k: PerText[int | None] = ...,
    top_p: PerText[float | None] = ...,
    n: Literal[1] = ...,
    seed: PerText[int | None] = ...,
    order: PerText[TargetOrder] = ...,
    drafter: PerText[Literal["self", "ngram"] | Drafter] = ...,
    forbidden: PerText[ForbiddenStrings] = ...,
    marker: PerText[str | None] = ...,
    steps: PerText[int] = ...,
    context: PerText[Context] = ...,
    progress: bool | OnProgress = ...,
) -> list[InfillResult]: ...


@overload
def infill_batch(
    texts: Sequence[str],
    mask_positions: PerText[MaskPositions | None] = ...,
    *,
    model: Model | None = ...,
    length: PerText[Length] = ...,
    method: PerText[Method] = ...,
    draft_length: PerText[int | None] = ...,
    temperature: PerText[float] = ...,
    top_k: PerText[int | None] = ...,
    top_p: PerText[float | None] = ...,
    n: int,
    seed: PerText[int | None] = ...,
    order: PerText[TargetOrder] = ...,
    drafter: PerText[Literal["self", "ngram"] | Drafter] = ...,
    forbidden: PerText[ForbiddenStrings] = ...,
    marker: PerText[str | None] = ...,
    steps: PerText[int] = ...,
    context: PerText[Context] = ...,
    progress: bool | OnProgress = ...,
) -> list[Samples]: ...


@overload
def infill_batch(
    texts: Sequence[str],
    mask_positions: PerText[MaskPositions | None] = ...,
    *,
    model: Model | None = ...,
    length: PerText[Length] = ...,
    method: PerText[Method] = ...,
    draft_length: PerText[int | None] = ...,
    temperature: PerText[float] = ...,
    top_k: PerText[int | None] = ...,
    top_p: PerText[float | None] = ...,
    n: Sequence[int],
    seed: PerText[int | None] = ...,
    order: PerText[TargetOrder] = ...,
    drafter: PerText[Literal["self", "ngram"] | Drafter] = ...,
    forbidden: PerText[ForbiddenStrings] = ...,
    marker: PerText[str | None] = ...,
    steps: PerText[int] = ...,
    context: PerText[Context] = ...,
    progress: bool | OnProgress = ...,
) -> list[InfillResult | Samples]: ...


def infill_batch(  # noqa: PLR0913, D417 - the public contract; the options are described once, at infill
    texts: Sequence[str],
    mask_positions: PerText[MaskPositions | None] = None,
    *,
    model: Model | None = None,
    length: PerText[Length] = "same",
    method: PerText[Method] = "one-pass",
    draft_length: PerText[int | None] = None,
    temperature: PerText[float] = 1.0,
    top_k: PerText[int | None] = None,
    top_p: PerText[float | None] = None,
    n: PerText[int] = 1,
    seed: PerText[int | None] = None,
    order: PerText[TargetOrder] = None,
    drafter: PerText[Literal["self", "ngram"] | Drafter] = "self",
    forbidden: PerText[ForbiddenStrings] = None,
    marker: PerText[str | None] = "<mask>",
    steps: PerText[int] = 1,
    context: PerText[Context] = "full",
    progress: bool | OnProgress = False,
) -> list[InfillResult] | list[Samples] | list[InfillResult | Samples]:
    """Fill the blanks of many texts at once; what becomes of one does not depend on the others.

    Every option of ``anyorder.infill`` is one value for all texts or a list with one value a text. Where a value is
    itself a list (spans, token indices, forbidden strings, a permutation), such a list is one value for all, and a list
    of lists is one a text; a list of lengths is always one a text. An int as ``seed`` is the first seed of every text.

    Args:
        texts: the texts; of any lengths.
        mask_positions: as for ``infill``; see above.
        model: what ``anyorder.load`` returned; the bundled default model if ``None``.
        length: see ``infill``; also for every option not listed here.
        n: how many samples of each text.
        progress: a bar on the terminal, or a function that is told after every round.

    Returns:
        One result a text, in the order of the texts; for a text with ``n > 1`` a list of them, most likely first.

    Raises:
        TypeError: as ``infill``, or if ``texts`` is a single string.
        ValueError: as ``infill``, naming the text, or if a list of options has not one value a text.
    """
    columns: dict[str, Any] = {
        "mask_positions": mask_positions,
        "length": length,
        "method": method,
        "draft_length": draft_length,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "n": n,
        "seed": seed,
        "order": order,
        "drafter": drafter,
        "forbidden": forbidden,
        "marker": marker,
        "steps": steps,
        "context": context,
    }
    check_texts(texts)
    columns = {name: spread(name, value, len(texts)) for name, value in columns.items()}
    model = resolve_model(model)
    requests = [
        _prepare(number, text, {name: column[number] for name, column in columns.items()}, model)
        for number, text in enumerate(texts)
    ]
    for number, request in enumerate(requests):
        if request.remark:
            warnings.warn(f"text {number}: {request.remark}", stacklevel=2)
    with reporting(progress) as tell:
        filled = fill(requests, model, tell)
    return [samples if request.options.n > 1 else samples[0] for request, samples in zip(requests, filled, strict=True)]


def _prepare(number: int, text: str, options: dict[str, Any], model: Model) -> Request:
    """The request of one text; an error says which text it is about."""
    positions = options.pop("mask_positions")
    try:
        return prepare(text, positions, InfillOptions(**options), model)
    except (TypeError, ValueError) as error:
        raise type(error)(f"text {number}: {error}") from error
