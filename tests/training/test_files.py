"""A kill at any moment of writing leaves the old content or the new, whole."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from training.files import replace_directory, restore_directory, write_atomically


class KilledError(Exception):
    """What ends a write."""


def killing(function: Callable[..., Any], left: list[int]) -> Callable[..., Any]:
    """The function, until as many calls are over as are left."""

    def call(*arguments: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise KilledError
        return function(*arguments, **options)

    return call


def write(text: str) -> Callable[[Path], None]:
    """Writes a directory of two files."""

    def into(directory: Path) -> None:
        directory.mkdir()
        for name in "ab":
            Path.write_text(directory / name, text)

    return into


def whole(directory: Path) -> str:
    """What both files say."""
    (text,) = {(directory / name).read_text() for name in "ab"}
    return text


def test_a_directory_is_replaced(tmp_path: Path) -> None:
    for text in ("old", "new"):
        replace_directory(tmp_path / "best", write(text))
        assert whole(tmp_path / "best") == text
        assert [path.name for path in tmp_path.iterdir()] == ["best"]


def test_a_directory_that_a_kill_left_under_another_name_is_given_its_own(tmp_path: Path) -> None:
    restore_directory(tmp_path / "best")
    assert list(tmp_path.iterdir()) == []
    write("old")(tmp_path / "best.old")
    restore_directory(tmp_path / "best")
    assert whole(tmp_path / "best") == "old"
    write("older")(tmp_path / "best.old")
    restore_directory(tmp_path / "best")
    assert whole(tmp_path / "best") == "old"


@pytest.mark.parametrize("first", range(9))
@pytest.mark.parametrize("second", range(9))
def test_a_directory_survives_two_kills(
    first: int, second: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = tmp_path / "best"
    replace_directory(best, write("old"))
    for calls in (first, second):
        with monkeypatch.context() as patch:
            left = [calls]
            patch.setattr(shutil, "rmtree", killing(shutil.rmtree, left))
            patch.setattr(Path, "rename", killing(Path.rename, left))
            patch.setattr(Path, "mkdir", killing(Path.mkdir, left))
            patch.setattr(Path, "write_text", killing(Path.write_text, left))
            with suppress(KilledError):
                replace_directory(best, write("new"))
        found = best if best.exists() else best.with_name("best.old")
        assert whole(found) in ("old", "new")
    replace_directory(best, write("newest"))
    assert whole(best) == "newest"
    assert [path.name for path in tmp_path.iterdir()] == ["best"]


def test_a_file_that_is_not_written_whole_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomically(tmp_path / "file", b"old")
    with monkeypatch.context() as patch:
        patch.setattr("training.files.os.fsync", killing(lambda _: None, [0]))
        with pytest.raises(KilledError):
            write_atomically(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"
    write_atomically(tmp_path / "file", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"new"
