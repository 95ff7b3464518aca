"""Training through the engine is training through Hugging Face's model: the same loss gives the same gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from xlnet_reference import ours, random_reference, reference_logits

from anyorder.model.convert import layer_sources, outer_sources
from anyorder.visibility import Rows

LENGTH, NUM_PROMPT = 24, 7


def our_loss(network: torch.nn.Module, tokens: Tensor, sigma: Tensor) -> Tensor:
    steps = torch.arange(LENGTH)[None]
    asked = steps[:, NUM_PROMPT:]
    encode = Rows(steps, torch.maximum(steps + 1, torch.tensor(NUM_PROMPT)))
    logits = network(tokens[sigma][None], sigma[None], None, encode=encode, query=Rows(asked, asked))
    return F.cross_entropy(logits[0], tokens[sigma][NUM_PROMPT:])


@pytest.mark.parametrize("tied", [True, False])
def test_the_gradient_of_every_parameter_equals_that_of_hugging_face(tied: bool) -> None:
    model = random_reference(
        vocab_size=50, d_model=48, n_layer=3, n_head=4, d_inner=96, tie_word_embeddings=tied, seed=3
    )
    network = ours(model)
    generator = torch.Generator().manual_seed(0)
    tokens, sigma = torch.randint(50, (LENGTH,), generator=generator), torch.randperm(LENGTH, generator=generator)

    asked = torch.arange(NUM_PROMPT, LENGTH)
    theirs = F.cross_entropy(
        reference_logits(model, tokens, sigma, NUM_PROMPT, steps=asked), tokens[sigma][NUM_PROMPT:]
    )
    theirs.backward()
    mine = our_loss(network, tokens, sigma)
    mine.backward()
    torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=1e-6)

    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    checked = set()
    sources = dict(outer_sources(network.config))
    for depth in range(network.config.n_layer):
        for name, source in layer_sources(network.config, depth).items():
            sources[f"layers.{depth}.{name}"] = source
    for name, parameter in network.named_parameters():
        checked.add(name)
        source = sources[name]
        want = source.build(*(gradients[hf_name] for hf_name in source.names))
        assert parameter.grad is not None, f"{name} gets no gradient"
        error = (parameter.grad - want).norm() / want.norm()
        assert want.norm() > 0, f"{name}: a gradient of zero would say nothing"
        assert error < 1e-5, f"{name}: relative error {error:.1e}"
    segments = {name for name in sources if "segment" in name}
    assert checked == set(sources) - segments
