"""What counts as an integer, or as a number, where a caller gives one: Python's, numpy's and torch's, but no bool.

Checked values are handed on as Python's own, since torch takes no others for a seed.
"""

from __future__ import annotations

import math
import numbers
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


def as_number(value: object) -> float | None:
    """The value as a ``float``, an array or a tensor of no dimension too; ``None`` if it is no real number."""
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    try:
        return float(value)
    except OverflowError:  # an integer beyond 1e308
        return -math.inf if isinstance(value, int) and value < 0 else math.inf


def check_number(name: str, value: object) -> float:
    """The value as a ``float``.

    Raises:
        TypeError: if it is no real number.
    """
    number = as_number(value)
    if number is None:
        raise TypeError(f"{name} must be a number; got {value!r} ({type(value).__name__})")
    return number
