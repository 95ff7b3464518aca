"""Files and directories that a kill at any moment leaves whole: the old content or the new."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file beside the old one, then let it take its name."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def restore_directory(directory: Path) -> None:
    """Give a directory its name back if a kill of ``replace_directory`` left it with ``.old`` behind it alone."""
    old = directory.with_name(directory.name + ".old")
    if old.is_dir() and not directory.exists():
        old.rename(directory)


def replace_directory(directory: Path, write: Callable[[Path], object]) -> None:
    """Write or replace a directory; a kill leaves the old one or the new one, if only with ``.old`` behind its name.

    Args:
        directory: the one to be there in the end.
        write: writes it into a path that does not exist.
    """
    partial, old = directory.with_name(directory.name + ".partial"), directory.with_name(directory.name + ".old")
    shutil.rmtree(partial, ignore_errors=True)
    write(partial)
    if directory.exists():  # else a kill may have left the old one alone
        shutil.rmtree(old, ignore_errors=True)
        directory.rename(old)
    partial.rename(directory)
    shutil.rmtree(old, ignore_errors=True)
