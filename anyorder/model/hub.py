"""Checkpoints: finding them (bundled, a directory, the Hub), reading them without holding the weights twice, saving
them.

A checkpoint is a directory with ``config.json`` (a Hugging Face XLNetConfig plus one ``"anyorder"`` object),
``model.safetensors`` under XLNetLMHeadModel's names, ``tokenizer.model`` and ``README.md``. Directories that Hugging
Face wrote load too; pickles are read with ``weights_only`` alone. The network is built without memory and filled
tensor by tensor, and each layer is packed before the next is read, so the peak is the weights plus one layer.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save_file
from torch import Tensor

from anyorder.codec import Codec, load_codec
from anyorder.model.config import AnyOrderConfig, XLNetConfig
from anyorder.model.convert import export, fill_module, layer_sources, outer_sources
from anyorder.model.linear import Packing
from anyorder.model.loaded import Model
from anyorder.model.weights import open_weights
from anyorder.model.xlnet import XLNet

DEFAULT = "mini-code"
"""The bundled model that ``load()`` returns."""

PRETRAINED = Path(__file__).parent.parent / "pretrained"

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}


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
        weights: how linear layers are held. When omitted, on a CPU in float32: the fastest layout that keeps the stored
            weights. ``"packed"``: fast few-row passes, no gradients. ``"float16"``: half the bytes, faster still, but
            float32 weights are rounded and logits move by about 2e-4. ``"plain"``: trainable.
        codec: a codec or its name, when the checkpoint does not say or says the wrong one.
        tokenizer: a file, directory or Hub id to take the tokenizer from instead of the checkpoint.

    Raises:
        ValueError: if there is no such model, or its files are missing, damaged, or ask for what is not supported.
        TypeError: if an argument has the wrong type.
    """
    if name is not None and not isinstance(name, (str, Path)):
        raise TypeError(f"the model's name must be a string or a path, got {type(name).__name__}")
    place = _device(device)
    packing = _packing(weights, place, dtype)
    return _load(str(name or DEFAULT), revision, place, _dtype(dtype), packing, codec, str(tokenizer or ""))  # type: ignore[arg-type]  # codecs hash by identity


@lru_cache(maxsize=4)
def _load(
    name: str,
    revision: str | None,
    device: torch.device,
    dtype: torch.dtype,
    packing: Packing,
    codec: str | Codec | None,
    tokenizer: str,
) -> Model:
    directory = find(name, revision)
    values = _read_json(directory / "config.json")
    config = XLNetConfig.from_dict(values)
    network = _read_network(directory, config, torch.empty(0, device=device, dtype=dtype), packing)
    known = KNOWN.get((name, revision or "main"))
    stated = AnyOrderConfig.from_dict(values["anyorder"]) if "anyorder" in values else None
    if codec is None or isinstance(codec, str):
        wanted = codec or (stated.codec if stated else known.codec if known else "xlnet")
        codec = load_codec(wanted, _tokenizer_file(directory, tokenizer or (known.tokenizer if known else "")))
    if codec.vocab_size > config.vocab_size:
        raise ValueError(f"the tokenizer has {codec.vocab_size} ids, but the model only {config.vocab_size}")
    card = directory / "README.md"
    return Model(
        name=name,
        network=network,
        codec=codec,
        settings=_settings(stated, codec, config),
        card=card.read_text(encoding="utf-8") if card.is_file() else "",
    )


def _settings(stated: AnyOrderConfig | None, codec: Codec, config: XLNetConfig) -> AnyOrderConfig:
    """What the checkpoint states, completed by the codec; ids that stand for no piece get no mass either."""
    nameless = range(codec.vocab_size, config.vocab_size)
    forbidden = tuple(sorted({*codec.forbidden_ids, *nameless, *(stated.forbidden_ids if stated else ())}))
    given = {name: getattr(stated, name) for name in ("order", "max_length", "acceptance")} if stated else {}
    return AnyOrderConfig(codec=codec.name, mask_id=codec.mask_id, forbidden_ids=forbidden, **given)


