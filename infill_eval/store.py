"""Files of a run: samples are on disk before anything is scored, one line an item, and survive a kill at any moment.

A line is appended, flushed and synced as a whole; a line that a kill or a full disk cut short is the file's last, has
no newline, and is cut off before the next one is written. Whole JSON files are replaced in one step.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from infill_eval.infiller import Sample


class StoreError(RuntimeError):
    """A file of a run cannot be read or written; says which, why, and what is kept."""


class SampleFile:
    """The samples of a run: read what is there, append what is missing.

    Args:
        path: ``samples.jsonl``; created if missing.

    Attributes:
        samples: what the file holds, by item.

    Raises:
        StoreError: if a line other than a cut-off last one is broken, the file cannot be opened, or another process
            has it open.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by close()
            _claim(self._file.fileno(), path)
            content = path.read_bytes() if path.is_file() else b""
        except OSError as error:
            raise StoreError(f"{path} cannot be opened: {error.strerror}") from None
        self._end = content.rfind(b"\n") + 1
        self.samples = _parse(content[: self._end], path)
        if self._end < len(content):
            self._file.truncate(self._end)

    def append(self, name: str, samples: Sequence[Sample]) -> None:
        """Put an item's samples on disk.

        Raises:
            StoreError: if they cannot be written; what was there before is kept.
        """
        try:
            line = (json.dumps({"id": name, "samples": [sample.to_dict() for sample in samples]}) + "\n").encode()
        except TypeError as error:
            raise StoreError(f"what the model returned for {name} cannot be stored as JSON: {error}") from None
        try:
            written = 0
            while written < len(line):
                written += self._file.write(line[written:])
            with suppress(OSError):  # a device cannot be synced, and need not be
                os.fsync(self._file.fileno())
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(self._end)
            raise StoreError(
                f"{self.path} cannot be written: {error.strerror}; the {len(self.samples)} items before {name} are "
                "kept: make room and run the same command with --resume"
            ) from None
        self.samples[name] = list(samples)
        self._end += len(line)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def __enter__(self) -> SampleFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_samples(path: Path) -> dict[str, list[Sample]]:
    """The samples of a run by item, without claiming or changing the file; none if there is no file.

    Raises:
        StoreError: if the file cannot be read or a line other than a cut-off last one is broken.
    """
    try:
        content = path.read_bytes() if path.is_file() else b""
    except OSError as error:
        raise StoreError(f"{path} cannot be opened: {error.strerror}") from None
    return _parse(content[: content.rfind(b"\n") + 1], path)


def _claim(fd: int, path: Path) -> None:
    """Keep every other process from appending to the file until it is closed, which a kill does too."""
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StoreError(f"{path} is being written by another run: wait for it, or pass another --out") from None
    except OSError:
        return  # a file system without locks


def _parse(content: bytes, path: Path) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for number, line in enumerate(content.splitlines(), 1):
        try:
            record = json.loads(line)
            name, samples = record["id"], [Sample.from_dict(one) for one in record["samples"]]
        except (ValueError, KeyError, TypeError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise StoreError(
                f"{path}, line {number}, is not a sample record ({reason}); the file was not changed"
            ) from None
        if name in found:
            raise StoreError(f"{path}, line {number}, repeats the item {name}; the file was not changed")
        found[name] = samples
    return found


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Replace a JSON file in one step, so that a kill leaves the old one or the new one; what is no number is null.

    Raises:
        StoreError: if it cannot be written.
    """
    text = json.dumps(_finite(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    draft = path.with_name(path.name + ".part")
    try:
        with open(draft, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise StoreError(f"{path} cannot be written: {error.strerror}") from None


def _finite(value: Any) -> Any:
    """The value with null where a float is not finite."""
    if isinstance(value, Mapping):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file.

    Raises:
        StoreError: if the file is missing or holds something else.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StoreError(f"{path} does not exist: is {path.parent} the directory of a finished run?") from None
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} is not a JSON file: {error}") from None
    if not isinstance(value, dict):
        raise StoreError(f"{path} holds no JSON object")
    return value
