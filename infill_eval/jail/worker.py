"""The worker runs the program under test and answers calls of one of its functions; it never sees a test.

It starts after privileges, namespaces and file system are gone, with two pipes as its only open files. Whatever the
program does here (exit, patch builtins, walk frames, write to the pipes), all it can send is answers, and only right
answers pass.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from typing import Any

from infill_eval.jail import isolate, linux, seccomp, wire

PRELOADED = (
    "bisect",
    "collections",
    "concurrent.futures.thread",
    "copy",
    "dataclasses",
    "datetime",
    "decimal",
    "enum",
    "fractions",
    "functools",
    "glob",
    "hashlib",
    "heapq",
    "itertools",
    "json",
    "math",
    "operator",
    "random",
    "re",
    "socket",
    "statistics",
    "string",
    "tempfile",
    "threading",
    "time",
    "typing",
)
"""Modules imported beforehand where the program's user may be unable to read the interpreter's own directory."""


def start(header: Mapping[str, Any], requests: int, answers: int) -> None:
    """Give up all rights and files but the two pipes, bound what is left, and serve until the judge is done."""
    os.setsid()
    if header["isolation"] != "namespaces" and os.geteuid() == 0:
        for name in PRELOADED:
            __import__(name)
    _keep_only(requests, answers)
    if sys.platform == "linux":
        isolate.volunteer_for_out_of_memory()
    isolate.become(header["worker_user"], header["worker_user"])
    isolate.limit(header["limits"])
    if sys.platform == "linux":
        linux.forbid_inspection()
        if seccomp.supported():
            seccomp.install()
    for name in [name for name in sys.modules if name.split(".")[0] == "infill_eval"]:
        del sys.modules[name]
    os.environ.clear()
    serve(3, 4)


def _keep_only(requests: int, answers: int) -> None:
    """Pipes become descriptors 3 and 4, the standard streams the null device, everything else is closed."""
    high = [os.dup2(fd, 200 + index) for index, fd in enumerate((requests, answers))]
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    for index, fd in enumerate(high):
        os.dup2(fd, 3 + index, inheritable=False)
    os.closerange(5, 1024)


def serve(requests: int, answers: int) -> None:
    """Define the program, then answer calls until the judge closes its end."""
    try:
        program: Any = wire.receive(requests)
        namespace: dict[str, Any] = {"__name__": "program"}
        try:
            exec(compile(program["source"], "<program>", "exec"), namespace)  # the one place where generated code runs
            function = namespace[program["entry_point"]]
        except BaseException as error:  # SystemExit is an answer too
            wire.send(answers, {"raised": _described(error)})
            return
        wire.send(answers, {"defined": True})
        while True:
            call: Any = wire.receive(requests)
            wire.send(answers, _answer(function, call))
    except (EOFError, BrokenPipeError):
        return


def _answer(function: Any, call: Any) -> dict[str, object]:
    try:
        args = [wire.decode(form) for form in call["args"]]
        kwargs = {name: wire.decode(form) for name, form in call["kwargs"].items()}
        return {"value": wire.encode(function(*args, **kwargs))}
    except BaseException as error:
        return {"raised": _described(error)}


def _described(error: BaseException) -> list[str]:
    message = ""
    with contextlib.suppress(Exception):  # the program's own __str__ may raise
        message = str(error)[:500]
    return [type(error).__name__, message]