def find(name: str, revision: str | None) -> Path:
    """The directory of a checkpoint: bundled, local, or fetched from the Hub.

    Raises:
        ValueError: naming the bundled models, if nothing is found.
    """
    if name in bundled():
        return PRETRAINED / name
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    offer = f"bundled: {', '.join(bundled()) or 'none'}; otherwise a checkpoint directory or a Hub id 'owner/name'"
    if path.exists():
        raise ValueError(f"{name} is a file; a checkpoint is a directory with config.json and weights")
    if name.count("/") != 1 or name.startswith((".", "/", "~")):
        raise ValueError(f"unknown model {name!r} ({offer})")
    return Path(_fetch(name, revision, ["*.json", "*.safetensors", "*.bin", "*.model", "*.md"], offer))


def _fetch(repository: str, revision: str | None, patterns: list[str], offer: str) -> str:
    """Download from the Hub, or use what was downloaded before."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return snapshot_download(repository, revision=revision, allow_patterns=patterns)
    except (HfHubHTTPError, LocalEntryNotFoundError, HFValidationError, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(
            f"cannot get {repository!r} (revision {revision or 'main'}) from the Hub: {reason} ({offer})"
        ) from None


def _tokenizer_file(directory: Path, tokenizer: str) -> Path:
    """The SentencePiece model: an explicit file, directory or Hub id wins over the checkpoint's own."""
    place = Path(tokenizer).expanduser() if tokenizer else directory
    if place.is_file():
        return place
    if not place.is_dir():
        if tokenizer.count("/") != 1:
            raise ValueError(f"tokenizer: {tokenizer} is neither a file, a directory nor a Hub id 'owner/name'")
        place = Path(_fetch(tokenizer, None, ["*.model"], "give tokenizer= a local file"))
    for name in ("tokenizer.model", "spiece.model"):
        if (place / name).is_file():
            return place / name
    raise ValueError(f"no tokenizer.model or spiece.model in {place}; pass tokenizer= a file, a directory or a Hub id")


def _read_network(directory: Path, config: XLNetConfig, like: Tensor, packing: Packing) -> XLNet:
    """Build the network without memory and fill and pack it layer by layer."""
    with torch.device("meta"):
        network = XLNet(config)
    with open_weights(directory) as read:
        fill_module(network, outer_sources(config), read, like)
        if config.tie_word_embeddings:
            network.head.weight = network.embedding
        for depth in range(config.n_layer):
            layer = network.layer(depth)
            fill_module(layer, layer_sources(config, depth), read, like)
            layer.pack(packing)
    return network.pack(packing).eval()


def save(model: Model, directory: Path, *, dtype: torch.dtype | None = None) -> None:
    """Write a checkpoint directory; see ``Model.save_pretrained``."""
    directory.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: tensor.to(device="cpu", dtype=dtype or model.dtype).contiguous().clone()
        for name, tensor in export(model.network)
    }
    values = model.network.config.to_dict()
    values["dtype"] = str(dtype or model.dtype).removeprefix("torch.")
    values["anyorder"] = model.settings.to_dict()
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
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


def _device(device: str | torch.device | None) -> torch.device:
    try:
        place = torch.device("cpu" if device is None else device)
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise ValueError(f"device must be one this torch has, such as 'cpu'; got {device!r}: {reason}") from None
    return place


def _dtype(dtype: str | torch.dtype | None) -> torch.dtype:
    if dtype is None:
        return torch.float32
    wanted = DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if not isinstance(wanted, torch.dtype) or wanted not in DTYPES.values():
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    return wanted


def _packing(weights: Packing | None, device: torch.device, dtype: str | torch.dtype | None) -> Packing:
    fits = device.type == "cpu" and _dtype(dtype) == torch.float32
    if weights is None:
        return "lossless" if fits else "plain"
    if weights not in ("plain", "packed", "float16"):
        raise ValueError(f"weights must be 'packed', 'float16' or 'plain', got {weights!r}")
    if weights != "plain" and not fits:
        raise ValueError(f"weights={weights!r} needs the CPU and float32, got {device} and {_dtype(dtype)}")
    return weights
