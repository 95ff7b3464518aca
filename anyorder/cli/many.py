"""Many texts: a file of JSON lines in, a file of JSON lines out, resumable after a kill without losing one.

Results are written in input order, all samples of a text in one write that reaches the disk before the next text's;
each carries the number of its input line, its sample's number, how many samples that line has and a fingerprint of what
was asked. A line that cannot be used, an empty one included, has an error for its result, so that every line has one. A
run that was killed left complete lines and at most one torn end, which ``--resume`` cuts off before it goes on where
the file stops, provided that what stands there answers the same lines, options and model.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anyorder.cli.values import to_json
from anyorder.spans import MaskPositions

if TYPE_CHECKING:
    from anyorder import InfillResult, Model
    from anyorder.prepare import Request

Task = dict[str, Any]
"""One text with its options, as keyword arguments of ``anyorder.infill``."""

STANDARD_OUTPUT = ("-", "/dev/stdout")

MODEL_FLAGS = ("model", "revision", "dtype", "weights", "codec", "tokenizer")
"""What decides the results together with a line and the options; the device and the batch size are free to change."""

UNUSABLE = (ValueError, TypeError, OverflowError, MemoryError, RecursionError)
"""What a line's own values can cause, and so no reason to give up the other lines."""


class Line(NamedTuple):
    """One line of the input.

    Attributes:
        task: what to fill, or why the line cannot be used.
        fingerprint: the same for the same line, options and model.
    """

    task: Task | ValueError
    fingerprint: str


class Done(NamedTuple):
    """How many input lines an output file answers, and how many of them could not be used."""

    lines: int
    failures: int


def run(arguments: argparse.Namespace, positions: MaskPositions | None, options: dict[str, Any]) -> int:
    """``anyorder infill --jsonl IN --out OUT``; 0 if every line was filled, 2 if some could not be used."""
    _check_flags(arguments)
    source = sys.stdin.buffer.read() if arguments.jsonl == "-" else Path(arguments.jsonl).read_bytes()
    defaults = {**options, "mask_positions": positions}
    flags = repr(([getattr(arguments, flag) for flag in MODEL_FLAGS], sorted(defaults.items()))).encode()
    # A last line need not end in a newline, and a file of nothing has no line.
    texts = source.removesuffix(b"\n").split(b"\n") if source else []
    lines = [
        Line(_read_task(text, number, defaults), hashlib.sha256(flags + b"\n" + text).hexdigest()[:16])
        for number, text in enumerate(texts, start=1)
    ]
    done = Done(0, 0)
    if arguments.out not in STANDARD_OUTPUT and Path(arguments.out).exists():
        done = recover(Path(arguments.out), [line.fingerprint for line in lines])
    return _fill(lines, done, arguments)


def _check_flags(arguments: argparse.Namespace) -> None:
    if arguments.text is not None or arguments.file is not None:
        raise ValueError("--jsonl IN replaces the text argument and --file: give one of them")
    if arguments.out is None:
        raise ValueError("--jsonl needs --out OUT, where the results go; - is standard output")
    if arguments.json or arguments.trace:
        raise ValueError("--json and --trace are for one text; --jsonl always writes JSON, with the trace in it")
    if arguments.batch_size < 1:
        raise ValueError(f"--batch-size must be at least 1; got {arguments.batch_size}")
    if arguments.out in STANDARD_OUTPUT:
        if arguments.resume:
            raise ValueError("--resume continues a file: name one with --out, not standard output")
        return
    out = Path(arguments.out)
    if out.exists() and not out.is_file():
        raise ValueError(f"--out must name a file, or - for standard output; got {out}, which is none")
    if out.exists() and not arguments.resume:
        raise ValueError(f"{out} exists: pass --resume to continue it, or name another file")


