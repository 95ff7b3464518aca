"""Whether a run goes on from its checkpoint, and whether it still is the same run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

from training.config import RunConfig
from training.files import restore_directory, write_atomically

LAST = "last.ckpt"
"""The checkpoint a run goes on from."""

FREE = frozenset(
    (
        *("out", "resume", "max_steps", "minutes", "clock", "accelerator", "devices", "strategy", "threads"),
        *("logger", "log_every", "checkpoint_every", "validate_every", "validate_minutes", "export_dtype"),
        *("num_workers", "accumulate"),
    )
)
"""Options a run may change when it goes on."""


def is_first_process() -> bool:
    """Whether this process was not started as another rank of a run (Lightning starts those by themselves)."""
    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))) == 0


def open_run(config: RunConfig, values: dict[str, Any]) -> Path | None:
    """Make the run's directory with its ``config.yaml``; returns the checkpoint to go on from, if there is one.

    Args:
        config: where the run is, and whether it may go on.
        values: all options of the run, by name.

    Raises:
        ValueError: if the run in that directory had other options that decide what is learned.
    """
    out = config.out
    out.mkdir(parents=True, exist_ok=True)
    last, path = out / LAST, out / "config.yaml"
    goes_on = config.resume and last.exists()
    for name in ("best", "last"):
        restore_directory(out / name)
    if not is_first_process():  # the first one has made the directory what it is to be
        return last if goes_on else None
    if goes_on:
        before = yaml.safe_load(path.read_text(encoding="utf-8"))
        changed = [
            f"{name} was {before[name]!r}, is {value!r}"
            for name, value in values.items()
            if name in before and name not in FREE and before[name] != value  # an older run may lack an option
        ]
        if changed:
            raise ValueError(
                f"{out} holds a run with other options ({'; '.join(changed)}): choose another --out, give the same "
                "options to go on, or start over with --resume false"
            )
    else:
        for name in (LAST, "log.csv", "data.json", "tokenizer.model"):
            (out / name).unlink(missing_ok=True)
    write_atomically(path, yaml.safe_dump(values, sort_keys=False).encode())
    return last if goes_on else None
