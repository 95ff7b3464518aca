"""The view is the base until it is trained, sees what it should and no more, and leaves no trace when taken off."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from causal_models import FAMILIES, VIEWS, VOCAB, causal_logits, make, network, ragged_prompts, with_view
from torch import Tensor

from anyorder.adapters import mars, orthrus
from anyorder.adapters.causal import CausalModel
from anyorder.adapters.causal.added import added
from anyorder.adapters.causal.cache import SlotCache
from anyorder.adapters.causal.plan import Blocks, Stand, plan_pass
from anyorder.adapters.causal.rows import Rows
from anyorder.adapters.orthrus.generating import layout_of
from anyorder.adapters.orthrus.objective import block_mask, block_positions
from anyorder.adapters.orthrus.options import OrthrusOptions
from anyorder.model.linear import can_pack
from anyorder.sampling import Sampling

TOLERANCE = 1e-5
ONE_EACH = [(family, anchor) for family in FAMILIES for anchor in VIEWS]


def second_pass(model: CausalModel, tokens: Tensor, anchors: Tensor) -> Tensor:
    """(B, A, R, V) logits of the rows of every block, from a single pass over the text and the blocks."""
    block, in_view = model.block or 1, model.anchor_in_view
    number, place = torch.zeros_like(tokens), torch.arange(tokens.shape[1])
    places = block_positions(anchors, block, anchor_in_view=in_view)
    of_blocks = block_mask(number, anchors, block, anchor_in_view=in_view)
    of_text = torch.nn.functional.pad((place[:, None] >= place).expand(len(tokens), -1, -1), (0, of_blocks.shape[1]))
    is_mask = torch.ones_like(places, dtype=torch.bool)
    is_mask[..., 0] = not in_view
    positions = torch.cat([place.expand_as(tokens), places.flatten(1)], 1)
    mixed = torch.cat([tokens, tokens.gather(1, places.flatten(1).clamp(max=tokens.shape[1] - 1))], 1)
    no = torch.zeros_like(tokens, dtype=torch.bool)
    hidden = model(
        mixed,
        positions,
        torch.cat([of_text, of_blocks], 1),
        torch.cat([no, is_mask.flatten(1)], 1),
        in_view=torch.cat([no, torch.ones_like(no[:, :1]).expand(-1, places[0].numel())], 1),
    )
    return model.logits(hidden[:, tokens.shape[1] :]).view(*places.shape, -1)


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_a_fresh_published_view_with_a_block_of_one_is_the_base(family: str) -> None:
    """The anchor alone, in the view: the base's row, since the copies start as the originals."""
    model, tokens = with_view(family, "trainable", std=None), torch.randint(VOCAB, (2, 9))
    model.block = 1
    rows = second_pass(model, tokens, torch.arange(9).expand(2, -1))
    assert torch.allclose(rows[:, :, 0], causal_logits(network(family), tokens), atol=TOLERANCE, rtol=TOLERANCE)
    other = with_view(family, "trainable")
    other.block = 1
    moved = second_pass(other, tokens, torch.arange(9).expand(2, -1))
    assert not torch.allclose(rows, moved, atol=0.1)


def written_out(text: str) -> Tensor:
    return torch.tensor([[int(entry) for entry in line.split()] for line in text.strip().splitlines()])


def test_the_mask_of_six_tokens_in_blocks_of_three() -> None:
    """Anchors 1 and 3; the text, then two masks a block, or the anchor and two masks."""
    frozen = """
        1 1 0 0 0 0  1 1 0 0
        1 1 0 0 0 0  1 1 0 0
        1 1 1 1 0 0  0 0 1 1
        1 1 1 1 0 0  0 0 1 1
    """
    trainable = """
        1 0 0 0 0 0  1 1 1 0 0 0
        1 0 0 0 0 0  1 1 1 0 0 0
        1 0 0 0 0 0  1 1 1 0 0 0
        1 1 1 0 0 0  0 0 0 1 1 1
        1 1 1 0 0 0  0 0 0 1 1 1
        1 1 1 0 0 0  0 0 0 1 1 1
    """
    number, anchors = torch.zeros(1, 6, dtype=torch.long), torch.tensor([[1, 3]])
    for in_view, text in ((False, frozen), (True, trainable)):
        assert torch.equal(block_mask(number, anchors, 3, anchor_in_view=in_view)[0].long(), written_out(text))
    assert block_positions(anchors, 3, anchor_in_view=False).tolist() == [[[2, 3], [4, 5]]]
    assert block_positions(anchors, 3, anchor_in_view=True).tolist() == [[[1, 2, 3], [3, 4, 5]]]


