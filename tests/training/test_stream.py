"""The stream of micro-batches: nobody sees another's documents, everybody together sees all, and a place is exact."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pytest
import torch
from torch.utils.data import DataLoader

from anyorder.codec import SentencePieceCodec
from training.config import DataConfig, ObjectiveConfig
from training.documents import LocalDocuments, is_held_out
from training.stream import Batch, RankStream, Recipe, collate

DATA = DataConfig(lengths={16: 0.5, 32: 0.5}, tokens_per_step=64, shuffle_buffer=7)


@pytest.fixture(scope="module")
def documents(passages: list[str]) -> list[str]:
    return [passage[:400] for passage in passages[:24]]


@pytest.fixture
def recipe(documents: list[str], codec: SentencePieceCodec) -> Recipe:
    return Recipe(
        documents=LocalDocuments(train=documents, held_out=[], seed=3),
        codec=codec,
        data=DATA,
        objective=ObjectiveConfig(),
        num_shards=4,
        step_batches=2,
        characters_per_token=2.2,
        seed=3,
    )


def batches(recipe: Recipe, *, rank: int = 0, num_ranks: int = 1, workers: int = 0, **place) -> Iterator[Batch]:  # type: ignore[no-untyped-def]
    stream = RankStream(recipe, rank=rank, num_ranks=num_ranks, **{"consumed": 0, "places": {}, **place})
    return iter(DataLoader(stream, batch_size=None, num_workers=workers, collate_fn=lambda batch: batch))


def one_epoch(stream: Iterator[Batch]) -> list[Batch]:
    """Batches until every shard of this reader has begun its second epoch."""
    taken: list[Batch] = []
    done: set[int] = set()
    shards: set[int] = set()
    for batch in stream:
        shards.add(batch.shard)
        if batch.keys[0][0] > 0:
            done.add(batch.shard)
            if done == shards:
                return taken
        else:
            taken.append(batch)
    raise AssertionError


def same(a: Batch, b: Batch) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a[:3], b[:3], strict=True)) and a[3:] == b[3:]


def owners_of(taken: list[Batch], recipe: Recipe, documents: list[str]) -> set[int]:
    """Numbers of the documents whose text the batches hold, by windows of text that only one document has."""
    found = set()
    for batch in taken:
        for tokens, length in zip(batch.tokens, batch.length, strict=True):
            text = recipe.codec.decode(tokens[: int(length)].tolist()).strip("\ufffd")
            owners = [number for number, document in enumerate(documents) if text in document]
            if len(owners) == 1:
                found.add(owners[0])
    return found


@pytest.mark.parametrize("pieces", ["windows", "packed"])
def test_two_ranks_with_two_workers_each_see_disjoint_documents_and_together_all(
    recipe: Recipe, documents: list[str], pieces: str
) -> None:
    recipe = replace(recipe, data=replace(DATA, pieces=pieces))  # type: ignore[arg-type]
    seen = []
    for rank in range(2):
        taken = one_epoch(batches(recipe, rank=rank, num_ranks=2, workers=2))
        assert {batch.shard for batch in taken} == {rank, rank + 2}
        for shard in (rank, rank + 2):
            own = [batch for batch in taken if batch.shard == shard]
            if pieces == "packed":
                own = [batch._replace(tokens=split[0], length=split[1]) for batch in own for split in [_parts(batch)]]
            seen.append(owners_of(own, recipe, documents))
    for number, one in enumerate(seen):
        assert all(not one & other for other in seen[:number])
    assert set.union(*seen) == set(range(len(documents)))


def _parts(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Packed sequences cut at their separators, so that each part is text of one document."""
    parts: list[list[int]] = []
    for tokens, length in zip(batch.tokens.tolist(), batch.length.tolist(), strict=True):
        current: list[int] = []
        for token in [*tokens[:length], 3]:
            if token == 3:
                parts.append(current)
                current = []
            else:
                current.append(token)
    parts = [part for part in parts if len(part) > 6]
    width = max(map(len, parts), default=1)
    rows = torch.tensor([part + [0] * (width - len(part)) for part in parts]).reshape(len(parts), width)
    return rows, torch.tensor([len(part) for part in parts])


