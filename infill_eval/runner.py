"""A run: ask a model for samples, put them on disk, then score them; any of it can be killed and taken up again.

``run.json`` says what is being run before the first sample; ``samples.jsonl`` gets a line an item as it is sampled;
``metrics.json`` is written when all are scored. The seed of an item depends on the run's seed and the item's name
alone, so neither order, nor ``--limit``, nor a kill changes what any item gets.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infill_eval.estimates import Estimate
from infill_eval.infiller import (
    Budget,
    ChecksRequests,
    Infiller,
    LengthPolicy,
    Request,
    RoundTrips,
    Sample,
    ask,
    describe,
)
from infill_eval.store import SampleFile, StoreError, read_json, write_json
from infill_eval.tasks.base import Filled, Item, Task
from infill_eval.tracking import Track, untracked

_SAMPLES = "samples.jsonl"


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a task is run.

    Attributes:
        samples: samples an item.
        seed: of the whole run.
        limit: only the first so many items.
        length: ``"oracle"``, ``"fixed"`` or ``"range"``.
        tokens: the number of tokens of ``"fixed"``, the numbers of ``"range"``.
        batch: items given to the model at once.
        resume: take up a run in the same directory.
        extra: facts for ``run.json`` that do not change numbers.
    """

    samples: int = 1
    seed: int = 0
    limit: int | None = None
    length: LengthPolicy = "oracle"
    tokens: int | range | None = None
    batch: int = 8
    resume: bool = False
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("samples", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit must be at least 1, got {self.limit}")
        self.budget(("",))

    def budget(self, reference: tuple[str, ...]) -> Budget:
        """The budget of an item with this reference."""
        return Budget(policy=self.length, like=reference if self.length == "oracle" else None, tokens=self.tokens)


def item_seed(seed: int, name: str) -> int:
    """A 48-bit hash of the run's seed and the item's name, so that no two items share random numbers."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:6], "big")


def run(
    task: Task, infiller: Infiller, out: Path, *, options: RunOptions | None = None, track: Track[Any] = untracked
) -> dict[str, Any]:
    """Sample, then score; returns what ``metrics.json`` holds.

    Raises:
        ValueError: if the directory holds another run, or the model returns something that is no answer.
        StoreError: if a file is broken or the disk is full; samples are kept.
    """
    options = options if options is not None else RunOptions()
    every = task.items()
    items = list(every)[: options.limit]
    if isinstance(infiller, ChecksRequests):
        infiller.check_requests([_request(item, options) for item in items])
    settings = _settings(task, infiller, options) | {"items": fingerprint(every)}
    _begin(out, settings, options)
    with SampleFile(out / _SAMPLES) as file:
        for name, samples in file.samples.items():
            if len(samples) != options.samples:
                raise StoreError(f"{file.path} holds {len(samples)} samples of {name}, not {options.samples}")
        missing = [item for item in items if item.id not in file.samples]
        batches = [missing[start : start + options.batch] for start in range(0, len(missing), options.batch)]
        for batch in track(batches, len(batches), f"sampling {settings['model'].get('method', '')}"):
            requests = [_request(item, options) for item in batch]
            for item, samples in zip(batch, ask(infiller, requests), strict=True):
                file.append(item.id, samples)
        filled = [Filled(item, file.samples[item.id]) for item in items]
    metrics = _score(task, filled, infiller, track) | {"settings": settings}
    write_json(out / "metrics.json", metrics)
    return metrics


def fingerprint(items: Sequence[Item]) -> str:
    """A hash of all texts of a task: another data file, or another tokenizer's chunks, is another task."""
    texts = json.dumps([(item.id, item.segments, item.reference) for item in items])
    return hashlib.sha256(texts.encode()).hexdigest()[:16]


def _settings(task: Task, infiller: Infiller, options: RunOptions) -> dict[str, Any]:
    tokens = options.tokens
    length = options.length if tokens is None else f"{options.length} {tokens}"
    return {
        "task": task.describe(),
        "model": describe(infiller),
        "length": length,
        "samples": options.samples,
        "seed": options.seed,
    }


def _begin(out: Path, settings: dict[str, Any], options: RunOptions) -> None:
    """Claim the directory, or check that what is there is the same run."""
    path = out / "run.json"
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{out} cannot be a run's directory: {error.strerror}") from None
    if path.exists() and not options.resume:
        raise ValueError(f"{out} already holds a run: pass --resume to go on with it, or another --out")
    samples = out / _SAMPLES
    if not path.exists() and samples.is_file() and samples.stat().st_size:
        raise ValueError(f"{samples} holds samples, and no run.json says of what: move it away, or pass another --out")
    history: list[Any] = []
    if path.exists():
        before = read_json(path)
        for name, value in settings.items():
            if before.get("settings", {}).get(name) != value:
                was = before.get("settings", {}).get(name)
                raise ValueError(f"{path} belongs to a run with another {name}: {was!r}, not {value!r}")
        history = before.get("runs", [])
    write_json(path, {"settings": settings, "runs": [*history, {"limit": options.limit, **options.extra}]})


def _request(item: Item, options: RunOptions) -> Request:
    return Request(
        id=item.id,
        segments=item.segments,
        budget=options.budget(item.reference),
        n=options.samples,
        seed=item_seed(options.seed, item.id),
    )


def _score(task: Task, filled: Sequence[Filled], infiller: Infiller, track: Track[Any]) -> dict[str, Any]:
    values = task.score(filled, track=track)
    by_item = {entry.item.id: quality | costs(entry.samples) for entry, quality in zip(filled, values, strict=True)}
    rows = {}
    for name, entries in _baselines(filled, infiller) if task.baselines else ():
        rows[name] = summarise(task.score(entries, track=track))
    return {"metrics": summarise(list(by_item.values())), "baselines": rows, "items": by_item}


def _baselines(filled: Sequence[Filled], infiller: Infiller) -> Iterator[tuple[str, list[Filled]]]:
    """What an empty fill, the reference, and the reference after the model's codec would get."""

    def entries(fill: Callable[[str], str]) -> list[Filled]:
        return [Filled(item, [Sample(texts=tuple(map(fill, item.reference)))]) for item, _ in filled]

    yield "empty", entries(lambda _: "")
    yield "oracle", entries(str)
    if isinstance(infiller, RoundTrips):
        yield "oracle after codec", entries(infiller.round_trip)


def costs(samples: Sequence[Sample]) -> dict[str, float]:
    """Means over an item's samples of everything the model counted, and log-density and tokens put in relation."""
    names = {name for sample in samples for name, value in sample.stats.items() if isinstance(value, int | float)}
    means = {name: _mean([float(sample.stats[name]) for sample in samples if name in sample.stats]) for name in names}
    known = [sample for sample in samples if sample.log_prob is not None and sample.stats.get("tokens")]
    if known:
        means["log-density a token"] = _mean([float(s.log_prob or 0.0) / s.stats["tokens"] for s in known])
    if means.get("nfe") and means.get("tokens"):
        means["tokens a pass"] = means["tokens"] / means["nfe"]
    return dict(sorted(means.items()))


def summarise(values: Sequence[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Mean, standard error and number of items of every metric."""
    names = list(dict.fromkeys(name for row in values for name in row))
    return {name: dict(vars(Estimate.of([row[name] for row in values if name in row]))) for name in names}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
