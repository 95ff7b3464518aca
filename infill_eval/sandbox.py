"""The caller's side of the sandbox: one fresh interpreter a program, killed by the clock, judged from outside.

What is guaranteed, at isolation ``namespaces`` (Linux, user namespaces allowed, or root): the program sees no file but
the standard library and system libraries, read-only; no network, no process but its own, no environment; it leaves no
file and no process; it never sees the tests, so it passes only by returning right values through its entry point. At
``user`` (root without namespaces) it leaves no process and passes by right values only, but it may read what every user
may read and write where every user may write. At ``none`` it is limited and can do whatever its user can, also tamper
with the process that evaluates it. A system call filter (x86-64, aarch64) closes the network and new namespaces at
every level. Not guaranteed anywhere: protection against flaws of the kernel; and a program that knows HumanEval by
heart may return its answers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from infill_eval.jail import wire

Isolation = Literal["namespaces", "user", "none"]
"""How strongly a program is cut off, strongest first."""

Status = Literal["passed", "failed", "error", "timeout", "crashed"]
"""Every end a program can come to; only the first is a pass."""

_PACKAGE = str(Path(__file__).resolve().parents[1])
_CHILD = "import sys; sys.path.insert(0, {package!r}); from infill_eval.jail.judge import main; del sys.path[0]; main()"
_GRACE_SECONDS = 10.0
_FIRST_USER, _NUM_USERS = 61184, 2048  # the range systemd keeps for users that exist only while a process runs


class SandboxError(RuntimeError):
    """Code may not, or cannot safely, be executed here; never a property of the program."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """Code under test, and the tests it never sees.

    Attributes:
        source: the program.
        entry_point: the name of the function the tests call.
        tests: trusted code that defines ``check(candidate)``.
        preamble: trusted code that defines what the tests use besides the entry point.
    """

    source: str
    entry_point: str
    tests: str
    preamble: str = ""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one program may use.

    Attributes:
        seconds: wall clock, for the program and all of its tests; generous, so that a busy machine changes no verdict.
        cpu_seconds: processor time of each process; what ends an endless loop.
        memory_bytes: address space of each process.
        file_bytes: size of a file, and of the whole working directory under ``namespaces``.
        processes: processes and threads at a time.
        open_files: file descriptors of each process.
    """

    seconds: float = 30.0
    cpu_seconds: int = 3
    memory_bytes: int = 512 * 1024 * 1024
    file_bytes: int = 8 * 1024 * 1024
    processes: int = 8
    open_files: int = 64

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value <= 0:
                raise ValueError(f"limit {name} must be positive, got {value}")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How a program ended: ``passed`` means that every test was reached and held."""

    status: Status
    detail: str = ""

    @property
    def passed(self) -> bool:
        """Whether every test held."""
        return self.status == "passed"


class Sandbox:
    """Runs programs, once the user has said that code may be executed.

    Args:
        allow_code_execution: the user's explicit consent.
        unsafe_execution: consent to run with limits alone where no isolation is possible.
        limits: what each program may use.
        isolation: a level to use instead of the strongest one available.
        python: the interpreter to run programs with.

    Raises:
        SandboxError: without consent, or where isolation is impossible and ``unsafe_execution`` is not given.
    """

    def __init__(
        self,
        *,
        allow_code_execution: bool,
        unsafe_execution: bool = False,
        limits: Limits | None = None,
        isolation: Isolation | None = None,
        python: str = sys.executable,
    ) -> None:
        if not allow_code_execution:
            raise SandboxError(
                "this task executes programs written by a model; if you agree to that, pass --allow-code-execution"
            )
        self.limits = limits if limits is not None else Limits()
        self._python = python
        reasons: list[str] = []
        self.isolation: Isolation = isolation or strongest_isolation(python=python, reasons=reasons)
        if self.isolation == "none" and not unsafe_execution:
            why = "; ".join(reasons) or "it was asked for"
            raise SandboxError(
                "programs cannot be isolated here, only limited, and could read, change or delete your files "
                f"({why}); run as root or allow user namespaces, or accept the risk with --unsafe-execution"
            )

    def run(self, program: Program) -> Verdict:
        """Judge one program.

        Raises:
            SandboxError: if the isolation could not be set up or the program could not be stopped.
        """
        status, detail = _execute(program, self.limits, self.isolation, self._python)
        if status == "refused":
            raise SandboxError(f"the sandbox ({self.isolation}) could not be set up: {detail}")
        return Verdict(status=status, detail=detail)

    def run_many(self, programs: Iterable[Program], *, workers: int | None = None) -> Iterator[Verdict]:
        """Judge programs side by side, verdicts in their order; ``workers`` defaults to the number of usable cores."""
        pool = ThreadPoolExecutor(workers or usable_cores())
        try:
            yield from pool.map(self.run, programs)
        finally:  # after an error or an interrupt, what has not started never does
            pool.shutdown(cancel_futures=True)


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def strongest_isolation(*, python: str = sys.executable, reasons: list[str] | None = None) -> Isolation:
    """The strongest level at which a harmless program passes here; ``reasons`` collects why others were refused."""
    harmless = Program(
        source="def one():\n    return 1\n", entry_point="one", tests="def check(f):\n    assert f() == 1\n"
    )
    for level in get_args(Isolation)[:2]:
        if level == "namespaces" and sys.platform != "linux":
            continue
        if level == "user" and os.geteuid() != 0:
            continue
        try:
            status, detail = _execute(harmless, Limits(), level, python)
        except SandboxError as error:
            status, detail = "refused", str(error)
        if status == "passed":
            return level  # type: ignore[no-any-return]
        if reasons is not None:
            reasons.append(f"{level}: {detail}")
    return "none"


def _execute(program: Program, limits: Limits, isolation: Isolation, python: str) -> tuple[Any, str]:
    try:
        problem = wire.frame(vars(program))
    except wire.WireError as error:
        return "error", f"the program is too long: {error}"
    with tempfile.TemporaryDirectory(prefix="infill-eval-", ignore_cleanup_errors=True) as scratch:
        process = subprocess.Popen(
            [python, "-I", "-S", "-c", _CHILD.format(package=_PACKAGE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=scratch,
            env={"LC_ALL": "C.UTF-8"},
            start_new_session=True,
        )
        user = _FIRST_USER + 2 * (process.pid % _NUM_USERS)
        header = {
            "isolation": isolation,
            "root": scratch,
            "worker_user": user if os.geteuid() == 0 else os.geteuid(),
            "judge_user": user + 1 if os.geteuid() == 0 else os.geteuid(),
            "limits": vars(limits),
        }
        try:
            output, _ = process.communicate(wire.frame(header) + problem, timeout=limits.seconds + _GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return _collect_late(process)
    try:
        verdict = wire.unframe(output)
    except wire.WireError:
        if process.returncode < 0:  # killed by a limit that the program's answers made it reach
            return "crashed", f"the judge was stopped by signal {-process.returncode}"
        status = process.returncode
        raise SandboxError(f"{python} ended with exit status {status} and no verdict; is it Python 3.11+?") from None
    return verdict["status"], verdict["detail"]


def _collect_late(process: subprocess.Popen[bytes]) -> tuple[Any, str]:
    """After the judge was killed: wait until the supervisor, which shares its output, has ended everything."""
    try:
        process.communicate(timeout=_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        raise SandboxError("a program could not be stopped") from None
    return "timeout", "the judge did not finish within the time limit"
