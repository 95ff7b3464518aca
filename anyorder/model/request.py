"""What a call of ``load`` asks for: its arguments, checked once; equal requests are answered by the same model.

A local directory is part of a request as it is now: a checkpoint that was saved anew is read anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, get_args

import torch

from anyorder.codec import Codec
from anyorder.model.linear import Packing

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}
"""The precisions the network computes in."""


class Request(NamedTuple):
    """The checked arguments of ``load``.

    Attributes:
        name: bundled name, directory or Hub id.
        revision: branch, tag or commit of a Hub id.
        device: where to compute; torch has it.
        dtype: in which precision.
        packing: how linear layers are held.
        codec: a codec, the name of one, or ``None`` for what the checkpoint says.
        tokenizer: where the tokenizer's file is, empty for the checkpoint's own.
        written: inode and time of writing of each file, if ``name`` is a local directory.
    """

    name: str
    revision: str | None
    device: torch.device
    dtype: torch.dtype
    packing: Packing
    codec: str | Codec | None
    tokenizer: str
    written: tuple[tuple[int, int], ...]

    @classmethod
    def checked(
        cls,
        name: str | Path,
        *,
        revision: str | None,
        device: str | torch.device | None,
        dtype: str | torch.dtype | None,
        weights: Packing | None,
        codec: str | Codec | None,
        tokenizer: str | Path | None,
    ) -> Request:
        """The request that these arguments of ``load`` make.

        Raises:
            ValueError: for a device this torch does not have, or a value that is not among those allowed.
            TypeError: if an argument has the wrong type.
        """
        if not isinstance(name, (str, Path)):
            raise TypeError(f"the model's name must be a string or a path, got {type(name).__name__}")
        if not str(name):
            raise ValueError(
                "the model's name must not be empty: leave it out for the default model; '.' is this directory"
            )
        if revision is not None and not isinstance(revision, str):
            raise TypeError(f"revision must be a string, got {type(revision).__name__}")
        if codec is not None and not isinstance(codec, (str, Codec)):
            raise TypeError(f"codec must be a codec or the name of one, got {type(codec).__name__}")
        if tokenizer is not None and not isinstance(tokenizer, (str, Path)):
            raise TypeError(f"tokenizer must be a string or a path, got {type(tokenizer).__name__}")
        place, precision = checked_device(device), floating_dtype(dtype)
        return cls(
            name=str(name),
            revision=revision,
            device=place,
            dtype=precision,
            packing=_packing(weights, place, precision),
            codec=codec,
            tokenizer=str(tokenizer or ""),
            written=_written(str(name)),
        )


def checked_device(device: str | torch.device | None) -> torch.device:
    """A device by name or as torch has it, the CPU if ``None``.

    Raises:
        TypeError: if it is neither.
        ValueError: if this torch does not have it, or it holds no numbers.
    """
    if device is not None and not isinstance(device, (str, torch.device)):
        raise TypeError(f"device must be a string or a torch.device, got {type(device).__name__}")
    try:
        place = torch.device("cpu" if device is None else device)
        torch.empty(0, device=place).cpu()  # fails on a device that holds no numbers ('meta') too
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise ValueError(f"device must be one this torch has, such as 'cpu'; got {device!r}: {reason}") from None
    return place


def floating_dtype(dtype: str | torch.dtype | None) -> torch.dtype:
    """A precision by name or as torch has it, float32 if ``None``.

    Raises:
        ValueError: if it is not one of ``DTYPES``.
    """
    if dtype is None:
        return torch.float32
    wanted = DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if not isinstance(wanted, torch.dtype) or wanted not in DTYPES.values():
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    return wanted


def _packing(weights: Packing | None, device: torch.device, dtype: torch.dtype) -> Packing:
    fits = device.type == "cpu" and dtype == torch.float32
    if weights is None:
        return "lossless" if fits else "plain"
    if weights not in get_args(Packing):
        raise ValueError(f"weights must be one of {', '.join(map(repr, get_args(Packing)))}, got {weights!r}")
    if weights != "plain" and not fits:
        raise ValueError(f"weights={weights!r} needs the CPU and float32, got {device} and {dtype}")
    return weights


def _written(name: str) -> tuple[tuple[int, int], ...]:
    """Which files a local directory holds and when they were written; empty for every other name."""
    try:
        stats = [file.stat() for file in sorted(Path(name).expanduser().iterdir())]
    except (OSError, ValueError, RuntimeError):  # no directory: looking for the model will say what it is instead
        return ()
    return tuple((stat.st_ino, stat.st_mtime_ns) for stat in stats)
