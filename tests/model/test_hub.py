"""A Hub that is silent, refuses or is out of reach costs seconds and gives one sentence; what was fetched stays."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import huggingface_hub
import pytest
from errors import assert_said_by_the_library

import anyorder
from anyorder.model import hub

OWN = "anyorder-sentencepiece"


@pytest.fixture
def hub_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Moves the Hub to a local port, with an empty cache."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))

    def move(port: int) -> None:
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", f"http://127.0.0.1:{port}")

    return move


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A server that takes connections and never answers, as a network that drops packets seems to."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


class Refusal(BaseHTTPRequestHandler):
    """Answers that there is no such repository."""

    def do_GET(self) -> None:
        self.send_response(404)
        self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        """Keep quiet."""


def test_a_hub_that_nobody_listens_at_is_an_error_at_once(hub_at: Callable[[int], None]) -> None:
    hub_at(9)
    began = time.monotonic()
    with pytest.raises(
        ValueError, match=r"cannot get 'owner/name' \(revision main\) from the Hub: .*refused"
    ) as caught:
        anyorder.load("owner/name")
    assert time.monotonic() - began < 10
    assert_said_by_the_library(caught.value)


def test_a_hub_that_does_not_answer_is_waited_for_no_longer_than_said(
    hub_at: Callable[[int], None], silent_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hugging Face's client alone waits for ever here."""
    hub_at(silent_port)
    monkeypatch.setattr(hub, "PATIENCE", 0.3)
    began = time.monotonic()
    with pytest.raises(
        ValueError, match=r"cannot get 'owner/name' \(revision v2\) from the Hub: .*timed out"
    ) as caught:
        anyorder.load("owner/name", revision="v2")
    assert time.monotonic() - began < 10
    assert_said_by_the_library(caught.value)


def test_what_the_hub_refuses_is_passed_on_in_one_sentence(hub_at: Callable[[int], None]) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusal) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        hub_at(server.server_port)
        with pytest.raises(ValueError, match=r"cannot get 'owner/name' .* from the Hub: .*404.*\(bundled: ") as caught:
            anyorder.load("owner/name")
        server.shutdown()
    assert_said_by_the_library(caught.value)


def test_a_checkpoint_fetched_before_loads_without_a_network(
    hub_at: Callable[[int], None], checkpoint: Path, tmp_path: Path
) -> None:
    hub_at(9)
    repository = tmp_path / "cache" / "models--owner--name"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "v1").write_text("0" * 40)
    shutil.copytree(checkpoint, repository / "snapshots" / ("0" * 40))
    assert anyorder.load("owner/name", revision="v1", codec=OWN).name == "owner/name@v1"
    with pytest.raises(ValueError, match=r"cannot get 'owner/name' \(revision v2\)"):
        anyorder.load("owner/name", revision="v2", codec=OWN)


def test_a_name_the_hub_does_not_take_is_an_error_that_says_so(hub_at: Callable[[int], None]) -> None:
    hub_at(9)
    with pytest.raises(ValueError, match=r"cannot get 'ow ner/na me' .*alphanumeric") as caught:
        anyorder.load("ow ner/na me")
    assert_said_by_the_library(caught.value)


def test_bundled_models_are_those_with_a_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "PRETRAINED", tmp_path)
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").touch()
    (tmp_path / "unfinished").mkdir()
    assert hub.bundled() == ["a", "b"]
    assert hub.find("a", None) == tmp_path / "a"
