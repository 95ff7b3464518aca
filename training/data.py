"""The data module: loaders of micro-batches, and the place in the data that a checkpoint keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from lightning.pytorch import LightningDataModule
from torch.utils.data import DataLoader

from anyorder.codec.base import Codec
from training.config import FitConfig
from training.documents import Documents
from training.stream import Batch, Place, RankStream, Recipe


class FitData(LightningDataModule):
    """Documents to steps' micro-batches for whatever rank this is.

    Attributes:
        consumed: micro-batches trained on, over all ranks.
        places: where each shard goes on that this rank has read.
    """

    def __init__(self, documents: Documents, codec: Codec, characters_per_token: float, config: FitConfig) -> None:
        super().__init__()
        self.documents, self.codec, self.config = documents, codec, config
        self.characters_per_token = characters_per_token
        self.consumed = 0
        self.places: dict[int, Place] = {}
        self._restored: dict[int, Place] = {}

    def train_dataloader(self) -> Steps:
        """The steps of this rank, from where the run is."""
        ranks, rank = self.trainer.world_size, self.trainer.global_rank  # type: ignore[union-attr]
        data = self.config.data
        readers = ranks * max(data.num_workers, 1)
        num_shards = data.shards or readers
        if num_shards % readers:
            raise ValueError(f"--shards {num_shards} must be a multiple of ranks x workers, which is {readers}")
        recipe = Recipe(
            documents=self.documents,
            codec=self.codec,
            data=data,
            objective=self.config.objective,
            num_shards=num_shards,
            step_batches=ranks * data.accumulate,
            characters_per_token=self.characters_per_token,
            seed=self.config.run.seed,
        )
        stream = RankStream(recipe, rank=rank, num_ranks=ranks, consumed=self.consumed, places=self._restored)
        return Steps(
            DataLoader(stream, batch_size=None, num_workers=data.num_workers, collate_fn=_as_is), data.accumulate
        )

    def record(self, places: list[tuple[int, Place]]) -> None:
        """A step was done on micro-batches from these shards, which go on there."""
        self.consumed += len(places) * self.trainer.world_size  # type: ignore[union-attr]
        self.places |= dict(places)

    def state_dict(self) -> dict[str, Any]:
        """Where all shards go on; every rank must call it."""
        parts: list[Any] = [self.places]
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            parts = [None] * torch.distributed.get_world_size()
            torch.distributed.all_gather_object(parts, self.places)
        places = {shard: place for part in (self._restored, *parts) for shard, place in part.items()}
        return {"consumed": self.consumed, "places": places}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there, with any number of ranks and workers that divides the number of shards."""
        self.consumed, self._restored = state_dict["consumed"], state_dict["places"]


class Steps:
    """A loader's micro-batches, as many at a time as a step takes."""

    def __init__(self, loader: DataLoader[Batch], size: int) -> None:
        self.loader, self.size = loader, size

    def __iter__(self) -> Iterator[list[Batch]]:
        batches = iter(self.loader)
        while True:
            yield [next(batches) for _ in range(self.size)]


def _as_is(batch: Any) -> Any:
    return batch
