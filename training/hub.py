"""Documents of the Hugging Face Hub (or of files too large for memory), streamed, in the order they are stored.

``datasets`` knows where a stream is and finds the place again (``state_dict``), and deals a stream's files or examples
to shards; this module adds the split and an error that says what works without a network.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from training.documents import Block, Cursor, is_held_out

if TYPE_CHECKING:
    from datasets import IterableDataset

PATIENCE = 10.0
"""Seconds to wait for the Hub's first answer; its own client retries for minutes."""


class HubName(NamedTuple):
    """A dataset under the name people use."""

    repository: str
    config: str | None = None
    folder: str | None = None


KNOWN = {
    "openwebtext": HubName("Skylion007/openwebtext"),
    "starcoder": HubName("bigcode/starcoderdata", folder="python"),
    "wikitext": HubName("Salesforce/wikitext", config="wikitext-103-raw-v1"),
}
"""The datasets that ``--data`` knows by a short name."""

TEXT_COLUMNS = ("text", "content", "code", "story", "document")
"""Where datasets keep their text, most usual first."""


@dataclass(kw_only=True)
class StreamedDocuments:
    """Documents of a stream.

    Attributes:
        stream: of ``datasets``.
        column: which column holds the text.
        held_out_share: share of documents on the held-out side.
        min_characters: shorter documents are left out.
    """

    stream: IterableDataset
    column: str
    held_out_share: float
    min_characters: int
    _first: dict[tuple[int, bool], list[str]] = field(default_factory=dict)

    def blocks(self, _epoch: int, shard: int, num_shards: int, size: int, cursor: Cursor = None, /) -> Iterator[Block]:
        """See ``Documents.blocks``; every epoch is in the same order, only blocks are shuffled differently."""
        from datasets.distributed import split_dataset_by_node

        mine = split_dataset_by_node(self.stream, rank=shard, world_size=num_shards)
        if cursor is not None:
            mine.load_state_dict(cursor)
        texts = self._side(mine, held_out=False)
        while True:
            start = mine.state_dict()
            block = list(islice(texts, size))
            if not block:
                return
            yield Block(start, block)

    def first(self, count: int, *, held_out: bool) -> list[str]:
        """See ``Documents.first``: the first ones of the stream."""
        if (count, held_out) not in self._first:
            self._first[count, held_out] = list(islice(self._side(self.stream, held_out=held_out), count))
        return self._first[count, held_out]

    def _side(self, stream: IterableDataset, *, held_out: bool) -> Iterator[str]:
        """The texts of one side; not by ``iter(stream)``, which would deal them to loader workers once more."""
        for rows in stream.iter(batch_size=1):
            text = rows[self.column][0]
            if len(text) >= self.min_characters and is_held_out(text, self.held_out_share) == held_out:
                yield text


def open_hub(name: str, config: str | None, offline: str) -> IterableDataset:
    """A stream of a dataset's training split: from the Hub, from a local copy laid out like it, or from its cache.

    Args:
        name: a known name, ``owner/name``, or such a directory (what ``datasets`` takes).
        config: the dataset's configuration.
        offline: what works without the Hub, for the error.

    Raises:
        ValueError: if it cannot be had, or ``datasets`` is not installed.
    """
    try:
        from datasets import load_dataset
    except ModuleNotFoundError:
        raise ValueError(
            f"--data {name} is streamed by the package datasets, which is not installed: pip install "
            f"'anyorder[corpora]' (from a clone '.[corpora]')\n{offline}"
        ) from None
    known = KNOWN.get(name, HubName(name))
    try:
        source = _locate(known.repository)
        stream = load_dataset(source, config or known.config, data_dir=known.folder, split="train", streaming=True)
        next(iter(stream.iter(batch_size=1)))
    except Exception as error:  # datasets' own, fsspec's, httpx's or OSError, depending on what fails
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ValueError(f"cannot stream {name!r} ({known.repository}) from the Hub: {reason}\n{offline}") from None
    return stream


def _locate(repository: str) -> str:
    """What ``load_dataset`` is to read: a local copy, the Hub if it answers, else what was downloaded before.

    Raises whatever the Hub's client raises if there is none of them.
    """
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    if Path(repository).is_dir():
        return repository
    try:
        HfApi().dataset_info(repository, timeout=PATIENCE)
    except HfHubHTTPError:
        raise
    except Exception as silence:  # no network, or told not to use it
        try:
            return str(snapshot_download(repository, repo_type="dataset", local_files_only=True))
        except Exception:
            raise silence from None
    return repository


def find_column(stream: IterableDataset, wanted: str | None) -> str:
    """The column that holds the text.

    Raises:
        ValueError: if there is none by that name, or by any usual one.
    """
    columns = list(stream.column_names or next(iter(stream.iter(batch_size=1)), {}))
    for name in (wanted,) if wanted else TEXT_COLUMNS:
        if name in columns:
            return name
    raise ValueError(
        f"the data has no column {wanted!r}" if wanted else "no column looks like the text; name it by --text_column"
    ) from None
