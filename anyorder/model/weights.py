"""Reading one tensor at a time from a checkpoint's weight files, whichever of three formats they have."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor


class Weights(NamedTuple):
    """Tensors that lie in files.

    Attributes:
        names: what there is, by Hugging Face's names.
        read: one tensor by its name; raises ValueError where there is none.
    """

    names: Collection[str]
    read: Callable[[str], Tensor]


@contextmanager
def open_weights(directory: Path) -> Iterator[Weights]:
    """The tensors of a checkpoint, reading only what is asked for.

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
            yield _from_files(None, single, stack)
        elif index.is_file():
            try:
                where = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
                files = {name: directory / file for name, file in where.items()}
            except (UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
                raise ValueError(f"{index} is damaged: {error!r}") from None
            yield _from_files(files, index, stack)
        elif pickled.is_file():
            yield _from_pickle(pickled)
        else:
            raise ValueError(f"{directory} has no weights: expected model.safetensors or pytorch_model.bin")


def _from_files(where: dict[str, Path] | None, listing: Path, stack: ExitStack) -> Weights:
    """Read from safetensors files: a tensor's file is named in ``where``, or it is ``listing`` itself."""
    opened: dict[Path, safe_open] = {}

    def file_of(file: Path) -> safe_open:
        if file not in opened:
            try:
                opened[file] = stack.enter_context(safe_open(file, framework="pt"))
            except (SafetensorError, OSError) as error:
                raise ValueError(f"{file} cannot be read: {error}; is it complete?") from None
        return opened[file]

    def read(name: str) -> Tensor:
        file = listing if where is None else where.get(name)
        if file is None:
            raise ValueError(f"{listing} has no tensor {name}: is it an XLNetLMHeadModel checkpoint?")
        try:
            tensor: Tensor = file_of(file).get_tensor(name)  # type: ignore[no-untyped-call]
        except SafetensorError:
            raise ValueError(f"{file} has no tensor {name}: is it an XLNetLMHeadModel checkpoint?") from None
        return tensor

    names = where.keys() if where is not None else file_of(listing).keys()  # type: ignore[no-untyped-call]
    return Weights(names, read)


def _from_pickle(file: Path) -> Weights:
    try:
        # The format of PyTorch before 1.6, in which XLNet was published, is no archive and cannot be mapped.
        tensors = torch.load(file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file))
    except (RuntimeError, pickle.UnpicklingError, OSError, EOFError, ValueError, LookupError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{file} cannot be read as a checkpoint of plain tensors: {reason}") from None
    if not isinstance(tensors, dict):
        raise ValueError(f"{file} must hold a dictionary of tensors, got {type(tensors).__name__}")

    def read(name: str) -> Tensor:
        tensor = tensors.get(name)
        if not isinstance(tensor, Tensor):
            raise ValueError(f"{file} has no tensor {name}: is it an XLNetLMHeadModel checkpoint?")
        return tensor

    return Weights(tensors.keys(), read)
