"""A linear layer whose weight can be packed once for few-row passes on a CPU.

A decoding pass has 1 to 40 rows, so on a CPU it is bound by reading the weights, and ``F.linear`` is far from that
floor (measured at the XLNet-base shape: 29 ms of linears for 1 row where memory allows 10). Two packings come close:

- ``"packed"``: oneDNN's own layout, made once (what ``torch.compile``'s freezing uses); same float32 arithmetic, and a
  row's result does not depend on how many other rows there are, so a sequence's text does not depend on its batch.
- ``"float16"``: FBGEMM's half-precision weights with float32 activations; halves the bytes, moves outputs by about
2e-4.

Dynamic int8 is deliberately absent: it quantises activations per tensor, so a row's logits would depend on its
neighbours and p would no longer be a function of the context. Packed weights are plain attributes (they have no
storage, can be neither saved nor copied, and give no gradients), and the plain weight is dropped when they are made.
"""

from __future__ import annotations

import warnings
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Packing = Literal["plain", "packed", "float16"]
"""How a weight is held: as it is, in oneDNN's layout, or in half precision."""


def can_pack(weight: Tensor, packing: Packing) -> bool:
    """Whether this build, device and dtype can hold ``weight`` in that packing."""
    if packing == "plain":
        return True
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        return False
    if packing == "packed":
        return torch._C._has_mkldnn and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return "fbgemm" in torch.backends.quantized.supported_engines


class Linear(nn.Module):
    """``x @ weight.T + bias`` with a weight that can be packed in place.

    Attributes:
        weight: (out, in) parameter, ``None`` once packed.
        bias: (out,) parameter or ``None``.
        packing: how the weight is held now.
    """

    def __init__(self, in_features: int, out_features: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weight: nn.Parameter | None = nn.Parameter(torch.empty(out_features, in_features))
        self.bias: nn.Parameter | None = nn.Parameter(torch.zeros(out_features)) if bias else None
        self.packing: Packing = "plain"
        self._packed: Tensor | None = None

    def pack(self, packing: Packing, weight: Tensor | None = None) -> None:
        """Replace the plain weight by a packed one; does nothing if it is packed so, or this device or dtype cannot.

        Args:
            packing: the layout wanted.
            weight: pack this (out, in) tensor instead of the own weight (the tied head packs the embedding's).

        Raises:
            ValueError: if the weight is packed in another way already.
        """
        if self.packing == packing:
            return
        if self.packing != "plain":
            raise ValueError(f"this layer's weight is already held as {self.packing!r} and cannot be packed again")
        source = self.weight if weight is None else weight
        if packing == "plain" or source is None or not can_pack(source, packing):
            return
        with torch.no_grad():
            if packing == "packed":
                self._packed = torch.ops.mkldnn._reorder_linear_weight(source.detach(), 1)
            else:
                self._packed = _pack_float16(source.detach())
        self.weight, self.packing = None, packing

    def dense_weight(self) -> Tensor:
        """The (out, in) weight as a plain tensor, whatever the packing; bit-exact unless packed in half precision.

        Raises:
            ValueError: for half-precision packing, whose layout cannot be read back.
        """
        if self.weight is not None:
            return self.weight.detach()
        if self.packing == "packed" and self._packed is not None:
            return self._packed.to_dense()
        raise ValueError(
            "weights packed in half precision cannot be read back; load the checkpoint with weights=None to save it"
        )

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        if self.weight is not None:
            return F.linear(x, self.weight, self.bias)
        if self.packing == "packed":
            out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self.bias, "none", [], "")
            return out
        flat = x.reshape(-1, x.shape[-1])
        out = torch.fbgemm_linear_fp16_weight_fp32_activation(flat, self._packed, self.bias)  # type: ignore[arg-type]
        return out.view(*x.shape[:-1], out.shape[-1])


def _pack_float16(weight: Tensor) -> Tensor:
    """FBGEMM's half-precision layout of an (out, in) weight.

    PyTorch announces once a process that these operators are deprecated. Until a replacement exists that keeps rows
    independent, that is our business and not the caller's, so the announcement is spent here.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="fbgemm_", category=UserWarning)
        packed: Tensor = torch.fbgemm_pack_gemm_matrix_fp16(weight.contiguous())
        torch.fbgemm_linear_fp16_weight_fp32_activation(weight[:1], packed, None)
    return packed
