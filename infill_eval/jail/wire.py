"""What may cross between judge and worker: frames of JSON that can only become plain data.

The worker is hostile. So the judge decodes nothing that could run code (no pickle, no marshal), no frame larger than a
limit, and no object with its own ``__eq__``: an answer is compared as the list, number or string it is, or not at all.
Containers that Python compares by content keep their kind (tuple, set, dict views, ranges); subclasses become their
base.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import Any, cast

MAX_FRAME = 8 * 1024 * 1024
"""Bytes one frame may have; a longer answer is a failed answer."""

_MAX_ITEMS = 1_000_000
_ITERATORS: tuple[type, ...] = (
    map,
    filter,
    zip,
    enumerate,
    reversed,
    type(iter([])),
    type(iter(())),
    type(iter(range(0))),
    type(_ for _ in ()),
)
_VIEWS: dict[str, type] = {"keys": type({}.keys()), "values": type({}.values()), "items": type({}.items())}


class WireError(Exception):
    """A frame that is too long, cut off, late, or not what was expected."""


def frame(message: object) -> bytes:
    """One message as a length and its JSON."""
    body = json.dumps(message).encode()
    if len(body) > MAX_FRAME:
        raise WireError(f"{len(body)} bytes, more than the {MAX_FRAME} that may cross at once")
    return len(body).to_bytes(4, "big") + body


def unframe(data: bytes) -> dict[str, Any]:
    """The one message in ``data``."""
    try:
        message = json.loads(data[4:])
    except (ValueError, RecursionError) as error:
        raise WireError(f"not one frame of JSON: {error}") from None
    if len(data) != 4 + int.from_bytes(data[:4], "big") or not isinstance(message, dict):
        raise WireError(f"not one frame of JSON: {len(data)} bytes")
    return message


def send(fd: int, message: object) -> None:
    """Write one message."""
    left = memoryview(frame(message))
    while left:
        left = left[os.write(fd, left) :]


def receive(fd: int, deadline: float | None = None) -> object:
    """Read one message; ``deadline`` is a time of ``time.monotonic``.

    Raises:
        EOFError: if the other side is gone.
        TimeoutError: if the deadline passes first.
        WireError: if the frame is too long or not JSON.
    """
    length = int.from_bytes(_read(fd, 4, deadline), "big")
    if length > MAX_FRAME:
        raise WireError(f"a frame of {length} bytes, more than the {MAX_FRAME} allowed")
    try:
        message: object = json.loads(_read(fd, length, deadline))
    except (ValueError, RecursionError) as error:
        raise WireError(f"a frame that is not JSON: {error}") from None
    return message


def _read(fd: int, length: int, deadline: float | None) -> bytes:
    data = bytearray()
    while len(data) < length:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                raise TimeoutError
        chunk = os.read(fd, min(length - len(data), 1 << 16))
        if not chunk:
            raise EOFError
        data += chunk
    return bytes(data)


def encode(value: object) -> object:
    """A JSON form of plain data.

    Raises:
        WireError: if ``value`` is not data: a function, an instance of a class of the program's own, a module.
    """
    if value is None or isinstance(value, (bool, str)):
        return str.__str__(value) if isinstance(value, str) else value
    if isinstance(value, (int, float, complex, Fraction, Decimal, bytes, range)):
        return _encode_scalar(value)
    return _encode_container(value)


def _encode_scalar(value: object) -> object:
    if isinstance(value, int):
        plain = int.__add__(value, 0)
        return plain if abs(plain) < 1 << 63 else ["int", hex(plain)]
    if isinstance(value, float):
        return float.__add__(value, 0.0) if value else value  # adding 0.0 would lose the sign of -0.0
    if isinstance(value, complex):
        return ["complex", value.real, value.imag]
    if isinstance(value, Fraction):
        return ["fraction", encode(value.numerator), encode(value.denominator)]
    if isinstance(value, Decimal):
        return ["decimal", str(value)]
    if isinstance(value, range):
        return ["range", *(encode(bound) for bound in (value.start, value.stop, value.step))]
    return ["bytes", bytes(value).hex()]  # type: ignore[call-overload]


def _encode_container(value: object) -> object:
    if isinstance(value, dict):
        return ["dict", [[encode(key), encode(item)] for key, item in dict.items(value)]]
    for kind, base in (("list", list), ("tuple", tuple), ("set", set), ("frozenset", frozenset)):
        if isinstance(value, base):
            return [kind, [encode(item) for item in base.__iter__(value)]]  # type: ignore[arg-type]
    for kind, view in _VIEWS.items():
        if isinstance(value, view):
            return [kind, [encode(item) for item in cast("Iterable[object]", value)]]
    if isinstance(value, _ITERATORS):
        items = list(islice(cast("Iterable[object]", value), _MAX_ITEMS + 1))
        if len(items) <= _MAX_ITEMS:
            return ["iterator", [encode(item) for item in items]]
    raise WireError(f"a value of type {type(value).__name__} is not plain data")


def decode(form: object) -> object:
    """The plain data ``encode`` wrote.

    Raises:
        WireError: if ``form`` is nothing ``encode`` writes.
    """
    if form is None or isinstance(form, (bool, int, float, str)):
        return form
    try:
        kind, *fields = cast("list[Any]", form)
        decoded: object = _DECODERS[kind](*fields)
        return decoded
    except (TypeError, ValueError, KeyError, ArithmeticError, RecursionError) as error:
        raise WireError(f"not a value: {type(error).__name__}") from None


def _decoded(items: list[object]) -> Iterator[object]:
    return map(decode, items)


def _keys(items: list[object]) -> object:
    return dict.fromkeys(_decoded(items)).keys()


def _pairs(items: list[tuple[object, object]]) -> dict[object, object]:
    return {decode(key): decode(item) for key, item in items}


_DECODERS: dict[str, Callable[..., object]] = {
    "int": lambda digits: int(digits, 16),
    "complex": lambda real, imag: complex(real, imag),
    "fraction": lambda top, bottom: Fraction(cast("int", decode(top)), cast("int", decode(bottom))),
    "decimal": lambda digits: Decimal(digits),
    "bytes": bytes.fromhex,
    "range": lambda *bounds: range(*[cast("int", decode(bound)) for bound in bounds]),
    "list": lambda items: list(_decoded(items)),
    "tuple": lambda items: tuple(_decoded(items)),
    "set": lambda items: set(_decoded(items)),
    "frozenset": lambda items: frozenset(_decoded(items)),
    "dict": _pairs,
    "keys": _keys,
    "values": lambda items: dict(enumerate(_decoded(items))).values(),
    "items": lambda items: dict(_decoded(items)).items(),  # type: ignore[arg-type]
    "iterator": lambda items: iter(list(_decoded(items))),
}
