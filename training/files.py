"""Files that a kill at any moment leaves whole: the old content or the new."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file beside the old one, then let it take its name."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
