"""The judge holds the tests and decides; the program's function is to it a remote one that returns plain data.

A program therefore has no pass mark to print, no nonce to steal and no test to patch: the tests run in this process,
which the program cannot see, read or signal, and the verdict is written here.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any

from infill_eval.jail import isolate, linux, supervisor, wire


class Unanswered(BaseException):
    """No answer came and none will; not an ``Exception``, so that no test can swallow it."""

    def __init__(self, status: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class Function:
    """The program's entry point as the tests see it: a call crosses to the worker and comes back as data."""

    def __init__(self, requests: int, answers: int, reports: int, deadline: float) -> None:
        self._requests = requests
        self._answers = answers
        self._reports = reports
        self._deadline = deadline
        self.failure: Unanswered | None = None

    def define(self, source: str, entry_point: str) -> None:
        """Have the worker run the program; Unanswered if that raises."""
        reply = self._ask({"source": source, "entry_point": entry_point})
        if "raised" in reply:
            name, message = reply["raised"]
            raise self._failed("error", f"the program raised {name}: {message}")

    def __call__(self, *args: object, **kwargs: object) -> object:
        """What the program's function returns, or the builtin exception it raises."""
        call = {
            "args": [wire.encode(value) for value in args],
            "kwargs": {name: wire.encode(value) for name, value in kwargs.items()},
        }
        reply = self._ask(call)
        if "raised" in reply:
            name, message = str(reply["raised"][0]), str(reply["raised"][1])
            kind = getattr(builtins, name, None)
            if isinstance(kind, type) and issubclass(kind, Exception):
                raise kind(message)
            raise self._failed("error", f"the function raised {name}: {message}")
        return wire.decode(reply["value"])

    def _ask(self, message: object) -> dict[str, Any]:
        try:
            wire.send(self._requests, message)
            reply = wire.receive(self._answers, self._deadline)
        except TimeoutError:
            raise self._failed("timeout", "no answer within the time limit") from None
        except (EOFError, BrokenPipeError):
            raise self._failed(*self._why_it_ended()) from None
        except wire.WireError as error:
            raise self._failed("error", str(error)) from None
        if not isinstance(reply, dict) or not reply.keys() & {"defined", "value", "raised"}:
            raise self._failed("error", "the program wrote to the pipe something that is no answer")
        return reply

    def _why_it_ended(self) -> tuple[str, str]:
        try:
            report: Any = wire.receive(self._reports, time.monotonic() + 5.0)
        except (EOFError, TimeoutError, wire.WireError):
            return "crashed", "the program's process ended"
        if "refused" in report:
            return "refused", report["refused"]
        code = report["ended"]
        if code == -signal.SIGXCPU or code == -signal.SIGKILL:
            return "timeout", "the program's process used up its processor time or was killed"
        return "crashed", f"the program's process ended by itself (exit status {code})"

    def _failed(self, status: str, detail: str) -> Unanswered:
        self.failure = Unanswered(status, detail)
        return self.failure


def examine(function: Function, problem: Mapping[str, str]) -> tuple[str, str]:
    """The verdict on a program: every statement of the tests has to be reached without an exception."""
    try:
        function.define(problem["source"], problem["entry_point"])
        namespace: dict[str, Any] = {"__name__": "tests"}
        exec(compile(problem["preamble"], "<preamble>", "exec"), namespace)  # the dataset's own code, not the model's
        namespace[problem["entry_point"]] = function
        exec(compile(problem["tests"], "<tests>", "exec"), namespace)
        namespace["check"](function)
    except Unanswered as unanswered:
        return unanswered.status, unanswered.detail
    except AssertionError as error:
        return "failed", f"a test failed: {_message(error)}"
    except BaseException as error:
        return "failed", f"a test raised {type(error).__name__}: {_message(error)}"
    if function.failure is not None:
        return function.failure.status, function.failure.detail
    return "passed", ""


def _message(error: BaseException) -> str:
    """What an exception says; one that carries an answer may be unprintable, as an integer of 5,000 digits is."""
    try:
        return str(error)[:200]
    except Exception as unprintable:
        return f"its message is unprintable: {unprintable}"


def main() -> None:
    """Isolate, start the worker, and only then read the tests; the verdict is the one frame on the standard output."""
    header: Any = wire.receive(0)
    verdicts = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)
    try:
        if header["isolation"] == "namespaces":
            isolate.enter_namespaces(header["root"], header["worker_user"], header["limits"]["file_bytes"])
        elif header["isolation"] == "user":
            os.chown(header["root"], header["worker_user"], header["worker_user"])
        function, lifeline, child = _start_worker(header)
        problem: Any = wire.receive(0)
        if header["isolation"] != "namespaces":
            _import_ahead(problem["preamble"], problem["tests"])
        _retire(header)
    except OSError as error:
        wire.send(verdicts, {"status": "refused", "detail": str(error)})
        return
    status, detail = examine(function, problem)
    os.close(lifeline)
    os.waitpid(child, 0)  # when the supervisor is gone, so is everything it supervised
    wire.send(verdicts, {"status": status, "detail": detail})


def _start_worker(header: Mapping[str, Any]) -> tuple[Function, int, int]:
    requests, answers, lifeline, reports = os.pipe(), os.pipe(), os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for fd in (0, requests[1], answers[0], lifeline[1], reports[0]):
                os.close(fd)
            supervisor.supervise(header, requests[0], answers[1], lifeline=lifeline[0], reports=reports[1])
            code = 0
        finally:
            os._exit(code)
    for fd in (requests[0], answers[1], lifeline[0], reports[1]):
        os.close(fd)
    deadline = time.monotonic() + header["limits"]["seconds"]
    return Function(requests[1], answers[0], reports[0], deadline), lifeline[1], child


def _import_ahead(*sources: str) -> None:
    """Import what the tests will, while this process may still read the interpreter's directory."""
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            for name in names:
                with contextlib.suppress(ImportError):
                    __import__(name)


def _retire(header: Mapping[str, Any]) -> None:
    """The judge too works without rights, as another user than the worker where root can arrange it."""
    limits = dict(header["limits"], cpu_seconds=header["limits"]["cpu_seconds"] + 10, processes=0)
    isolate.become(header["judge_user"], header["judge_user"])
    isolate.limit(limits)
    if sys.platform == "linux":
        linux.forbid_inspection()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
