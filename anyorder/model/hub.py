"""Checkpoints: finding them (bundled, a directory, the Hub), reading them without holding the weights twice, saving
them.

A checkpoint is a directory with ``config.json`` (a Hugging Face XLNetConfig plus one ``"anyorder"`` object),
``model.safetensors`` under XLNetLMHeadModel's names, ``tokenizer.model`` and ``README.md``. Directories that Hugging
Face wrote load too; pickles are read with ``weights_only`` alone. The network is built without memory and filled
tensor by tensor, and each layer is packed before the next is read, so the peak is the weights plus one layer.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save_file
from torch import Tensor

from anyorder.codec import Codec, load_codec
from anyorder.model.config import AnyOrderConfig, XLNetConfig
from anyorder.model.convert import build, export
from anyorder.model.linear import Packing
from anyorder.model.loaded import Model
from anyorder.model.request import Request, floating_dtype
from anyorder.model.weights import open_weights
from anyorder.model.xlnet import XLNet

DEFAULT = "mini-code"
"""The bundled model that ``load()`` returns."""

PRETRAINED = Path(__file__).parent.parent / "pretrained"


PATIENCE = 10.0
"""Seconds to wait for the Hub's first answer; its own client waits for ever on a network that drops packets."""


class Known(NamedTuple):
    """What a published checkpoint does not say about itself."""

    codec: str
    tokenizer: str


KNOWN = {
    ("therealgabeguo/ASARM", "code"): Known("legacy-asarm-code", "xlnet/xlnet-base-cased"),
    ("therealgabeguo/ASARM", "nlp"): Known("xlnet", "xlnet/xlnet-base-cased"),
    ("therealgabeguo/ASARM", "nlp_210k_plus_75k"): Known("xlnet", "xlnet/xlnet-base-cased"),
}
"""Published checkpoints that hold weights only, by (Hub id, revision)."""


_LOADING: dict[Request, threading.Lock] = {}


def bundled() -> list[str]:
    """The names of the models that come with the package."""
    return sorted(path.parent.name for path in PRETRAINED.glob("*/config.json"))


def load(
    name: str | Path | None = None,
    *,
    revision: str | None = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    weights: Packing | None = None,
    codec: str | Codec | None = None,
    tokenizer: str | Path | None = None,
) -> Model:
    """A model by name: bundled, a local directory, or a Hub id; loaded once a process for the same arguments.

    Args:
        name: a bundled model (the default is ``"mini-code"``), a checkpoint directory, or a Hub id such as
            ``"therealgabeguo/ASARM"``.
        revision: branch, tag or commit of a Hub id.
        device: where to compute; the CPU when omitted.
        dtype: float32 when omitted; bfloat16, float16 and float64 work too.
        weights: how linear layers are held. ``"lossless"``, when omitted on a CPU in float32: the fastest layout that
            keeps the stored weights. ``"packed"``: fast few-row passes, no gradients. ``"float16"``: half the bytes,
            faster still, but float32 weights are rounded and logits move by about 1e-3. ``"plain"``: trainable.
        codec: a codec or its name, when the checkpoint does not say or says the wrong one.
        tokenizer: a file, directory or Hub id to take the tokenizer from instead of the checkpoint.

    Raises:
        ValueError: if there is no such model, or its files are missing, damaged, or ask for what is not supported.
        TypeError: if an argument has the wrong type.
    """
    wanted = Request.checked(
        DEFAULT if name is None else name,
        revision=revision,
        device=device,
        dtype=dtype,
        weights=weights,
        codec=codec,
        tokenizer=tokenizer,
    )
    with _LOADING.setdefault(wanted, threading.Lock()):  # two threads that ask for the same get the same
        return _load_once(wanted)


@lru_cache(maxsize=4)
def _load_once(wanted: Request) -> Model:
    directory = find(wanted.name, wanted.revision)
    values = _read_json(directory / "config.json")
    config = XLNetConfig.from_dict(values)
    stated = AnyOrderConfig.from_dict(values["anyorder"]) if "anyorder" in values else None
    known = KNOWN.get((wanted.name, wanted.revision or "main"))
    codec = wanted.codec
    if codec is None or isinstance(codec, str):
        codec_name = codec or (stated.codec if stated else known.codec if known else "xlnet")
        tokenizer = wanted.tokenizer or (known.tokenizer if known else "")
        codec = load_codec(codec_name, _tokenizer_file(directory, tokenizer))
    if stated and wanted.codec is None and stated.mask_id != codec.mask_id:
        raise ValueError(
            f"config: mask_id is {stated.mask_id}, but codec {codec.name!r} says {codec.mask_id}: is tokenizer.model "
            "the checkpoint's own?"
        )
    settings = _settings(stated, codec, config)
    like = torch.empty(0, device=wanted.device, dtype=wanted.dtype)
    card = directory / "README.md"
    return Model(
        name=wanted.name if wanted.revision is None else f"{wanted.name}@{wanted.revision}",
        network=_read_network(directory, config, like, wanted.packing),
        codec=codec,
        settings=settings,
        card=card.read_text(encoding="utf-8", errors="replace") if card.is_file() else "",
    )