def test_a_block_sees_its_own_document_alone() -> None:
    number, anchors = torch.tensor([[0, 0, 0, 1, 1, 1]]), torch.tensor([[1, 4]])
    for in_view, second in ((False, [0, 0, 0, 1, 1, 0]), (True, [0, 0, 0, 1, 0, 0])):
        mask = block_mask(number, anchors, 2, anchor_in_view=in_view)[0, :, :6].long()
        assert mask[-1].tolist() == second
        assert mask[0].tolist() == [1, 1 - in_view, 0, 0, 0, 0]


def drafting_rows(model: CausalModel, tokens: Tensor, anchor: int) -> Tensor:
    """(drafts, V) logits with which decoding drafts after the tokens up to ``anchor``, those before it in the cache."""
    decided, count = torch.tensor([anchor + 1]), (model.block or 1) - 1
    cache = model.new_cache(1, anchor + 1 + count)
    options = OrthrusOptions(block=count + 1, anchor_in_view=model.anchor_in_view, sampling=Sampling())
    blocks = layout_of(options).blocks
    padded, none = torch.nn.functional.pad(tokens[:, : anchor + 1], (0, count + 1)), torch.zeros(1, dtype=torch.long)
    for stand, wanted in ((Stand(decided - 1, none, none), 0), (Stand(decided, decided - 1, none), count)):
        if int(stand.num_decoded) == 0:
            continue
        plan = plan_pass(stand, torch.tensor([[wanted]]), sentinel=cache.num_slots, chunk=64, blocks=blocks)
        slots = torch.where(plan.rows.is_mask, cache.num_slots, plan.rows.slots)
        logits = model.step(padded.gather(1, slots), plan.rows, cache, asked=plan.asked)
    return plan.of_outcome(none, logits)[1][0]


