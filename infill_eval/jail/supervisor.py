"""The supervisor starts the worker, outlives whatever it does, and leaves nothing of it behind.

It is the first process of the worker's pid namespace where there is one, keeps its rights, and talks to nobody but the
judge: a report when the worker could not be set up or has ended, and the end of everything when the judge lets go of a
pipe.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from collections.abc import Mapping
from typing import Any

from infill_eval.jail import linux, wire, worker


def supervise(header: Mapping[str, Any], requests: int, answers: int, *, lifeline: int, reports: int) -> None:
    """Run the worker until it ends or the judge closes ``lifeline``; then kill all its processes and wait for them."""
    os.setsid()
    if sys.platform == "linux":
        linux.adopt_orphans()
    wakeup_read, wakeup_write = os.pipe()
    os.set_blocking(wakeup_write, False)
    signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    child = os.fork()
    if child == 0:
        _become_worker(header, requests, answers, reports)
    os.close(requests)
    os.close(answers)
    status: int | None = None
    while status is None:
        ready, _, _ = select.select([lifeline, wakeup_read], [], [])
        if lifeline in ready:
            break
        os.read(wakeup_read, 512)
        status = _reap(child)
    _end(child, header)
    if status is not None:
        with contextlib.suppress(OSError):
            wire.send(reports, {"ended": os.waitstatus_to_exitcode(status)})


def _become_worker(header: Mapping[str, Any], requests: int, answers: int, reports: int) -> None:
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.set_inheritable(reports, False)
        worker.start(header, requests, answers)
        code = 0
    except OSError as error:
        # Before the program runs, ``reports`` is still open; afterwards this send fails, as it should.
        with contextlib.suppress(OSError):
            wire.send(reports, {"refused": str(error)})
    finally:
        os._exit(code)


def _reap(child: int) -> int | None:
    """The worker's wait status if it has ended; also collects adopted orphans."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == child:
            found = status


def _end(child: int, header: Mapping[str, Any]) -> None:
    """Kill every process the program may have left, by the widest net this isolation has, until none is left."""
    for _ in range(100):
        if os.getpid() == 1:
            _kill(-1)  # the namespace is ours alone
        elif header["isolation"] == "user":
            _sweep(header["worker_user"])
        else:
            _kill(-child)
            for orphan in _children():
                _kill(orphan)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        select.select([], [], [], 0.01)


def _sweep(user: int) -> None:
    """Kill everything that runs as ``user``, a number no other run has; one call, so a fork bomb cannot outrun it."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            if os.getuid() == user != 0:
                os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def _kill(target: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(target, signal.SIGKILL)
