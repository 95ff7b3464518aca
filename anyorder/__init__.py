"""Fill blanks anywhere in text or code with any-subset autoregressive models, exactly and fast."""

from __future__ import annotations

__version__ = "0.1.0.dev0"
