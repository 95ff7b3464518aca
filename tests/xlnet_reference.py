"""The reference the engine is tested against: transformers' XLNetLMHeadModel, asked in position space.

Hugging Face shares one ``perm_mask`` row between the content and the query row of a position, so rows that see
``num_decoded`` steps need a call for each ``num_decoded``: there the steps from ``num_decoded`` on are hidden from
everybody, and what their own content rows compute is seen by nobody.
"""

from __future__ import annotations

import torch
import transformers
from torch import Tensor, nn

from anyorder.model.config import XLNetConfig
from anyorder.model.convert import build
from anyorder.model.xlnet import XLNet


def random_reference(*, seed: int = 0, **shape: object) -> transformers.XLNetLMHeadModel:
    """A model whose every parameter is random, and whose rows differ as those of a trained model do.

    With one standard deviation for all weights every row of a deep model gives nearly the same logits, and a wrong
    mask would go unseen. So attention is peaked (large queries, keys and distances, a small mask embedding), and the
    last norm is scaled down until logits vary by about 1: then 1e-5 is their fifth digit.
    """
    config = transformers.XLNetConfig(**{"dropout": 0.0, **shape})
    with torch.device("meta"):
        model = transformers.XLNetLMHeadModel(config)
    model = model.to_empty(device="cpu")
    if config.tie_word_embeddings:
        model.lm_loss.weight = model.transformer.word_embedding.weight
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(0.0, _scale(name, parameter, config.d_model), generator=generator)
        for module in model.modules():
            if isinstance(module, nn.LayerNorm):
                module.weight.add_(1.0)
        for parameter in model.transformer.layer[-1].ff.layer_norm.parameters():
            parameter.mul_(config.d_model**-0.5)
    return model.eval()


def _scale(name: str, parameter: Tensor, width: int) -> float:
    kind = name.rsplit(".", 1)[-1]
    if name.startswith(("transformer.word_embedding", "lm_loss.weight")):
        return 1.0
    if kind in ("q", "k", "r"):
        return 2.0 * width**-0.5
    if kind in ("v", "o"):
        return 0.5 * width**-0.5
    if kind == "weight" and parameter.dim() == 2:
        return float(parameter.shape[1]) ** -0.5
    return 0.1


def ours(model: transformers.XLNetLMHeadModel) -> XLNet:
    """The engine with the weights of ``model``, converted as a checkpoint is."""
    config = XLNetConfig.from_dict({**model.config.to_dict(), "model_type": "xlnet"})
    tensors = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    return build(config, tensors.__getitem__, tensors["transformer.mask_emb"], "plain")


def reference_logits(
    model: transformers.XLNetLMHeadModel,
    tokens: Tensor,
    sigma: Tensor,
    num_prompt: int,
    *,
    steps: Tensor,
    num_decoded: int | None = None,
) -> Tensor:
    """Hugging Face's logits of query rows of one sequence.

    Args:
        model: the reference.
        tokens: (L,) in position space.
        sigma: (L,) step -> position.
        num_prompt: number of prompt steps, which see each other.
        steps: (K,) the steps asked, none of them in the prompt.
        num_decoded: how many steps the query rows see; each sees the steps before it when omitted.

    Returns:
        (K, V).
    """
    length = len(sigma)
    step = torch.arange(length)
    sees = torch.maximum(step, torch.tensor(num_prompt))
    if num_decoded is not None:
        sees = torch.where(step >= max(num_decoded, num_prompt), num_decoded, sees)
    hidden = step[None, :] >= sees[:, None]
    perm_mask = torch.zeros(1, length, length, dtype=model.dtype)
    perm_mask[0, sigma[:, None], sigma[None, :]] = hidden.to(model.dtype)
    target_mapping = torch.zeros(1, len(steps), length, dtype=model.dtype)
    target_mapping[0, torch.arange(len(steps)), sigma[steps]] = 1.0
    out = model(tokens[None], perm_mask=perm_mask, target_mapping=target_mapping, use_mems=False)
    return out.logits[0]
