"""A comparison as a table a task; what does not pay is said in words, with the numbers that decide it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from infill_eval.comparison.judging import TIE
from infill_eval.comparison.measuring import Row, Took
from infill_eval.comparison.memory import Memory
from infill_eval.comparison.models import Contestant
from infill_eval.comparison.options import CompareOptions
from infill_eval.tables import Table

_NOISE = 0.02
"""A ratio within so much of 1 is neither gain nor loss."""


def table(task: str, rows: Sequence[Row], options: CompareOptions) -> Table:
    """The rows of one task, and under them how to read it and who does not pay."""
    first = rows[0].method
    header = (
        "method",
        "tokens a pass",
        "rows a pass",
        *(name for batch in options.batches for name in (f"ms, batch {batch}", "speed", "pass cost")),
        "pays at",
        "nats",
        "of the truth",
        "first right",
        "exact",
        "dist",
        "as reference",
        "lossless",
        "peak MiB",
        "decoding MiB",
    )
    return Table(
        title=task,
        header=header,
        rows=tuple(_cells(row, options, is_baseline=row is rows[0]) for row in rows),
        notes=(*_legend(first, options), *break_even(rows), *_broken_promises(rows)),
    )


def _cells(row: Row, options: CompareOptions, *, is_baseline: bool) -> tuple[str, ...]:
    times = [row.took[batch] for batch in options.batches]
    equal, ties = row.verdicts["equal"], row.verdicts["tie"]
    return (
        row.method,
        f"{row.tokens_a_pass:.2f}",
        f"{row.rows_a_pass:.1f}",
        *(f"{value:.2f}" for took in times for value in (1e3 * took.seconds_a_token, took.ratio, took.pass_cost)),
        "–"
        if is_baseline
        else ", ".join(str(batch) for batch in options.batches if row.took[batch].ratio > 1 + _NOISE) or "none",
        f"{row.nats:.3f}",
        f"{row.truth_nats:.3f}",
        f"{row.right.mean:.1f}",
        f"{row.exact:.2f}",
        f"{row.distinct:.2f}",
        f"{equal}{f' + {ties} ties' if ties else ''} of {sum(row.verdicts.values())}",
        "yes" if row.is_lossless else "no",
        *_memory_cells(row.memory),
    )


def _memory_cells(memory: Memory | None) -> tuple[str, str]:
    if memory is None:
        return "–", "–"
    return f"{memory.peak / 2**20:.0f}", "–" if memory.decoding is None else f"{memory.decoding / 2**20:.1f}"


def _legend(first: str, options: CompareOptions) -> tuple[str, ...]:
    """What the columns are."""
    drawn = (
        "greedy" if options.temperature == 0 else f"drawn at temperature {options.temperature:g}, seed {options.seed}"
    )
    return (
        f"{options.pieces} pieces, {options.tokens} tokens each behind up to {options.context}, {drawn}; no id ends a "
        "text.",
        f"ms a token over {options.repeats} repeats, in which all methods take turns batch by batch; speed against "
        f"{first}: the median of the ratios within a batch and repeat; pass cost: a pass in passes of {first}, "
        f"T(R) / T(1), R being rows a pass; pays at: batch sizes at which it is more than {_NOISE:.0%} faster than "
        f"{first}.",
        "nats a token under the method's own model, one token at a time (its reference), of what was written and of "
        "what stood there; the latter compares models. An any-subset model gives its special tokens no mass in either.",
        "first right: tokens of the truth before the first wrong one; exact: share of blanks that are the truth; dist: "
        "share of three-token runs that are not repeated.",
        "as reference: greedy texts equal to those of the same model one token at a time; ties part where both "
        f"tokens are within {TIE:g} of its likeliest. The reference's own row counts texts that are the likeliest "
        "token at every place of one pass without a cache. lossless: what the library declares.",
        f"peak: most memory of a fresh process that opens the model and fills one batch of {max(options.batches)}, "
        "libraries included (the kernel's VmHWM); decoding: what filling takes at most beyond the open model.",
    )


def break_even(rows: Sequence[Row]) -> tuple[str, ...]:
    """Where a method does not pay, and why: what a pass costs against how many it saves. A sentence a method."""
    first, losing = rows[0].method, []
    for row in rows[1:]:
        reasons = [f"batch {batch}: {_reason(took)}" for batch, took in row.took.items() if took.ratio < 1 - _NOISE]
        if reasons:
            losing.append(f"{row.method} does not pay here, against {first}. {'; '.join(reasons)}.")
    return tuple(losing) or (f"No method is slower than {first}.",)


def _reason(took: Took) -> str:
    passes = f"{took.fewer_passes:.2f} times fewer passes" if took.fewer_passes > 1 else "no fewer passes"
    return f"{passes}, each of {took.pass_cost:.2f} times the cost ({took.ratio:.2f} ×)"


def _broken_promises(rows: Sequence[Row]) -> tuple[str, ...]:
    """Methods that are declared lossless and wrote another greedy text."""
    broken = [f"{row.method} ({row.verdicts['other']})" for row in rows if row.is_lossless and row.verdicts["other"]]
    return (f"Declared lossless, yet with greedy texts of their own: {', '.join(broken)}.",) if broken else ()


def models_table(contestants: Sequence[Contestant], costs: Mapping[int, float]) -> Table:
    """The models with their sizes, and what rows cost a plain left-to-right one."""
    sizes = [one.parameters for one in contestants]
    rows = tuple((one.source.label, one.source.place, f"{one.parameters / 1e6:.2f}") for one in contestants)
    notes = [f"One vocabulary. The largest has {max(sizes) / min(sizes):.2f} times the parameters of the smallest."]
    if costs:
        relative = ", ".join(f"{rows} rows {took / costs[1]:.2f}" for rows, took in costs.items())
        notes.append(f"T(R) / T(1) of a left-to-right pass at batch 1: {relative}.")
    strangers = _strangers(contestants)
    if strangers:
        notes.append(f"Drafts for another model than AR: {', '.join(strangers)}; its texts are its own base's.")
    return Table(title="models", header=("model", "from", "M parameters"), rows=rows, notes=tuple(notes))


def _strangers(contestants: Sequence[Contestant]) -> list[str]:
    """Views of a base that is not the plain model of the comparison."""
    plain = [one.base for one in contestants if one.source.kind == "causal"]
    views = [one for one in contestants if one.source.kind == "orthrus"]
    return [one.source.label for one in views if plain and one.base != plain[0]]