def recover(out: Path, fingerprints: Sequence[str]) -> Done:
    """What is finished in ``out``; what a killed run left unfinished at its end is cut off.

    Args:
        out: the output of an earlier run.
        fingerprints: of every input line of this run.

    Raises:
        ValueError: if the file holds anything but the output of this command for these lines; it is then left as it is.
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
                fingerprint = entry["fingerprint"]
            except (ValueError, TypeError, KeyError, RecursionError):
                raise ValueError(f"{out} is not the output of --jsonl (at byte {position - len(line)})") from None
            if index != finished:
                raise ValueError(f"{out} is not the output of --jsonl: line {finished} is followed by line {index}")
            if index >= len(fingerprints):
                raise ValueError(f"{out} has results of more than the {len(fingerprints)} input lines: not its output")
            if fingerprint != fingerprints[index]:
                raise ValueError(
                    f"{out} answers line {index + 1} for another text, other options or another model: "
                    "--resume needs the same ones; else name another file"
                )
            if sample == of - 1:
                finished, end = finished + 1, position
                failed += "error" in entry
    os.truncate(out, end)
    return Done(finished, failed)


def _fill(lines: Sequence[Line], done: Done, arguments: argparse.Namespace) -> int:
    from anyorder.cli.commands import load_model

    model = load_model(arguments)
    failures = done.failures
    with _writing(arguments.out) as write, _bar(len(lines), done.lines, arguments.progress) as bar:
        for start in range(done.lines, len(lines), arguments.batch_size):
            batch = lines[start : start + arguments.batch_size]
            for number, samples in enumerate(_results([line.task for line in batch], model, start + 1), start=start):
                failures += isinstance(samples, ValueError)
                write(_entries(number, lines[number].fingerprint, samples))
            bar.update(len(batch))
    if failures:
        sys.stderr.write(f"anyorder: {failures} of {len(lines)} lines could not be used; their results say why\n")
    return 2 if failures else 0


def _bar(total: int, initial: int, is_wanted: bool) -> Any:
    """A bar on standard error: where it is wanted, or where somebody watches."""
    from tqdm import tqdm

    return tqdm(total=total, initial=initial, unit="text", disable=None if not is_wanted else False)


def _results(tasks: Sequence[Task | ValueError], model: Model, first: int) -> Iterator[list[InfillResult] | ValueError]:
    """The samples of each task, lines from ``first`` on, or why it cannot be used; none spoils its batch."""
    from anyorder.sample import fill

    prepared = [_prepare(task, model, number) for number, task in enumerate(tasks, start=first)]
    try:
        filled = iter(fill([request for request in prepared if not isinstance(request, ValueError)], model))
    except UNUSABLE:
        filled = None
    for request in prepared:
        if isinstance(request, ValueError):
            yield request
        elif filled is not None:
            yield next(filled)
        else:
            try:
                yield fill([request], model)[0]
            except UNUSABLE as error:
                yield _told(error)


def _prepare(task: Task | ValueError, model: Model, number: int) -> Request | ValueError:
    """A task on its own: what is a value of one text never passes for a list with one value a text."""
    from anyorder.options import InfillOptions
    from anyorder.prepare import prepare

    if isinstance(task, ValueError):
        return task
    options = {name: value for name, value in task.items() if name not in ("text", "mask_positions")}
    try:
        request = prepare(task["text"], task["mask_positions"], InfillOptions(**options), model)
    except UNUSABLE as error:
        return _told(error)
    if request.remark:
        warnings.warn(f"line {number}: {request.remark}", stacklevel=2)
    return request


def _told(error: Exception) -> ValueError:
    """The error as the library words it; one of Python's own needs its name to say anything."""
    return ValueError(str(error) if isinstance(error, ValueError | TypeError) else f"{type(error).__name__}: {error}")


@contextmanager
def _writing(out: str) -> Iterator[Callable[[bytes], None]]:
    """A function that writes all of one input line and returns when it is on the disk, or on its way down a pipe."""
    is_file = out not in STANDARD_OUTPUT
    with Path(out).open("ab", buffering=0) if is_file else nullcontext(sys.stdout.buffer) as stream:

        def write(content: bytes) -> None:
            stream.write(content)
            if is_file:
                os.fsync(stream.fileno())
            else:
                stream.flush()

        yield write


def _entries(index: int, fingerprint: str, samples: list[InfillResult] | ValueError) -> bytes:
    """The results of one input line, a line each."""
    if isinstance(samples, ValueError):
        found: list[dict[str, Any]] = [{"error": str(samples)}]
    else:
        found = [result.to_dict() for result in samples]
    labelled = [
        {"index": index, "sample": number, "num_samples": len(found), "fingerprint": fingerprint, **entry}
        for number, entry in enumerate(found)
    ]
    return "".join(to_json(entry) + "\n" for entry in labelled).encode()


def _read_task(line: bytes, number: int, defaults: dict[str, Any]) -> Task | ValueError:
    """Input line ``number``, from 1, over the defaults of the command line; if unusable it becomes its own error."""
    if not line.strip():
        return ValueError(f'line {number} is empty; every line must be a string or an object with a "text"')
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        return ValueError(f"line {number} is not JSON: {error}")
    if isinstance(entry, str):
        entry = {"text": entry}
    if not isinstance(entry, dict) or "text" not in entry:
        return ValueError(f'line {number} must be a string or an object with a "text"')
    unknown = sorted(set(entry) - set(defaults) - {"text"})
    if unknown:
        return ValueError(f"line {number} has unknown options {unknown}; known are {sorted(defaults)}")
    positions = entry.get("mask_positions")
    if isinstance(positions, list):
        # JSON has no tuples: a list of two is a pair here.
        entry["mask_positions"] = [tuple(item) if isinstance(item, list) else item for item in positions]
    return {**defaults, **entry}