@pytest.mark.parametrize(("family", "anchor"), ONE_EACH)
@torch.no_grad()
def test_rows_of_the_training_pass_are_rows_of_a_decoding_pass(family: str, anchor: Any) -> None:
    model, tokens = with_view(family, anchor), torch.randint(VOCAB, (1, 12))
    anchors = torch.tensor([[0, 3, 4, 7]])
    rows = second_pass(model, tokens, anchors)[0]
    past = orthrus.objective.Past(1)
    model(tokens, torch.arange(12)[None], torch.ones(12, 12).tril().bool()[None], past=past)
    places = block_positions(anchors, 4, anchor_in_view=model.anchor_in_view)
    visible = block_mask(torch.zeros_like(tokens), anchors, 4, anchor_in_view=model.anchor_in_view)
    trained = orthrus.objective._second_pass(model, tokens, torch.arange(12)[None], places, visible, past)
    assert torch.allclose(model.logits(trained).view_as(rows), rows, atol=TOLERANCE, rtol=TOLERANCE)
    for number, place in enumerate(anchors[0].tolist()):
        drafted = drafting_rows(model, tokens, place)
        assert torch.allclose(drafted, rows[number, : len(drafted)], atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("anchor", VIEWS)
@torch.no_grad()
def test_nothing_after_an_anchor_and_no_other_block_reaches_a_block(anchor: Any) -> None:
    model, tokens, anchors = with_view("qwen3", anchor), torch.randint(VOCAB, (1, 12)), torch.tensor([[2, 5, 7]])
    before = second_pass(model, tokens, anchors)
    for place in range(12):
        changed = tokens.clone()
        changed[0, place] = (changed[0, place] + 1) % VOCAB
        moved = (second_pass(model, changed, anchors) != before)[0].flatten(1).any(1)
        assert moved.tolist() == [place <= own for own in (2, 5, 7)]
    fewer = second_pass(model, tokens, torch.tensor([[2, 1, 7]]))
    assert torch.equal(fewer[:, [0, 2]], before[:, [0, 2]])
    assert not torch.equal(fewer[:, 1], before[:, 1])


@pytest.mark.parametrize(("family", "anchor"), ONE_EACH)
def test_the_view_learns_and_nothing_else_does(family: str, anchor: Any) -> None:
    """After steps that move every added tensor, the base is what it was, bit for bit, and so is what it says."""
    base, model = network(family), orthrus.attach(network(family).requires_grad_(True), block=4, anchor=anchor)
    learning = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert (
        learning
        == set(added(model))
        == {name for name, _ in model.named_parameters()} - {name for name, _ in base.named_parameters()}
        | {"mask_embedding"}
    )
    each = 2 + 1 * (family == "qwen2") + 2 * (family == "qwen3")
    assert len(learning) == 1 + each * model.config.num_layers
    start = {name: tensor.clone() for name, tensor in added(model).items()}
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    for _ in range(3):
        loss = orthrus.distillation(model, torch.randint(VOCAB, (2, 12)), torch.tensor([[1, 6], [0, -1]])).loss
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    assert all(not torch.equal(tensor, start[name]) for name, tensor in added(model).items())
    after = model.state_dict()
    for name, tensor in base.state_dict().items():
        assert torch.equal(tensor, after[name]) or name == "mask_embedding", name
    tokens = torch.randint(VOCAB, (2, 9))
    assert torch.equal(causal_logits(model, tokens), causal_logits(base, tokens))


@pytest.mark.parametrize("family", FAMILIES)
def test_detaching_restores_the_base(family: str) -> None:
    base, model = network(family), orthrus.detach(with_view(family))
    assert model.state_dict().keys() == base.state_dict().keys()
    for name, tensor in base.state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name]) or name == "mask_embedding", name
    assert torch.equal(model.mask_embedding, base.embedding.mean(0))
    assert (model.block, model.sees_both_ways, model.routes_masks, model.anchor_in_view) == (None, False, False, False)
    with pytest.raises(ValueError, match=r"has no view: orthrus\.attach"):
        orthrus.generate(model, [1, 2])
    with pytest.raises(ValueError, match="has no view"):
        orthrus.detach(model)
    prompts = ragged_prompts(3)
    runs = [mars.generate(each, prompts, mode="verify", max_new_tokens=5) for each in (base, orthrus.attach(model))]
    assert [r.token_ids for r in runs[0]] == [r.token_ids for r in runs[1]]


