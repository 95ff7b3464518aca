"""A linear layer whose weight can be packed once for few-row passes on a CPU.

A decoding pass has 1 to 40 rows, so on a CPU it is bound by reading the weights, and ``F.linear`` is far from that
floor (measured at the XLNet-base shape: 29 ms of linears for 1 row where memory allows 10). Two packings come close:

- ``"packed"``: oneDNN's own layout, made once (what ``torch.compile``'s freezing uses); same float32 arithmetic, and a
  row's result does not depend on what other rows hold. How many there are moves it by rounding alone: kernels for one
  row and for many differ in the last bits (4e-6 at most here).
- ``"float16"``: FBGEMM's half-precision weights with float32 activations; half the bytes and the least overhead, so the
  fastest at every size. Rounds float32 weights (moves logits by about 1e-3); bfloat16 ones fit, see ``"lossless"``.
- ``"lossless"``: the fastest layout that keeps the stored weights: ``"float16"`` where they fit, else ``"packed"``.

Dynamic int8 is deliberately absent: it quantises activations per tensor, so a row's logits would depend on its
neighbours and p would no longer be a function of the context. Packed weights are plain attributes (they have no
storage, are packed anew in a copy, and give no gradients), and the plain weight is dropped when they are made.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from anyorder.model.huge_pages import use_huge_pages

Packing = Literal["plain", "packed", "float16", "lossless"]
"""How a weight is held: as it is, in oneDNN's layout, in half precision, or in the fastest layout that keeps it."""

PACKED_FOR_ROWS = 8
"""The number of rows oneDNN's layout is chosen for. A layout for one row costs 2.4 times as much at two rows and more;
this one is within a tenth of the best measured at 1, 2, 10 and 40 rows."""

_ONEDNN = ("_linear_pointwise", "_reorder_linear_weight", "data_ptr", "_nbytes")
"""The operators that hold and use oneDNN's layout; PyTorch promises none of them."""

HALF_STEP = 2.0**-25
"""Half the distance of the smallest half-precision numbers: what a bfloat16 weight may lose as a half, 3e-8."""


def can_pack(weight: Tensor, packing: Packing) -> bool:
    """Whether this build, device and dtype can hold ``weight`` in that packing."""
    if packing == "plain":
        return True
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        return False
    if packing == "packed":
        return torch._C._has_mkldnn and all(hasattr(torch.ops.mkldnn, name) for name in _ONEDNN)
    return "fbgemm" in torch.backends.quantized.supported_engines and hasattr(torch, "fbgemm_pack_gemm_matrix_fp16")


def fits_half(weight: Tensor) -> bool:
    """Whether half precision holds every weight to within ``HALF_STEP``, as it does what was stored in bfloat16."""
    # In pieces, so that asking costs no memory worth mentioning beside the weight.
    return all(bool((rows.half().float() - rows).abs().max() <= HALF_STEP) for rows in torch.split(weight, 256))


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
        self.in_features = in_features
        self._packed = torch.empty(0)
        self._is_rounded = False

    def pack(self, packing: Packing, weight: Tensor | None = None) -> None:
        """Replace the plain weight by a packed one; does nothing if it is packed so, or this device or dtype cannot.

        Args:
            packing: the layout wanted.
            weight: pack this (out, in) tensor instead of the own weight (the tied head packs the embedding's).

        Raises:
            ValueError: if the weight is packed in another way already.
        """
        if self.packing != "plain":
            if packing in (self.packing, "lossless"):
                return
            raise ValueError(f"this layer's weight is already held as {self.packing!r} and cannot be packed again")
        source = self.weight if weight is None else weight
        if source is None:
            return
        source = source.detach()
        if packing == "lossless":
            packing = "float16" if can_pack(source, "float16") and fits_half(source) else "packed"
        if packing == "plain" or not can_pack(source, packing):
            return
        self._is_rounded = packing == "float16" and not fits_half(source)
        self.weight, self._packed, self.packing = None, _LAYOUTS[packing](source), packing

    def dense_weight(self) -> Tensor:
        """The (out, in) weight as a plain tensor, whatever the packing.

        Raises:
            ValueError: if packing rounded it: the weight that was loaded is gone.
        """
        if self._is_rounded:
            raise ValueError("weights='float16' rounded these weights; load the checkpoint without it to save a copy")
        return self.computed_weight()

    def computed_weight(self) -> Tensor:
        """The (out, in) weight that the layer computes with, rounded or not."""
        if self.weight is not None:
            return self.weight.detach()
        if self.packing == "packed":
            return self._packed.to_dense()
        # The layout cannot be read, but a product with the identity is exact.
        return _half_product(torch.eye(self.in_features, dtype=torch.float32), self._packed, None).t().contiguous()

    def __getstate__(self) -> dict[str, Any]:
        """What pickling and copying take: packed weights have no storage, so a plain one stands in."""
        state = self.__dict__.copy()
        if self.packing != "plain":
            state["_packed"] = self.computed_weight()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Pack again what ``__getstate__`` unpacked."""
        self.__dict__.update(state)
        if self.packing != "plain":
            self._packed = _LAYOUTS[self.packing](self._packed)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        if self.weight is not None:
            return F.linear(x, self.weight, self.bias)
        if self.packing == "packed":
            out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self.bias, "none", [], "")
            return out
        out = _half_product(x.reshape(-1, x.shape[-1]), self._packed, self.bias)
        return out.view(*x.shape[:-1], out.shape[-1])


def _pack_float16(weight: Tensor) -> Tensor:
    """FBGEMM's half-precision layout of an (out, in) weight.

    PyTorch announces once a process that these operators are deprecated. Until a replacement exists that keeps rows
    independent, that is our business and not the caller's, so the announcement is spent here.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="fbgemm_", category=UserWarning)
        packed: Tensor = torch.fbgemm_pack_gemm_matrix_fp16(weight.contiguous())
        _half_product(weight[:1], packed, None)
    return packed


def _pack_float32(weight: Tensor) -> Tensor:
    """The layout oneDNN reads fastest, of an (out, in) weight, in huge pages where there are any."""
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, PACKED_FOR_ROWS)
    use_huge_pages(torch.ops.mkldnn.data_ptr(packed), torch.ops.mkldnn._nbytes(packed))
    return packed


_LAYOUTS: dict[Packing, Callable[[Tensor], Tensor]] = {"packed": _pack_float32, "float16": _pack_float16}


def _half_product(x: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    """(R, in) float32 rows times a half-precision weight, plus a bias: (R, out)."""
    return torch.fbgemm_linear_fp16_weight_fp32_activation(x, packed, bias)
