"""The command line: reads options, builds a task and a model, runs, reports; the only place that prints.

Exit status 0, 2 for bad input, 1 for everything that went wrong later, 130 after an interrupt (samples are kept).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infill_eval import arguments, left_to_right
from infill_eval.infiller import Infiller
from infill_eval.protocols import REFERENCE_SETTINGS
from infill_eval.provenance import provenance
from infill_eval.report import ReportOptions, Run, tables
from infill_eval.runner import RunOptions, run
from infill_eval.sandbox import SandboxError
from infill_eval.store import StoreError
from infill_eval.tables import Table
from infill_eval.task_choice import chosen_task
from infill_eval.tracking import bar

if TYPE_CHECKING:
    from infill_eval.anyorder_infiller import Decoding


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    options = arguments.parser().parse_args(argv)
    commands = {"report": _report, "speed": _speed, "compare": _compare}
    try:
        commands.get(options.command, _evaluate)(options)
    except (ValueError, SandboxError, ImportError) as error:
        print(f"infill_eval: {error}", file=sys.stderr)  # noqa: T201
        return 2
    except (StoreError, OSError) as error:
        print(f"infill_eval: {error}", file=sys.stderr)  # noqa: T201
        return 1
    except KeyboardInterrupt:
        print("infill_eval: interrupted; --resume goes on from here", file=sys.stderr)  # noqa: T201
        return 130
    return 0


def _evaluate(options: argparse.Namespace) -> None:
    """One task, one or several methods; with several, each gets a directory of its own inside ``--out``."""
    _check_protocol(options)
    compared = ReportOptions(alpha=options.alpha, margin=options.margin)  # wrong ones are refused before hours pass
    infillers = _infillers(options)
    task = chosen_task(options, next(iter(infillers.values())))
    directories = [options.out / name if len(infillers) > 1 else options.out for name in infillers]
    length, tokens = options.length
    settings = RunOptions(
        samples=options.samples,
        seed=options.seed,
        limit=options.limit,
        length=length,
        tokens=tokens,
        batch=options.batch,
        resume=options.resume,
        extra=provenance(sys.argv),
    )
    for infiller, directory in zip(infillers.values(), directories, strict=True):
        run(task, infiller, directory, options=settings, track=bar)
    _show([Run.load(directory) for directory in directories], options.out, compared)


def _check_protocol(options: argparse.Namespace) -> None:
    """The reference protocol fixes how text is sampled; a run that asks for something else is refused."""
    if options.protocol != "reference" or options.infiller:
        return
    asked = {
        "method": options.method,
        "draft_length": options.draft_length,
        "temperature": options.temperature,
        "length": options.length and options.length[0],
    }
    fixed = {**REFERENCE_SETTINGS, "method": [REFERENCE_SETTINGS["method"]]}
    for name, value in fixed.items():
        if asked[name] is not None and asked[name] != value:
            raise ValueError(f"--protocol reference fixes {name} to {REFERENCE_SETTINGS[name]}, not {asked[name]}")
    options.method, options.draft_length = fixed["method"], fixed["draft_length"]


def _infillers(options: argparse.Namespace) -> dict[str, Infiller]:
    """The models to run, by the name of their directory."""
    if options.command in arguments.LEFT_TO_RIGHT:
        left_to_right.check(options)
        if options.causal:
            return left_to_right.infillers(options)
    if options.infiller:
        return {"own": _imported(options.infiller)}
    from infill_eval.anyorder_infiller import AnyorderInfiller

    model = _model(options)
    methods = _decodings(options)
    return {name: AnyorderInfiller(model, decoding) for name, decoding in methods.items()}


def _model(options: argparse.Namespace) -> Any:
    import anyorder

    return anyorder.load(options.model, revision=options.revision, device=options.device)


def _decodings(options: argparse.Namespace) -> dict[str, Decoding]:
    from infill_eval.anyorder_infiller import Decoding

    common = Decoding(
        draft_length=options.draft_length,
        temperature=1.0 if options.temperature is None else options.temperature,
        order=options.order,
        steps=options.steps,
    )
    found = {}
    for name in options.method or ["one-pass"]:
        method, _, drafter = name.partition("+")
        # Only speculative methods have drafts.
        length = common.draft_length if method in ("assd", "one-pass") else None
        found[name] = replace(common, method=method, drafter=drafter or "self", draft_length=length)
    return found


def _imported(path: str) -> Infiller:
    module, _, name = path.partition(":")
    sys.path.insert(0, str(Path.cwd()))  # "." would go on meaning the directory where it was first looked at
    try:
        found: Infiller = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"--infiller must be module:callable, got {path!r}: {error}") from None
    return found


def _report(options: argparse.Namespace) -> None:
    compared = ReportOptions(alpha=options.alpha, margin=options.margin)
    _show([Run.load(directory) for directory in options.runs], options.out, compared)


def _show(runs: Sequence[Run], out: Path, options: ReportOptions) -> None:
    """Tables on the terminal; the same as Markdown, and the pictures, in ``out``."""
    from infill_eval.plots import draw

    _write(tables(runs, options), out)
    _draw(lambda: draw(runs, out))


def _draw(draw: Callable[[], Sequence[Path]]) -> None:
    """Pictures, where there is something to draw them with."""
    try:
        pictures = draw()
    except ModuleNotFoundError:
        print("no pictures: matplotlib is not installed (pip install 'anyorder[eval]')", file=sys.stderr)  # noqa: T201
        return
    for picture in pictures:
        print(picture)  # noqa: T201


def _speed(options: argparse.Namespace) -> None:
    from infill_eval.speed import SpeedOptions, measure, table
    from infill_eval.store import write_json

    settings = SpeedOptions(
        tokens=options.tokens,
        context=options.context,
        batches=tuple(options.batches),
        repeats=options.repeats,
        seed=options.seed,
        recompute=options.recompute,
    )
    model = _model(options)
    methods = list(_decodings(options).values())
    timings = measure(model, methods, _speed_texts(options.data), options=settings, track=bar)
    options.out.mkdir(parents=True, exist_ok=True)
    record = {"timings": [vars(timing) for timing in timings], "options": vars(settings), "run": provenance(sys.argv)}
    write_json(options.out / "speed.json", record)
    _write([table(timings, model.name, settings)], options.out)


def _compare(options: argparse.Namespace) -> None:
    from infill_eval.comparison.command import compare
    from infill_eval.comparison.pictures import draw

    found = compare(options, None if options.data else _speed_texts(None), bar)
    _write(found.tables, options.out)
    _draw(lambda: draw(found.rows, options.out))


def _speed_texts(data: Path | None) -> list[str]:
    """Paragraphs of the user's file, or the programs of HumanEval."""
    if data is None:
        from infill_eval.tasks.humaneval import problems

        whole = {p.task_id.split("/")[2]: p.prompt + p.canonical_solution + p.suffix for p in problems()}
        return sorted(whole.values(), key=len, reverse=True)
    from infill_eval.tasks.wikitext import read_text

    return sorted(read_text(data).split("\n\n"), key=len, reverse=True)


def _write(found: Sequence[Table], out: Path) -> None:
    for table in found:
        print(table.text())  # noqa: T201
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "report.md").write_text("\n".join(table.markdown() for table in found), encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{out / 'report.md'} cannot be written: {error.strerror}") from None