@pytest.mark.parametrize("anchor", VIEWS)
def test_rows_that_draft_leave_what_is_cached_alone(anchor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots below the first row of a pass never change, and in the end the cache is that of plain reading."""
    honest, caches, buffers = CausalModel.step, [], set()

    def step(self: CausalModel, tokens: Tensor, rows: Rows, cache: SlotCache, *, asked: Tensor) -> Tensor:
        first = int(rows.slots.min())
        before = [buffer[:, :, :first].clone() for buffer in (*cache.keys, *cache.values)]
        logits = honest(self, tokens, rows, cache, asked=asked)
        after = [buffer[:, :, :first] for buffer in (*cache.keys, *cache.values)]
        assert all(torch.equal(*pair) for pair in zip(before, after, strict=True))
        buffers.update(buffer.data_ptr() for buffer in (*cache.keys, *cache.values))
        caches.append(cache)
        return logits

    monkeypatch.setattr(CausalModel, "step", step)
    model, prompt = with_view("qwen3", anchor), torch.tensor([5, 3, 8])
    result = orthrus.generate(model, prompt, max_new_tokens=10, eos_ids=())
    assert isinstance(result, orthrus.Generated)
    assert len(caches) == result.stats.nfe
    # No pass copied or enlarged anything: every buffer is where it was, with room for K - 1 rows beside the tokens.
    assert len(buffers) == 2 * model.config.num_layers
    assert caches[-1].num_slots == 3 + 10 + 3
    fresh = model.new_cache(1, 13)
    tokens = torch.cat([prompt, torch.tensor(result.token_ids)])[None, :12]
    plan = plan_pass(
        Stand(*(torch.tensor([n]) for n in (12, 0, 0))),
        torch.zeros(1, 1).long(),
        sentinel=13,
        chunk=64,
        blocks=Blocks(),
    )
    honest(model, tokens, plan.rows, fresh, asked=plan.asked)
    for layer in range(model.config.num_layers):
        for held, wanted in zip(caches[-1].read(layer, 12), fresh.read(layer, 12), strict=True):
            assert torch.allclose(held, wanted, atol=TOLERANCE, rtol=TOLERANCE)


def test_published_weights_are_read_by_their_names() -> None:
    """A published checkpoint holds the base under its own names, each copy with ``_diff``, and an embedding as mask."""
    theirs, model = make("qwen3").state_dict(), orthrus.attach(make("qwen3"), anchor="trainable")
    published = dict(theirs)
    for name, tensor in theirs.items():
        for part in ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm"):
            if f".{part}." in name:
                published[name.replace(part, f"{part}_diff")] = tensor + 1
    published["mask_embedding"] = theirs["model.embed_tokens.weight"][7]
    orthrus.read_view(model, published)
    for depth in range(2):
        attention, prefix = model.layer(depth).attention, f"model.layers.{depth}.self_attn."
        wanted = torch.cat([theirs[f"{prefix}{part}_proj.weight"] + 1 for part in "qkv"])
        assert torch.equal(attention.inputs.for_masks.own.weight, wanted)  # type: ignore[union-attr]
        assert torch.equal(attention.output.for_masks.own.weight, theirs[f"{prefix}o_proj.weight"] + 1)  # type: ignore[union-attr]
        assert torch.equal(attention.for_masks.query, theirs[f"{prefix}q_norm.weight"] + 1)  # type: ignore[union-attr]
    assert torch.equal(model.mask_embedding, model.embedding[7])
    del published["model.layers.1.self_attn.k_proj_diff.weight"]
    with pytest.raises(ValueError, match=r"needs model\.layers\.1\.self_attn\.k_proj_diff\.weight .* got nothing"):
        orthrus.read_view(model, published)


@pytest.mark.parametrize(
    ("make_model", "options", "error", "message"),
    [
        (lambda: network("qwen2"), {"block": 1}, ValueError, "block must be at least 2; got 1"),
        (lambda: network("qwen2"), {"block": 4.0}, TypeError, "block must be an integer; got 4.0"),
        (lambda: network("qwen2"), {"anchor": "free"}, ValueError, "frozen, trainable; got 'free'"),
        (lambda: with_view("qwen2"), {}, ValueError, "weights of their own already"),
        (lambda: mars.attach_lora(network("qwen2")), {}, ValueError, "weights of their own already"),
        (lambda: network("qwen2").use_mask_id(3), {}, ValueError, "this model's mask is id 3"),
        (lambda: torch.nn.Linear(2, 2), {}, TypeError, "got Linear"),
    ],
)
def test_what_cannot_have_a_view_is_told_so(
    make_model: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        orthrus.attach(make_model(), **options)


def test_packing_comes_last() -> None:
    packed = network("qwen2").pack("packed")
    if not can_pack(torch.zeros(2, 2), "packed"):
        pytest.skip("this build packs nothing")
    with pytest.raises(ValueError, match="attached before the weights are packed"):
        orthrus.attach(packed)
    assert not packed.routes_masks
    model, prompts = with_view("qwen2"), ragged_prompts(4)
    wanted = orthrus.generate(model, prompts, max_new_tokens=6)
    model.pack("packed")
    assert {own.packing for own in map(orthrus.view.view_of, orthrus.view.projections(model))} == {"packed"}
    assert [r.token_ids for r in orthrus.generate(model, prompts, max_new_tokens=6)] == [r.token_ids for r in wanted]
    with pytest.raises(ValueError, match="saved before the weights are packed"):
        orthrus.save_view(model, "nowhere", base="somewhere")
    with pytest.raises(ValueError, match=r"orthrus\.save_view saves that"):
        mars.save(model, "nowhere")
