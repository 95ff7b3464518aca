"""What every error of the library has in common."""

from __future__ import annotations

import traceback
from pathlib import Path

import anyorder


def assert_said_by_the_library(error: BaseException) -> None:
    """Raised here, in one sentence, with nothing of torch's chained to it."""
    raised_in = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    assert raised_in.is_relative_to(Path(anyorder.__file__).parent), f"the error comes from {raised_in}"
    assert "\n" not in str(error)
