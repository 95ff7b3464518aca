"""The standard library as a corpus: who is held out by default never changes, and the options of ``--data`` hold."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from training import corpus
from training.config import DataConfig
from training.corpus import is_held_out, load_texts
from training.documents import LocalDocuments
from training.sources import open_documents


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Three hundred files, half of them of 200 to 499 characters; their folder has a name, by which they are split."""
    (tmp_path / "library").mkdir()
    files = []
    for number in range(300):
        files.append(tmp_path / "library" / f"{number}.py")
        files[-1].write_text(f"{number:03}" + "x" * (197 + number if number % 2 else 4997), encoding="utf-8")
    monkeypatch.setattr(corpus, "stdlib_files", lambda: files)
    return files


def opened(**options: float) -> LocalDocuments:
    documents = open_documents(DataConfig(data="python-stdlib", **options), seed=0)  # type: ignore[arg-type]
    assert isinstance(documents, LocalDocuments)
    return documents


def test_the_default_split_is_the_one_of_the_bundled_models() -> None:
    paths = [Path(folder) / f"{number}.py" for folder in ("json", "email") for number in range(2000)]
    firsts = [hashlib.sha256("/".join(path.parts).encode()).digest()[0] for path in paths]
    assert [is_held_out(path) for path in paths] == [first % 20 == 0 for first in firsts]
    assert [is_held_out(path, DataConfig().held_out_share) for path in paths] == [first % 20 == 0 for first in firsts]


def test_default_options_give_the_documents_that_benchmarks_read(library: list[Path]) -> None:
    documents = opened()
    assert documents.train == load_texts(held_out=False)
    assert documents.held_out == load_texts(held_out=True)
    texts = [path.read_text(encoding="utf-8") for path in library]
    assert sorted(documents.train + documents.held_out) == [text for text in texts if len(text) > 400]


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_as_many_documents_are_held_out_as_were_asked_for_and_more_hold_out_the_fewer_too(
    library: list[Path], share: float
) -> None:
    del library
    default, asked = opened(), opened(held_out_share=share)
    assert sorted(asked.train + asked.held_out) == sorted(default.train + default.held_out)
    less, more = sorted((default.held_out, asked.held_out), key=len)
    assert set(less) < set(more)
    assert sum(is_held_out(Path(f"x/{n}.py"), share) for n in range(4000)) / 4000 == pytest.approx(share, abs=0.02)


def test_shorter_documents_than_were_asked_for_are_left_out(library: list[Path]) -> None:
    documents = opened(min_characters=450)
    assert {len(text) >= 450 for text in documents.train + documents.held_out} == {True}
    assert len(documents.train + documents.held_out) == sum(path.stat().st_size >= 450 for path in library)
