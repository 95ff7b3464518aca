"""Many texts: a file of JSON lines in, a file of JSON lines out, resumable after a kill without losing one.

Results are written in input order, all samples of a text in one write that reaches the disk before the next text's;
each carries the number of its input line, its sample's number and how many samples that line has. A run that was killed
left complete lines and at most one torn end, which ``--resume`` cuts off before it goes on where the file stops.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from anyorder.cli.values import to_json
from anyorder.spans import MaskPositions

if TYPE_CHECKING:
    from anyorder import InfillResult, Model

Task = dict[str, Any]
"""One text with its options, as keyword arguments of ``anyorder.infill``."""


class Done(NamedTuple):
    """How many input lines an output file answers, and how many of them could not be used."""

    lines: int
    failures: int


def run(arguments: argparse.Namespace, positions: MaskPositions | None, options: dict[str, Any]) -> int:
    """``anyorder infill --jsonl IN --out OUT``; 0 if every line was filled, 2 if some could not be used."""
    if arguments.text is not None or arguments.file is not None:
        raise ValueError("--jsonl IN replaces the text argument and --file: give one of them")
    if arguments.out is None:
        raise ValueError("--jsonl needs --out OUT, where the results go")
    if arguments.json or arguments.trace:
        raise ValueError("--json and --trace are for one text; --jsonl always writes JSON, with the trace in it")
    if arguments.batch_size < 1:
        raise ValueError(f"--batch-size must be at least 1; got {arguments.batch_size}")
    lines = Path(arguments.jsonl).read_bytes().removesuffix(b"\n").split(b"\n")
    tasks = [_read_task(line, number, {**options, "mask_positions": positions}) for number, line in enumerate(lines)]
    out = Path(arguments.out)
    if out.exists() and not arguments.resume:
        raise ValueError(f"{out} exists: pass --resume to continue it, or name another file")
    done = recover(out) if out.exists() else Done(0, 0)
    if done.lines > len(tasks):
        raise ValueError(
            f"{out} has results of {done.lines} lines, but {arguments.jsonl} has {len(tasks)}: not its output"
        )
    return _fill(tasks, done, out, arguments)


def recover(out: Path) -> Done:
    """What is finished in ``out``; what a killed run left unfinished at its end is cut off.

    Raises:
        ValueError: if the file holds anything but the output of this command, which is then left as it is.
    """
    finished = failed = end = position = 0
    with out.open("rb") as file:
        for line in file:
            position += len(line)
            if not line.endswith(b"\n"):
                break
            try:
                entry = json.loads(line)
                index, sample, of = entry["index"], entry["sample"], entry["num_samples"]
            except (ValueError, TypeError, KeyError):
                raise ValueError(f"{out} is not the output of --jsonl (at byte {position - len(line)})") from None
            if index != finished:
                raise ValueError(f"{out} is not the output of --jsonl: line {finished} is followed by line {index}")
            if sample == of - 1:
                finished, end = finished + 1, position
                failed += "error" in entry
    os.truncate(out, end)
    return Done(finished, failed)


def _fill(tasks: Sequence[Task | ValueError], done: Done, out: Path, arguments: argparse.Namespace) -> int:
    from tqdm import tqdm

    from anyorder.cli.commands import load_model

    model = load_model(arguments)
    failures = done.failures
    with out.open("ab", buffering=0) as file, tqdm(total=len(tasks), initial=done.lines, unit="text") as bar:
        for start in range(done.lines, len(tasks), arguments.batch_size):
            batch = tasks[start : start + arguments.batch_size]
            for number, samples in enumerate(_results(batch, model), start=start):
                failures += isinstance(samples, ValueError)
                _append(file, number, samples)
            bar.update(len(batch))
    return 2 if failures else 0


def _results(batch: Sequence[Task | ValueError], model: Model) -> Iterator[list[InfillResult] | ValueError]:
    """The samples of each task, or why it cannot be used; one unusable task does not spoil its batch."""
    import anyorder

    usable = [task for task in batch if not isinstance(task, ValueError)]
    try:
        filled = iter(_fill_together(usable, model))
    except (ValueError, TypeError):
        filled = None
    for task in batch:
        if isinstance(task, ValueError):
            yield task
        elif filled is not None:
            yield next(filled)
        else:
            try:
                found = anyorder.infill(model=model, **task)
                yield found if isinstance(found, list) else [found]
            except (ValueError, TypeError) as error:
                yield ValueError(str(error))


def _fill_together(tasks: Sequence[Task], model: Model) -> list[list[InfillResult]]:
    import anyorder

    if not tasks:
        return []
    columns: dict[str, Any] = {name: [task[name] for task in tasks] for name in tasks[0]}
    texts = columns.pop("text")
    found: list[Any] = anyorder.infill_batch(texts, model=model, **columns)
    return [samples if isinstance(samples, list) else [samples] for samples in found]


def _append(file: BinaryIO, index: int, samples: list[InfillResult] | ValueError) -> None:
    """Everything of one input line in one write, on the disk before the next."""
    if isinstance(samples, ValueError):
        entries: list[dict[str, Any]] = [{"error": str(samples)}]
    else:
        entries = [result.to_dict() for result in samples]
    labelled = [
        {"index": index, "sample": number, "num_samples": len(entries), **entry} for number, entry in enumerate(entries)
    ]
    file.write("".join(to_json(entry) + "\n" for entry in labelled).encode())
    os.fsync(file.fileno())


def _read_task(line: bytes, number: int, defaults: dict[str, Any]) -> Task | ValueError:
    """One input line over the defaults of the command line; a line that cannot be used becomes its own error."""
    try:
        entry = json.loads(line)
    except ValueError as error:
        return ValueError(f"line {number + 1} is not JSON: {error}")
    if isinstance(entry, str):
        entry = {"text": entry}
    if not isinstance(entry, dict) or "text" not in entry:
        return ValueError(f'line {number + 1} must be a string or an object with a "text"')
    unknown = sorted(set(entry) - set(defaults) - {"text"})
    if unknown:
        return ValueError(f"line {number + 1} has unknown options {unknown}; known are {sorted(defaults)}")
    positions = entry.get("mask_positions")
    if isinstance(positions, list):
        # JSON has no tuples: a list of two is a pair here.
        entry["mask_positions"] = [tuple(item) if isinstance(item, list) else item for item in positions]
    if isinstance(entry.get("forbidden"), str):
        entry["forbidden"] = [entry["forbidden"]]
    return {**defaults, **entry}
