"""The running Python's standard library as a corpus: no download, split into training and held-out files by name."""

from __future__ import annotations

import hashlib
import random
import sysconfig
from pathlib import Path

SKIPPED = frozenset(
    {"test", "tests", "idle_test", "site-packages", "__pycache__", "ensurepip", "lib2to3", "encodings", "pydoc_data"}
)
"""Directories without ordinary code: tests, vendored copies, and generated tables, whose digits drown everything else
(a model trained with them answers every other blank with a digit)."""


def stdlib_files() -> list[Path]:
    """The standard library's own sources."""
    root = Path(sysconfig.get_path("stdlib"))
    return sorted(
        path
        for path in root.rglob("*.py")
        if not SKIPPED & set(path.relative_to(root).parts) and not path.name.startswith("_sysconfigdata")
    )


def is_held_out(path: Path, share: float = 0.05) -> bool:
    """One file in twenty, or another share; a larger share holds out the files of a smaller one too.

    It goes by a hash of the file's name and its folder's, so the split is the same on every machine.
    """
    digest = hashlib.sha256("/".join(path.parts[-2:]).encode()).digest()
    # For a twentieth the first byte alone decides, as it did for the bundled models: what 20 divides is held out.
    return (digest[0] % 20 + int.from_bytes(digest[1:5], "big") / 2**32) / 20 < share


def load_texts(*, held_out: bool, share: float = 0.05, min_characters: int = 0) -> list[str]:
    """The texts of one side of the split; files of at most 400 characters or not in UTF-8 are left out.

    Args:
        held_out: which side.
        share: of the files that is held out.
        min_characters: leave out shorter ones, too.
    """
    texts = []
    for path in stdlib_files():
        if is_held_out(path, share) == held_out:
            try:
                texts.append(path.read_text(encoding="utf-8"))
            except UnicodeDecodeError:
                continue
    return [text for text in texts if len(text) >= max(min_characters, 401)]


def draw_window(texts: list[str], characters: int, draw: random.Random) -> str:
    """About ``characters`` characters of one file, from the start of a line, half the time an unindented one.

    Files are drawn in proportion to their length.
    """
    text = draw.choices(texts, [len(text) for text in texts])[0]
    start = text.rfind("\n", 0, draw.randrange(len(text))) + 1
    if draw.random() < 0.5:
        while start < len(text) and text[start] in " \n)#":
            start = text.find("\n", start) + 1 or len(text)
    return text[min(start, max(len(text) - characters, 0)) :][:characters]
