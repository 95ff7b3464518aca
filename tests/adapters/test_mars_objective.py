"""The training pass of MARS: who sees whom, and what is summed."""

from __future__ import annotations

import pytest
import torch
from causal_models import FAMILIES, VOCAB, causal_logits, network
from torch import Tensor

from anyorder.adapters import mars
from anyorder.adapters.causal import CausalModel
from anyorder.adapters.causal.documents import bounds
from anyorder.adapters.mars import causal_loss, mars_loss, noisy_mask
from anyorder.adapters.mars.objective import both_copies
from training.causal_data import CausalBatch
from training.mars_module import held_out_figures, smoothed

TOLERANCE = 1e-5


def positions_of(length: int) -> tuple[Tensor, Tensor]:
    return torch.zeros(1, length, dtype=torch.long), torch.arange(length)[None]


def test_the_mask_of_six_tokens_in_blocks_of_two() -> None:
    by_hand = """
        0 0 0 0 0 0  1 0 0 0 0 0
        0 0 0 0 0 0  1 1 0 0 0 0
        1 1 0 0 0 0  0 0 1 0 0 0
        1 1 0 0 0 0  0 0 1 1 0 0
        1 1 1 1 0 0  0 0 0 0 1 0
        1 1 1 1 0 0  0 0 0 0 1 1
    """
    wanted = torch.tensor([[int(entry) for entry in line.split()] for line in by_hand.strip().splitlines()])
    assert torch.equal(noisy_mask(*positions_of(6), 2)[0].long(), wanted)


def test_a_block_diffusion_block_sees_itself_both_ways_and_nothing_else_more() -> None:
    both = noisy_mask(*positions_of(6), 3, sees_both_ways=True)[0]
    one = noisy_mask(*positions_of(6), 3)[0]
    added = (both & ~one).nonzero().tolist()
    assert added == [[0, 7], [0, 8], [1, 8], [3, 10], [3, 11], [4, 11]]


@pytest.mark.parametrize("block", [1, 2, 3, 4])
def test_one_noisy_row_of_a_sequence_sees_a_fully_clean_past(block: int) -> None:
    """That of the last prompt token, as the note says; the paper's claim of one in B is not what its mask gives."""
    length, prompt = 13, 4
    visible = noisy_mask(*positions_of(length), block)[0]
    clean = torch.cat([torch.ones(length), (torch.arange(length) < prompt).float()]).bool()
    supervised = range(prompt - 1, length - 1)
    assert [row for row in supervised if bool(clean[visible[row]].all())] == [prompt - 1]


@pytest.mark.parametrize("packed", [False, True])
def test_acceptance_is_how_often_a_mask_is_right_where_those_before_it_in_its_block_are(packed: bool) -> None:
    block, length = 3, 40
    model = network("qwen3")
    with torch.no_grad():  # few tokens are ever likeliest, so that masks are right now and then
        model.embedding[4:] *= 0.02
    tokens, is_response = torch.randint(VOCAB, (8, length)), torch.ones(8, length, dtype=torch.bool)
    is_response[:4, :5] = False
    documents = (torch.arange(length) >= 20).long().expand(8, -1) if packed else None
    held_out_figures(model, [CausalBatch(tokens, is_response, documents, (0, None), [])], block)
    clean, noisy = both_copies(model, tokens, is_response, documents, block)
    same = model.logits(clean).argmax(-1) == model.logits(noisy).argmax(-1)
    reached, kept = [0] * block, [0] * block
    for row in range(8):
        for begin, end in ((0, 20), (20, length)) if packed else ((0, length),):
            for first in range(begin, end, block):
                for offset, place in enumerate(range(first, min(first + block, end))):
                    if not is_response[row, place]:
                        break
                    reached[offset] += 1
                    if not same[row, place]:
                        break
                    kept[offset] += 1
    assert min(kept) > 0
    assert model.acceptance == pytest.approx(smoothed(kept, reached))


def test_a_lag_that_hardly_a_draft_reached_is_like_the_one_before_it_and_many_drafts_speak_for_themselves() -> None:
    rates = smoothed([40_000, 1, 0, 0], [100_000, 1, 0, 5])
    assert rates[0] == pytest.approx(0.4, abs=1e-3)
    assert rates[1] == pytest.approx((16 * rates[0] + 1) / 17)
    assert rates[2] == rates[1]
    assert rates[3] == pytest.approx(16 / 21 * rates[2])


@pytest.fixture
def tokens() -> Tensor:
    return torch.randint(VOCAB, (2, 11))