def _settings(stated: AnyOrderConfig | None, codec: Codec, config: XLNetConfig) -> AnyOrderConfig:
    """What the checkpoint states, under the codec that is used."""
    if codec.vocab_size > config.vocab_size:
        raise ValueError(f"the tokenizer has {codec.vocab_size} ids, but the model only {config.vocab_size}")
    if stated is None:
        return AnyOrderConfig(codec=codec.name, mask_id=codec.mask_id)
    if max(stated.forbidden_ids, default=-1) >= config.vocab_size:
        raise ValueError(
            f"config: forbidden_ids must be below vocab_size ({config.vocab_size}), got {max(stated.forbidden_ids)}"
        )
    return replace(stated, codec=codec.name, mask_id=codec.mask_id)


def find(name: str, revision: str | None) -> Path:
    """The directory of a checkpoint: bundled, local, or fetched from the Hub.

    Raises:
        ValueError: naming the bundled models, if nothing is found.
    """
    if name in bundled():
        return PRETRAINED / name
    path = Path(os.path.expanduser(name))  # leaves the home of a user there is none of as it is; Path's raises
    try:
        is_directory, exists = path.is_dir(), path.exists()
    except OSError as error:
        raise ValueError(f"cannot look for a checkpoint at {name[:80]!r}: {error.strerror}") from None
    if is_directory:
        return path
    offer = f"bundled: {', '.join(bundled()) or 'none'}; otherwise a checkpoint directory or a Hub id 'owner/name'"
    if exists:
        raise ValueError(f"{name} is a file; a checkpoint is a directory with config.json and weights")
    if name.count("/") != 1 or name.startswith((".", "/", "~")):
        what = f"there is no directory {name}" if "/" in name else f"unknown model {name!r}"
        raise ValueError(f"{what} ({offer})")
    return Path(_fetch(name, revision, ["*.json", "*.safetensors", "*.bin", "*.model", "*.md"], offer))


def _fetch(repository: str, revision: str | None, patterns: list[str], offer: str) -> str:
    """Download from the Hub, or use what was downloaded before if it does not answer."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    silence: Exception | None = None
    try:
        HfApi().model_info(repository, revision=revision, timeout=PATIENCE)
    except HfHubHTTPError:
        pass  # it answers, and the download will tell what
    except Exception as error:  # httpx's or requests', depending on the client's version
        silence = error
    try:
        return snapshot_download(
            repository, revision=revision, allow_patterns=patterns, local_files_only=silence is not None
        )
    except Exception as error:
        reason = (str(silence or error).splitlines() or [type(silence or error).__name__])[0]
        raise ValueError(
            f"cannot get {repository!r} (revision {revision or 'main'}) from the Hub: {reason} ({offer})"
        ) from None


def _tokenizer_file(directory: Path, tokenizer: str) -> Path:
    """The SentencePiece model: an explicit file, directory or Hub id wins over the checkpoint's own."""
    place = Path(os.path.expanduser(tokenizer)) if tokenizer else directory
    if place.is_file():
        return place
    if not place.is_dir():
        if tokenizer.count("/") != 1 or tokenizer.startswith((".", "/", "~")):
            raise ValueError(f"tokenizer: {tokenizer} is neither a file, a directory nor a Hub id 'owner/name'")
        place = Path(_fetch(tokenizer, None, ["*.model"], "give tokenizer= a local file"))
    for name in ("tokenizer.model", "spiece.model"):
        if (place / name).is_file():
            return place / name
    raise ValueError(f"no tokenizer.model or spiece.model in {place}; pass tokenizer= a file, a directory or a Hub id")


def _read_network(directory: Path, config: XLNetConfig, like: Tensor, packing: Packing) -> XLNet:
    """The network with a checkpoint's weights."""
    # Weights made under a caller's inference mode could never be trained, and a model is loaded once for all callers.
    with torch.inference_mode(False), open_weights(directory) as weights:
        surplus = f"transformer.layer.{config.n_layer}."
        if any(name.startswith(surplus) for name in weights.names):
            raise ValueError(f"{directory} has weights of more layers than config.json says (n_layer={config.n_layer})")
        return build(config, weights.read, like, packing)


def save(model: Model, directory: Path, *, dtype: str | torch.dtype | None = None) -> None:
    """Write a checkpoint directory; see ``Model.save_pretrained``."""
    precision = floating_dtype(model.dtype if dtype is None else dtype)
    tensors = {
        name: tensor.to(device="cpu", dtype=precision).contiguous().clone() for name, tensor in export(model.network)
    }
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"cannot save to {directory}: a file stands there; give a directory") from None
    values = model.network.config.to_dict()
    values["dtype"] = str(precision).removeprefix("torch.")
    values["anyorder"] = model.settings.to_dict()
    # Loaded tensors may be views of the very file that is replaced: it must stay what it was for them.
    partial = directory / "model.safetensors.partial"
    save_file(tensors, partial, metadata={"format": "pt"})
    partial.replace(directory / "model.safetensors")
    (directory / "config.json").write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    model.codec.save(directory)
    card = model.card or f"# {directory.name}\n\nAn any-subset autoregressive model saved by anyorder.\n"
    (directory / "README.md").write_text(card, encoding="utf-8")


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError(f"{path.parent} has no config.json: is it a checkpoint directory?")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold a JSON object, got {type(values).__name__}")
    return values
