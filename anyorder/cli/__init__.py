"""The command ``anyorder``: fill blanks, score text, list models, from a shell.

Standard output carries the result and nothing else, byte for byte; everything meant for a person (progress, the trace,
errors) goes to standard error. Exit status: 0, 2 for input that cannot be used, 1 for anything else that went wrong.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from anyorder.cli.parser import build_parser

OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
"""Exit statuses; 130 is what shells expect of a command that Ctrl-C ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit status; ``arguments`` defaults to the process's own."""
    parsed = build_parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _note
            status: int = parsed.run(parsed)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, say) has enough. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (ValueError, TypeError) as error:
        return _complain(str(error), BAD_INPUT)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError) as error:
        return _complain(f"{error.filename}: {error.strerror}", BAD_INPUT)
    except Exception as error:
        return _complain(f"{type(error).__name__}: {error}", FAILED)
    return status


def _note(message: Warning | str, *_: Any, **__: Any) -> None:
    _complain(f"note: {message}", OK)


def _complain(message: str, status: int) -> int:
    sys.stderr.write(f"anyorder: {message}\n")
    return status
