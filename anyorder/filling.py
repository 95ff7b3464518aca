"""``infill``: text with blanks in, completed text out.

Every method but "parallel" draws from the model's joint distribution of all blanks in the declared order, given
everything around them. Whatever is outside the blanks comes back byte for byte.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Literal, overload

from anyorder.decoding import Method
from anyorder.default import resolve_model
from anyorder.drafting import Drafter
from anyorder.options import Context, ForbiddenStrings, InfillOptions, Length, TargetOrder
from anyorder.prepare import prepare
from anyorder.progress import OnProgress, reporting
from anyorder.result import InfillResult, Samples
from anyorder.sample import fill
from anyorder.spans import MaskPositions

if TYPE_CHECKING:
    from anyorder.model.loaded import Model


@overload
def infill(  # type: ignore[overload-overlap]
    text: str,
    mask_positions: MaskPositions | None = ...,
    *,
    model: Model | None = ...,
    length: Length = ...,
    method: Method = ...,
    draft_length: int | None = ...,
    temperature: float = ...,
    top_k: int | None = ...,
    top_p: float | None = ...,
    n: Literal[1] = ...,
    seed: int | None = ...,
    order: TargetOrder = ...,
    drafter: Literal["self", "ngram"] | Drafter = ...,
    forbidden: ForbiddenStrings = ...,
    marker: str | None = ...,
    steps: int = ...,
    context: Context = ...,
    progress: bool | OnProgress = ...,
) -> InfillResult: ...


@overload
def infill(
    text: str,
    mask_positions: MaskPositions | None = ...,
    *,
    model: Model | None = ...,
    length: Length = ...,
    method: Method = ...,
    draft_length: int | None = ...,
    temperature: float = ...,
    top_k: int | None = ...,
    top_p: float | None = ...,
    n: int,
    seed: int | None = ...,
    order: TargetOrder = ...,
    drafter: Literal["self", "ngram"] | Drafter = ...,
    forbidden: ForbiddenStrings = ...,
    marker: str | None = ...,
    steps: int = ...,
    context: Context = ...,
    progress: bool | OnProgress = ...,
) -> Samples: ...


def infill(  # noqa: PLR0913 - the public contract
    text: str,
    mask_positions: MaskPositions | None = None,
    *,
    model: Model | None = None,
    length: Length = "same",
    method: Method = "one-pass",
    draft_length: int | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    n: int = 1,
    seed: int | None = None,
    order: TargetOrder = None,
    drafter: Literal["self", "ngram"] | Drafter = "self",
    forbidden: ForbiddenStrings = None,
    marker: str | None = "<mask>",
    steps: int = 1,
    context: Context = "full",
    progress: bool | OnProgress = False,
) -> InfillResult | Samples:
    """Fill the blanks of a text, exactly as the model's joint distribution has it.

    Args:
        text: the text; its blanks are markers unless ``mask_positions`` says where they are.
        mask_positions: ``(start, end)`` character pairs or slices, or token indices of ``model.tokenize(text)``, of
            which consecutive ones form one blank. Markers in the text are then ordinary text.
        model: what ``anyorder.load`` returned; the bundled default model if ``None``.
        length: tokens of a blank. ``"same"`` is as many as the replaced text has (a marker: what it says,
            else one); an int; one int a blank; or a range, of which the length with the best log-density per token wins
            (all blanks have the same length then; a heuristic, as density per token ignores how likely a length is).
        method: ``"one-pass"``, ``"assd"`` and ``"sequential"`` are lossless and differ only in cost; ``"parallel"``
            decides all targets in ``steps`` passes as if they were independent: not the model's joint.
        draft_length: drafts a round. ``None`` chooses from stored costs and this text's own history; 0 makes no drafts.
        temperature: divides the logits; 0 is greedy.
        top_k: draw only from the k most likely tokens (ties kept).
        top_p: draw only from the smallest set of most likely tokens that reaches this mass.
        n: how many samples. Sample ``j`` is the one that ``seed + j`` gives.
        seed: makes the result repeatable; ``None`` draws one, which the result records.
        order: in which order the targets are decided: ``"ascending"``, ``"random"``, ``"spread"`` or a permutation of
            ``range(number of targets)`` in text order; ``None`` is the model's own policy.
        drafter: ``"self"``, ``"ngram"``, or an object with ``propose`` (see ``anyorder.Drafter``).
        forbidden: a string, or several, that no fill may contain. (XLNet's codecs put white space back after drawing,
            so with them a string of white space alone may.)
        marker: what marks a blank: ``<mask>`` one token, ``<mask:5>`` five, a backslash before it makes it text (and
            disappears). ``None`` switches markers off.
        steps: passes of the method ``"parallel"``.
        context: ``"full"`` refuses a text longer than the model takes; ``"crop"`` shows the model a window around each
            blank instead, and still returns the whole text.
        progress: a bar on the terminal, or a function that is told after every round.

    Returns:
        One result, or with ``n > 1`` a list of them, most likely first, which a notebook shows.

    Raises:
        TypeError: for a value of the wrong kind.
        ValueError: for a value outside what is allowed, or a text the model cannot take.
    """
    options = InfillOptions(
        length=length,
        method=method,
        draft_length=draft_length,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        n=n,
        seed=seed,
        order=order,
        drafter=drafter,
        forbidden=forbidden,
        marker=marker,
        steps=steps,
        context=context,
    )
    if options.steps != 1 and method != "parallel":  # of many texts it may be meant for some
        raise ValueError(f"steps is how many passes method='parallel' takes; got steps={steps} for {method!r}")
    model = resolve_model(model)
    request = prepare(text, mask_positions, options, model)
    if request.remark:
        warnings.warn(request.remark, stacklevel=2)
    with reporting(progress) as tell:
        (samples,) = fill([request], model, tell)
    return samples if n > 1 else samples[0]