@pytest.mark.parametrize(("num_ranks", "workers"), [(1, 2), (1, 4), (2, 0), (2, 2), (4, 0)])
def test_what_a_step_trains_on_does_not_depend_on_ranks_and_workers(
    recipe: Recipe, num_ranks: int, workers: int
) -> None:
    expected = list(islice(batches(recipe), 24))
    ranks = [batches(recipe, rank=rank, num_ranks=num_ranks, workers=workers) for rank in range(num_ranks)]
    for number, batch in enumerate(expected):
        assert same(next(ranks[number % num_ranks]), batch)


@pytest.mark.parametrize("consumed", [1, 8, 40])
def test_a_stream_goes_on_exactly_where_it_was(recipe: Recipe, consumed: int) -> None:
    stream = batches(recipe)
    places = {batch.shard: batch.place for batch in islice(stream, consumed)}
    again = batches(recipe, consumed=consumed, places=places)
    for _ in range(40):
        assert same(next(again), next(stream))


def test_what_ranks_left_off_other_ranks_and_workers_can_take_up(recipe: Recipe) -> None:
    stream = batches(recipe)
    places = {batch.shard: batch.place for batch in islice(stream, 8)}
    ranks = [batches(recipe, rank=rank, num_ranks=2, workers=2, consumed=8, places=places) for rank in range(2)]
    for number in range(20):
        assert same(next(ranks[number % 2]), next(stream))


def test_epochs_differ_in_order_and_blanks_and_global_sample_indices_never_repeat(recipe: Recipe) -> None:
    keys = [key for batch in one_epoch(batches(recipe)) for key in batch.keys if key[0] == 0]
    assert len(set(keys)) == len(keys) > 100
    recipe = replace(recipe, num_shards=1)
    stream = batches(recipe)
    first = one_epoch(stream)
    keys = [key for batch in first for key in batch.keys]
    assert sorted(keys) == [(0, number) for number in range(len(keys))]
    second = next(stream)
    assert not any(same(second, batch) for batch in first)


def test_no_document_is_on_both_sides_of_the_split(passages: list[str]) -> None:
    documents = LocalDocuments.split([*passages, *passages], 0.3, seed=0)
    assert documents.held_out
    assert not set(documents.train) & set(documents.held_out)
    assert sorted(documents.train + documents.held_out) == sorted([*passages, *passages])
    few = [f"one of few documents, number {number}" for number in (3, 5, 5, 8)]
    assert not any(is_held_out(text, 0.01) for text in few)
    split = LocalDocuments.split(few, 0.01, seed=0)
    assert sorted(split.train + split.held_out) == sorted(few)
    assert len(set(split.held_out)) == 1
    assert not set(split.held_out) & set(split.train)
    assert split.held_out == LocalDocuments.split(few[::-1], 0.01, seed=0).held_out
    assert LocalDocuments.split(few[1:3], 0.01, seed=0).held_out == []
    shares = [is_held_out(f"{number}", 0.05) for number in range(4000)]
    assert sum(shares) / 4000 == pytest.approx(0.05, abs=0.012)


def test_every_micro_batch_is_full_of_one_length_and_has_a_target_in_every_row(recipe: Recipe) -> None:
    for batch in islice(batches(recipe), 60):
        assert batch.tokens.shape in {(4, 16), (2, 32)}
        assert batch.is_target.any(1).all()
        assert not batch.is_target[torch.arange(batch.tokens.shape[1]) >= batch.length[:, None]].any()


def test_separators_and_other_specials_are_never_targets(recipe: Recipe, codec: SentencePieceCodec) -> None:
    recipe = replace(recipe, data=replace(DATA, pieces="packed"), objective=ObjectiveConfig(mask_min=1.0))
    special = torch.tensor(codec.forbidden_ids)
    taken = list(islice(batches(recipe), 60))
    assert any(torch.isin(batch.tokens[:, :-1], special).any() for batch in taken)
    assert not any(batch.is_target[torch.isin(batch.tokens, special)].any() for batch in taken)
    nothing = collate([blank], 4, [3]) if (blank := _example([3, 3], [True, True])) else None
    assert nothing is not None
    assert not nothing.is_target.any()


def _example(ids: list[int], is_target: list[bool]):  # type: ignore[no-untyped-def]
    from training.blanks import Example

    return Example(ids, is_target)


def test_too_many_readers_for_the_documents_is_an_error(recipe: Recipe) -> None:
    with pytest.raises(ValueError, match="shard 70 of 99 has no documents"):
        next(replace(recipe, num_shards=99).shard(70, 70, None))
