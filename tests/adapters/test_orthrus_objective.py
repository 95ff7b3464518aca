"""The distillation: where anchors may stand, what is summed, that chunks change nothing, that nothing is off by one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from causal_models import FAMILIES, VIEWS, VOCAB, causal_logits, network, with_view
from torch import Tensor

from anyorder.adapters import orthrus
from anyorder.adapters.causal import CausalModel
from anyorder.adapters.orthrus.objective import NONE, distillation, draw_anchors

TOLERANCE = 1e-5


def test_anchors_are_drawn_once_each_and_end_with_responses_of_their_own_document() -> None:
    is_response = torch.tensor([[0, 0, 1, 1, 1, 1, 1, 1, 1, 0]]).bool()
    documents = torch.tensor([[0, 0, 0, 0, 0, 1, 1, 1, 1, 1]])
    seen = set()
    for seed in range(40):
        scores = torch.rand(1, 10, generator=torch.Generator().manual_seed(seed))
        anchors = draw_anchors(is_response, documents, block=2, count=3, scores=scores)[0].tolist()
        assert len(set(anchors)) == 3
        assert anchors == sorted(anchors)
        seen |= set(anchors)
    # Behind 1 and 2 lie two responses of the first document, behind 5 and 6 of the second; 3 and 4 reach across.
    assert seen == {1, 2, 5, 6}
    every = draw_anchors(is_response, documents, block=2, count=9, scores=torch.rand(1, 10))[0].tolist()
    assert sorted(every) == [NONE] * 5 + [1, 2, 5, 6]
    assert draw_anchors(is_response, None, block=11, count=2, scores=torch.rand(1, 10)).tolist() == [[NONE, NONE]]


def slow_loss(model: CausalModel, ids: Tensor, anchor: int, label: Tensor | None) -> list[Tensor]:
    """The terms of one block of one document, row by row: a whole pass over the text up to the anchor and the block."""
    block, in_view = model.block or 1, model.anchor_in_view
    teacher = causal_logits(model, ids[None])[0].log_softmax(-1)
    rows = list(range(anchor + (not in_view), anchor + block))
    seen = anchor + (not in_view)
    tokens = torch.cat([ids[:seen], ids[rows]])
    positions = torch.tensor([*range(seen), *rows])
    in_block = torch.arange(len(tokens)) >= seen
    visible = (positions[:, None] >= positions) & ~in_block | in_block[:, None]
    is_mask = in_block & ~(in_view & (positions == anchor))
    hidden = model(tokens[None], positions[None], visible[None], is_mask[None], in_view=in_block[None])
    student = model.logits(hidden)[0, seen:].log_softmax(-1)
    if label is not None:
        return [-student[number, label[place + 1]] for number, place in enumerate(rows)]
    return [(teacher[place].exp() * (teacher[place] - student[n])).sum() for n, place in enumerate(rows)]


@pytest.mark.parametrize("anchor", VIEWS)
@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_the_loss_is_the_loop_over_blocks_and_rows(family: str, anchor: Any) -> None:
    """Two documents in a row, one alone in the next; a block more in the first row than in the second."""
    model, tokens = with_view(family, anchor, block=3), torch.randint(VOCAB, (2, 11))
    documents = torch.tensor([[4] * 5 + [2] * 6, [1] * 11])
    anchors = torch.tensor([[1, 5, 7], [0, 6, NONE]])
    for hard in (False, True):
        terms: list[Tensor] = []
        for row, start, end, place in ((0, 0, 5, 1), (0, 5, 11, 0), (0, 5, 11, 2), (1, 0, 11, 0), (1, 0, 11, 6)):
            ids = tokens[row, start:end]
            terms += slow_loss(model, ids, place, ids if hard else None)
        made = distillation(model, tokens, anchors, documents=documents, hard_labels=hard)
        assert torch.allclose(made.loss, torch.stack(terms).mean(), atol=TOLERANCE, rtol=TOLERANCE)
        assert made.counts.tolist() == [[True, True, True], [True, True, False]]


@pytest.mark.parametrize("hard", [False, True])
def test_chunks_change_neither_the_loss_nor_the_gradient(hard: bool) -> None:
    results = []
    tokens, anchors = torch.randint(VOCAB, (2, 14)), torch.tensor([[0, 3, 5], [2, 8, NONE]])
    for chunk in (1, 4, 1000):
        model = with_view("qwen3")
        trained = [tensor.requires_grad_(True) for name, tensor in model.named_parameters() if ".for_masks." in name]
        made = distillation(model, tokens, anchors, hard_labels=hard, chunk=chunk)
        results.append((made, torch.autograd.grad(made.loss, trained)))
    (whole, gradients), *others = reversed(results)
    for made, each in others:
        assert torch.allclose(made.loss, whole.loss, atol=TOLERANCE, rtol=TOLERANCE)
        assert torch.equal(made.agrees, whole.agrees)
        for one, other in zip(each, gradients, strict=True):
            assert torch.allclose(one, other, atol=TOLERANCE, rtol=1e-4)


def test_no_logits_of_all_rows_are_kept_for_the_gradient() -> None:
    """Chunks are computed again: between the passes nothing of the size (chunk, V) is alive in the graph."""
    model, kept = with_view("qwen2", vocab_size=97), []
    model.mask_embedding.requires_grad_(True)

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tuple(tensor.shape))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        distillation(model, torch.randint(97, (2, 14)), torch.tensor([[0, 3, 5], [2, 8, 9]]), chunk=4)
    assert kept
    # The head's weight is (V, E) and no activation.
    assert [shape for shape in kept if 97 in shape and shape != (97, 32)] == []


def test_a_batch_without_anchors_has_a_loss_of_zero_and_a_gradient() -> None:
    model = orthrus.attach(network("qwen2"), block=4)
    made = distillation(model, torch.randint(VOCAB, (1, 9)), torch.tensor([[NONE, NONE]]))
    made.loss.backward()
    assert float(made.loss.detach()) == 0
    assert not made.counts.any()


CYCLE = 5
"""Tokens of a language in which token t is followed by t + 1, and the last by the first."""


def cyclic() -> CausalModel:
    """A base that knows that language: nothing but the embedding reaches the head."""
    model = network("qwen3", vocab_size=CYCLE, num_key_heads=4, num_layers=1)
    with torch.no_grad():
        for depth in range(model.config.num_layers):
            layer = model.layer(depth)
            for routed in (layer.attention.output, layer.expand, layer.contract):
                routed.base.weight.zero_()  # type: ignore[union-attr]
            layer.attention_norm.fill_(1.0)
        model.norm.fill_(1.0)
        model.embedding.zero_()[:, :CYCLE] = torch.eye(CYCLE)
        model.head.weight.zero_()[:, :CYCLE] = 3 * torch.eye(CYCLE).roll(1, 0)  # type: ignore[union-attr]
    return model


def learn(model: CausalModel) -> float:
    """Distil; returns the share of drafts kept."""
    place, generator = torch.arange(36), torch.Generator().manual_seed(0)
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-2, weight_decay=0.0)
    for _ in range(100):
        tokens = (place + torch.randint(CYCLE, (4, 1), generator=generator)) % CYCLE
        model.zero_grad()
        distillation(model, tokens, torch.randint(5, 32, (4, 6), generator=generator)).loss.backward()
        optimiser.step()
    model.requires_grad_(False)
    stats = orthrus.generate(model, place[:9] % CYCLE, max_new_tokens=21, eos_ids=()).stats  # type: ignore[union-attr]
    return sum(stats.accepted) / sum(stats.offered)


@pytest.mark.parametrize("anchor", VIEWS)
def test_a_cyclic_language_is_drafted_right_at_every_lag(anchor: Any) -> None:
    """Off by one anywhere, every draft would be the neighbour of the right token."""
    assert learn(orthrus.attach(cyclic(), block=4, anchor=anchor)) == 1.0


def test_a_row_that_learns_its_neighbours_distribution_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = CausalModel.forward

    def late(self: CausalModel, *args: Any, **options: Any) -> Tensor:
        hidden = honest(self, *args, **options)
        is_teacher = options.get("past") is not None and options.get("in_view") is None
        return hidden.roll(-1, 1) if is_teacher else hidden

    monkeypatch.setattr(CausalModel, "forward", late)
    assert learn(orthrus.attach(cyclic(), block=4)) == 0.0
