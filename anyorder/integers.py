"""What counts as an integer where a caller gives one: all that Python indexes with, numpy's integers too, but no bool.

Checked values are handed on as Python's own integers, since torch takes no others for a seed.
"""

from __future__ import annotations

import operator
from typing import SupportsIndex


def as_integer(value: object) -> int | None:
    """The value as an ``int``; ``None`` if it is no integer."""
    if type(value) is int:
        return value
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        return None
    # torch indexes with a list of one number and with a bool too
    if getattr(value, "ndim", 0) or str(getattr(value, "dtype", "")) == "torch.bool":
        return None
    try:
        return operator.index(value)
    except TypeError:  # arrays have the method and refuse when they hold several numbers
        return None


def check_integer(name: str, value: object, *, least: int, most: int | None = None, note: str = "") -> int:
    """The value as an ``int``, if it is one from ``least`` to ``most``; ``note`` tells what else is allowed.

    Raises:
        TypeError: if it is no integer.
        ValueError: if it is out of range.
    """
    number, remark = as_integer(value), f" ({note})" if note else ""
    if number is None:
        raise TypeError(f"{name} must be an integer{remark}; got {value!r} ({type(value).__name__})")
    if number < least or (most is not None and number > most):
        bound = f"at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} must be {bound}{remark}; got {number}")
    return number
