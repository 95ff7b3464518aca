"""Reading one tensor at a time from a checkpoint's weight files, whichever of three formats they have."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor


@contextmanager
def open_weights(directory: Path) -> Iterator[Callable[[str], Tensor]]:
    """A function from a Hugging Face tensor name to the tensor, reading only what is asked for.

    ``model.safetensors``, its sharded form with an index, and ``pytorch_model.bin`` (memory-mapped, tensors only) are
    understood, in this order.

    Raises:
        ValueError: if there are no weights, they are damaged, or a tensor asked for is not among them.
    """
    single, index, pickled = (
        directory / name for name in ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")
    )
    with ExitStack() as stack:
        if single.is_file():
            yield _from_files({}, single, stack)
        elif index.is_file():
            try:
                where = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
            except (UnicodeDecodeError, json.JSONDecodeError, KeyError) as error:
                raise ValueError(f"{index} is damaged: {error!r}") from None
            yield _from_files({name: directory / file for name, file in where.items()}, index, stack)
        elif pickled.is_file():
            yield _from_pickle(pickled)
        else:
            raise ValueError(f"{directory} has no weights: expected model.safetensors or pytorch_model.bin")


def _from_files(where: dict[str, Path], listing: Path, stack: ExitStack) -> Callable[[str], Tensor]:
    """Read from safetensors files: a tensor's file is named in ``where``, or it is ``listing`` itself."""
    opened: dict[Path, safe_open] = {}

    def read(name: str) -> Tensor:
        file = where.get(name) if where else listing
        if file is None:
            raise ValueError(f"{listing} has no tensor {name}: is it an XLNetLMHeadModel checkpoint?")
        if file not in opened:
            try:
                opened[file] = stack.enter_context(safe_open(file, framework="pt"))
            except (SafetensorError, OSError) as error:
                raise ValueError(f"{file} cannot be read: {error}; is it complete?") from None
        try:
            tensor: Tensor = opened[file].get_tensor(name)  # type: ignore[no-untyped-call]
        except SafetensorError:
            raise ValueError(f"{file} has no tensor {name}: is it an XLNetLMHeadModel checkpoint?") from None
        return tensor

    return read


def _from_pickle(file: Path) -> Callable[[str], Tensor]:
    try:
        tensors = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except (RuntimeError, pickle.UnpicklingError, OSError, EOFError) as error:
        raise ValueError(f"{file} cannot be read as a checkpoint of plain tensors: {error}") from None

    def read(name: str) -> Tensor:
        if name not in tensors:
            raise ValueError(f"{file} has no tensor {name}: is it an XLNetLMHeadModel checkpoint?")
        tensor: Tensor = tensors[name]
        return tensor

    return read