@pytest.fixture
def is_response() -> Tensor:
    """A prompt that ends inside a block, and one with a second prompt in the middle of its response."""
    place = torch.arange(11)
    return torch.stack([place >= 3, ((place >= 1) & (place < 5)) | (place >= 8)])


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_the_clean_copy_is_an_ordinary_pass(family: str, tokens: Tensor, is_response: Tensor) -> None:
    model = network(family)
    clean, _ = both_copies(model, tokens, is_response, None, 4)
    assert torch.allclose(model.logits(clean), causal_logits(model, tokens), atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("block", [1, 3, 4])
@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_a_noisy_block_is_a_plain_pass_over_the_clean_past_and_the_noisy_block(
    family: str, block: int, tokens: Tensor, is_response: Tensor
) -> None:
    model = network(family)
    _, noisy = both_copies(model, tokens, is_response, None, block)
    logits = model.logits(noisy)
    for row in range(len(tokens)):
        for start in range(0, 11, block):
            end = min(start + block, 11)
            is_mask = is_response[row : row + 1, :end] & (torch.arange(end) >= start)
            place = torch.arange(end)
            hidden = model(tokens[row : row + 1, :end], place[None], (place[:, None] >= place)[None], is_mask)
            wanted = model.logits(hidden)[0, start:]
            assert torch.allclose(logits[row, start:end], wanted, atol=TOLERANCE, rtol=0)


@torch.no_grad()
def test_a_response_token_moves_no_noisy_row_of_its_own_block_or_an_earlier_one(
    tokens: Tensor, is_response: Tensor
) -> None:
    model, block = network("qwen3"), 4
    _, before = both_copies(model, tokens, is_response, None, block)
    for row, place in is_response.nonzero().tolist():
        changed = tokens.clone()
        changed[row, place] = (changed[row, place] + 1) % VOCAB
        _, after = both_copies(model, changed, is_response, None, block)
        end = (place // block + 1) * block
        assert torch.equal(before[row, :end], after[row, :end])
        assert end >= 11 or not torch.equal(before[row, end:], after[row, end:])


def slow_losses(model: CausalModel, sequences: list[tuple[Tensor, Tensor]], block: int) -> tuple[Tensor, Tensor]:
    """The definition, one sequence, one token at a time."""
    noisy_sum, clean_sum = torch.zeros(()), torch.zeros(())
    for ids, response in sequences:
        clean_logits = causal_logits(model, ids[None])[0].log_softmax(-1)
        wanted = [place for place in response.nonzero()[:, 0].tolist() if place > 0]
        for place in wanted:
            start = (place - 1) // block * block
            seen = torch.arange(place)
            is_mask = response[None, :place] & (seen >= start)
            hidden = model(ids[None, :place], seen[None], (seen[:, None] >= seen)[None], is_mask)
            noisy = model.logits(hidden)[0, -1].log_softmax(-1)
            noisy_sum = noisy_sum - noisy[ids[place]] / len(wanted) / len(sequences)
            clean_sum = clean_sum - clean_logits[place - 1, ids[place]] / len(wanted) / len(sequences)
    return noisy_sum, clean_sum


@pytest.mark.parametrize("family", FAMILIES)
def test_the_loss_and_its_gradient_are_those_of_the_loop_over_tokens(
    family: str, tokens: Tensor, is_response: Tensor
) -> None:
    """The gradient too: what the noisy copy sees of the clean one learns from both losses."""
    model = network(family).requires_grad_(True)
    is_response[1, 0] = True  # the first token of a sequence has no row before it
    noisy, clean = slow_losses(model, list(zip(tokens, is_response, strict=True)), block=4)
    loss = mars_loss(model, tokens, is_response, block=4)
    assert torch.allclose(torch.stack(loss), torch.stack([noisy, clean]), atol=TOLERANCE, rtol=0)
    assert torch.allclose(causal_loss(model, tokens, is_response), clean, atol=TOLERANCE, rtol=0)
    weights = list(model.parameters())
    for ours, slow in zip(
        torch.autograd.grad(sum(loss), weights), torch.autograd.grad(noisy + clean, weights), strict=True
    ):
        assert torch.allclose(ours, slow, atol=TOLERANCE, rtol=0)


def test_where_no_clean_row_meets_a_weight_that_trains_the_clean_copy_has_no_gradient(
    tokens: Tensor, is_response: Tensor
) -> None:
    """A gated LoRA: half of the backward pass is spared, and the noisy copy learns all the same."""
    model = mars.attach_lora(network("qwen3"), rank=2)
    clean, noisy = both_copies(model, tokens, is_response, None, 4)
    assert not clean.requires_grad
    assert noisy.requires_grad


@torch.no_grad()
def test_sequences_packed_into_a_row_count_and_see_as_if_each_had_its_own() -> None:
    model, block = network("qwen3"), 4
    parts = [torch.randint(VOCAB, (size,)) for size in (5, 6, 4)]
    responses = [torch.arange(len(part)) >= 2 for part in parts]
    apart = slow_losses(model, list(zip(parts, responses, strict=True)), block)
    packed = torch.stack([torch.cat(parts[:2]), torch.cat([parts[2], torch.zeros(7, dtype=torch.long)])])
    is_response = torch.stack([torch.cat(responses[:2]), torch.cat([responses[2], torch.zeros(7, dtype=torch.bool)])])
    documents = torch.tensor([[4] * 5 + [2] * 6, [1] * 4 + [9] * 7])
    loss = mars_loss(model, packed, is_response, block=block, documents=documents)
    assert torch.allclose(torch.stack(loss), torch.stack(apart), atol=TOLERANCE, rtol=0)
    plain = causal_loss(model, packed, is_response, documents=documents)
    assert torch.allclose(plain, apart[1], atol=TOLERANCE, rtol=0)


@torch.no_grad()
def test_per_token_every_response_token_counts_alike(tokens: Tensor, is_response: Tensor) -> None:
    model = network("qwen2")
    weights = [int(row[1:].sum()) for row in is_response]
    apart = [
        (count, mars_loss(model, tokens[row : row + 1], is_response[row : row + 1], block=4))
        for row, count in enumerate(weights)
    ]
    wanted = torch.stack([count * torch.stack(loss) for count, loss in apart]).sum(0) / sum(weights)
    assert weights[0] != weights[1]
    loss = mars_loss(model, tokens, is_response, block=4, per_token=True)
    assert torch.allclose(torch.stack(loss), wanted, atol=TOLERANCE, rtol=0)
    assert torch.allclose(causal_loss(model, tokens, is_response, per_token=True), wanted[1], atol=TOLERANCE, rtol=0)


def test_documents_are_numbered_and_their_positions_start_anew() -> None:
    documents = torch.tensor([[7, 7, 7, 3, 3, 7], [0, 1, 2, 3, 4, 5]])
    number, position = bounds(documents, documents)
    assert number.tolist() == [[0, 0, 0, 1, 1, 2], [0, 1, 2, 3, 4, 5]]
    assert position.tolist() == [[0, 1, 2, 0, 1, 0], [0] * 6]


@torch.no_grad()
def test_padding_at_the_end_changes_nothing(tokens: Tensor, is_response: Tensor) -> None:
    model = network("llama")
    padded = torch.nn.functional.pad(tokens, (0, 3), value=5)
    longer = torch.nn.functional.pad(is_response, (0, 3))
    loss, wanted = mars_loss(model, padded, longer, block=4), mars_loss(model, tokens, is_response, block=4)
    assert torch.allclose(torch.stack(loss), torch.stack(wanted), atol=1e-6, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_weight_learns_the_mask_embedding_from_the_noisy_loss_alone(
    family: str, tokens: Tensor, is_response: Tensor
) -> None:
    model = network(family).requires_grad_(True)
    loss = mars_loss(model, tokens, is_response, block=4)
    assert torch.autograd.grad(loss.clean, model.mask_embedding, retain_graph=True, allow_unused=True) == (None,)
    (loss.noisy + loss.clean).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.abs().max() > 0), name


@pytest.mark.parametrize("masked", ["by a vector", "by an id"])
def test_a_batch_without_responses_has_a_loss_of_zero_with_a_gradient_of_zero(masked: str, tokens: Tensor) -> None:
    """A step of a LoRA meets them where prompts are longer than what is read."""
    model = network("qwen2")
    model = mars.attach_lora(model if masked == "by a vector" else model.use_mask_id(VOCAB - 1), rank=2)
    loss = mars_loss(model, tokens, torch.zeros_like(tokens).bool(), block=4)
    assert torch.stack(loss).tolist() == [0.0, 0.0]
    (loss.noisy + loss.clean).backward()
    assert not any(parameter.grad.any() for parameter in model.parameters() if parameter.grad is not None)


def test_the_mask_among_the_responses_is_refused_and_among_the_prompts_is_not() -> None:
    model, tokens = network("qwen2").use_mask_id(3), torch.tensor([[1, 3, 4, 5, 6]])
    is_response = torch.arange(5)[None] >= 2
    losses = (
        lambda: mars_loss(model, tokens, is_response, block=2).noisy,
        lambda: causal_loss(model, tokens, is_response),
    )
    assert all(bool(loss().isfinite()) for loss in losses)
    is_response = torch.arange(5)[None] >= 1
    for loss in losses:
        with pytest.raises(ValueError, match=r"responses must be free of the mask, .* got its id, 3, among them"):
            loss()
