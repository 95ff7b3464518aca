"""Flag values that are more than a word: spans, token lists, lengths, orders; and reading and writing exact text."""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

from anyorder.spans import MaskPositions

_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\r": "\r", "\\\\": "\\"}


def parse_span(value: str) -> tuple[int, int] | slice:
    """``3:9``, ``-5:`` or ``:4`` as Python reads them, for characters."""
    match = re.fullmatch(r"(-?\d*):(-?\d*)", value)
    if not match or "-" in match.groups():
        raise argparse.ArgumentTypeError(f"a span is written A:B, for instance 3:9, -5: or :4; got {value!r}")
    start, end = (int(side) if side else None for side in match.groups())
    return slice(start, end) if start is None or end is None else (start, end)


def parse_tokens(value: str) -> list[int]:
    """``3,4,8`` or ``3-7,12``: token indices; of six digits at most, since a run of them is written out."""
    indices: list[int] = []
    for item in value.split(","):
        match = re.fullmatch(r"(-?\d{1,6})|(\d{1,6})-(\d{1,6})", item.strip())
        if not match:
            raise argparse.ArgumentTypeError(
                f"token indices are written 3,4,8 or 3-7,12, with at most 6 digits; got {value!r}"
            )
        first, last = (int(match[1]),) * 2 if match[1] else (int(match[2]), int(match[3]))
        if last < first:
            raise argparse.ArgumentTypeError(f"a run of token indices goes up, as in 3-7; got {item.strip()!r}")
        indices += range(first, last + 1)
    return indices


def parse_length(value: str) -> str | int | list[int] | range:
    """``same``, ``5``, ``5,3`` (one a blank) or ``2:9`` (the best of 2 to 8)."""
    if value == "same":
        return value
    if re.fullmatch(r"\d+", value):
        return int(value)
    if re.fullmatch(r"\d+(,\d+)+", value):
        return [int(item) for item in value.split(",")]
    if match := re.fullmatch(r"(\d+):(\d+)", value):
        return range(int(match[1]), int(match[2]))
    raise argparse.ArgumentTypeError(f"a length is same, 5, 5,3 (one a blank) or a range 2:9 (up to 8); got {value!r}")


def parse_order(value: str) -> str | list[int]:
    """A name, or ``2,0,1``."""
    return [int(item) for item in value.split(",")] if re.fullmatch(r"\d+(,\d+)*", value) else value


def parse_forbidden(value: str) -> str:
    r"""A string in which ``\n``, ``\t``, ``\r`` and ``\\`` mean what they mean in Python."""
    return re.sub(r"\\[ntr\\]", lambda match: _ESCAPES[match.group()], value)


def read_text(arguments: argparse.Namespace) -> str:
    """The text of the command line: the argument itself, a file, or standard input; line ends are kept as they are."""
    if arguments.file is not None:
        return _decode(Path(arguments.file).read_bytes(), arguments.file)
    if arguments.text is None:
        raise ValueError("no text was given: pass it as an argument, with --file PATH, or - for standard input")
    if arguments.text == "-":
        return _decode(sys.stdin.buffer.read(), "standard input")
    return str(arguments.text)


def read_positions(arguments: argparse.Namespace) -> MaskPositions | None:
    """The blanks of the command line; ``None`` if there are none and markers count."""
    if arguments.spans and arguments.tokens:
        raise ValueError("--span and --tokens cannot be mixed")
    positions: MaskPositions | None = arguments.spans or arguments.tokens
    return positions


def write_text(text: str) -> None:
    """Exactly this text to standard output; on a terminal a newline follows, so that the prompt has its own line."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8"))
    if sys.stdout.isatty() and not text.endswith("\n"):
        sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()


def to_json(value: dict[str, Any]) -> str:
    """One line of JSON that any reader takes: ASCII, and ``null`` for what JSON has no number for (NaN, Infinity)."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _decode(content: bytes, source: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{source} is not UTF-8: byte {error.start} is 0x{content[error.start]:02x}") from None
