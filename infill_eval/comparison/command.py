"""``compare`` as one command: models in, ``compare.json``, tables and pictures out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from anyorder.model.hub import DEFAULT
from infill_eval.comparison.measuring import Row, measure
from infill_eval.comparison.methods import Causal
from infill_eval.comparison.models import Contestant, open_source, shared_codec, sources
from infill_eval.comparison.options import CompareOptions
from infill_eval.comparison.pieces import draw_pieces, read_texts
from infill_eval.comparison.results import models_table, table
from infill_eval.comparison.row_costs import row_costs
from infill_eval.provenance import provenance
from infill_eval.store import write_json
from infill_eval.tables import Table
from infill_eval.tracking import Track, untracked

_ROW_REPEATS = 30


class Compared(NamedTuple):
    """What a comparison found: the rows of each task, and the tables of all."""

    rows: dict[str, list[Row]]
    tables: list[Table]


def compare(options: argparse.Namespace, texts: Sequence[str] | None, track: Track[Any] = untracked) -> Compared:
    """Open the models, draw the pieces, measure, and write ``compare.json``.

    Args:
        options: of the command line, see ``arguments``.
        texts: held-out texts, unless the options name files.
        track: shows progress.

    Raises:
        ValueError: for models or texts that cannot be compared; nothing is measured then.
    """
    settings = CompareOptions.of(options)
    named = sources(
        model=None if options.no_model else options.model or DEFAULT,
        causal=options.causal,
        mars=options.mars,
        orthrus=options.orthrus,
    )
    contestants = [open_source(source, draft_length=settings.draft_length) for source in named]
    pieces = draw_pieces(
        read_texts(options.data) if options.data else texts or (),
        shared_codec(contestants),
        count=settings.pieces,
        context=settings.context,
        tokens=settings.tokens,
        seed=settings.seed,
    )
    options.out.mkdir(parents=True, exist_ok=True)  # what cannot be written is not measured first
    found = {"left-to-right completion": measure(contestants, pieces, settings, track=track)}
    if not options.no_model:
        found["infilling, the same pieces"] = measure(contestants, pieces, settings, infill=True, track=track)
    costs = _costs(contestants, settings)
    write_json(options.out / "compare.json", _record(contestants, costs, found, settings))
    return Compared(
        found, [models_table(contestants, costs), *(table(task, rows, settings) for task, rows in found.items())]
    )


def _record(
    contestants: Sequence[Contestant],
    costs: dict[int, float],
    found: dict[str, list[Row]],
    settings: CompareOptions,
) -> dict[str, Any]:
    """What ``compare.json`` holds."""
    return {
        "models": [{**asdict(one.source), "parameters": one.parameters} for one in contestants],
        "row costs, seconds": costs,
        "rows": {task: [_as_dict(row) for row in rows] for task, rows in found.items()},
        "options": asdict(settings),
        "run": provenance(sys.argv),
    }


def _costs(contestants: Sequence[Contestant], settings: CompareOptions) -> dict[int, float]:
    """What rows cost the first left-to-right model, if there is one."""
    networks = [one.reference.network for one in contestants if isinstance(one.reference, Causal)]
    return row_costs(networks[0], settings.context, _ROW_REPEATS) if networks else {}


def _as_dict(row: Row) -> dict[str, Any]:
    """A row with names for its tuples."""
    took = {str(batch): {**one._asdict(), "pass_cost": one.pass_cost} for batch, one in row.took.items()}
    memory = None if row.memory is None else row.memory._asdict()
    return {**asdict(row), "took": took, "memory": memory}
