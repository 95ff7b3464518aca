"""A kill or a full disk costs the line being written and nothing before it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from infill_eval.infiller import Sample
from infill_eval.store import SampleFile, StoreError, read_json, read_samples, write_json

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = [Sample(texts=("x" * 50,))]


def test_what_was_appended_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    samples = [Sample(texts=("é\u2028\n",), log_prob=-2.5, stats={"nfe": 3}), Sample(texts=("\ud800",))]
    with SampleFile(path) as file:
        file.append("a/0", samples)
        file.append("b", SAMPLE)
    with SampleFile(path) as file:
        assert file.samples == {"a/0": samples, "b": SAMPLE}


@pytest.mark.parametrize("cut", [1, 10, 60])
def test_a_cut_off_last_line_is_removed_and_the_rest_kept(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "samples.jsonl"
    with SampleFile(path) as file:
        file.append("a", SAMPLE)
        whole = path.read_bytes()
        file.append("b", SAMPLE)
    path.write_bytes(path.read_bytes()[:-cut])
    with SampleFile(path) as file:
        assert list(file.samples) == ["a"]
        assert path.read_bytes() == whole
        file.append("b", SAMPLE)
    with SampleFile(path) as file:
        assert list(file.samples) == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{not json", "line 2, is not a sample record"),
        ('{"id": "x"}', "line 2, is not a sample record .KeyError"),
        ('{"id": "a", "samples": []}', "line 2, repeats the item a"),
        ("[]", "line 2, is not a sample record"),
    ],
)
def test_a_broken_line_in_the_middle_is_an_error_and_nothing_is_changed(
    tmp_path: Path, line: str, message: str
) -> None:
    path = tmp_path / "samples.jsonl"
    with SampleFile(path) as file:
        file.append("a", SAMPLE)
    content = path.read_text() + line + "\n" + path.read_text().replace('"a"', '"c"')
    path.write_text(content)
    with pytest.raises(StoreError, match=message):
        SampleFile(path)
    assert path.read_text() == content


def test_a_full_device_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    path.symlink_to("/dev/full")
    with (
        SampleFile(path) as file,
        pytest.raises(StoreError, match=r"No space left.*0 items before a are kept.*--resume"),
    ):
        file.append("a", SAMPLE)


LIMITED = """
import resource, sys
from pathlib import Path
from infill_eval.infiller import Sample
from infill_eval.store import SampleFile, StoreError
resource.setrlimit(resource.RLIMIT_FSIZE, (350, 350))
with SampleFile(Path(sys.argv[1])) as file:
    for number in range(10):
        try:
            file.append(str(number), [Sample(texts=("x" * 50,))])
        except StoreError as error:
            print(number, error)
            break
"""


def test_a_disk_that_fills_up_in_the_middle_of_a_line_keeps_the_lines_before(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    reached = int(done.stdout.split()[0])
    assert reached > 0
    assert f"the {reached} items before {reached} are kept" in done.stdout
    assert "File too large" in done.stdout
    with SampleFile(path) as file:
        assert list(file.samples) == [str(number) for number in range(reached)]


def test_a_directory_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be opened"):
        SampleFile(tmp_path / "missing" / "samples.jsonl")


def test_json_files_are_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert read_json(path) == {"a": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.json"]


def test_what_is_no_number_is_null_as_strict_readers_of_json_want_it(tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    write_json(path, {"se": math.nan, "rows": [{"x": math.inf}, (1.5, None)]})
    assert json.loads(path.read_text(), parse_constant=pytest.fail) == {"se": None, "rows": [{"x": None}, [1.5, None]]}


@pytest.mark.parametrize(
    ("content", "message"), [(None, "does not exist"), ("{", "is not a JSON file"), ("[1]", "holds no JSON object")]
)
def test_a_json_file_that_is_none_is_named(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "metrics.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(StoreError, match=message) as caught:
        read_json(path)
    assert str(path) in str(caught.value)


def test_every_line_is_json_on_its_own(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    with SampleFile(path) as file:
        for number in range(3):
            file.append(str(number), [Sample(texts=("a\nb\u2028c",))])
    assert [json.loads(line)["id"] for line in path.read_bytes().split(b"\n")[:-1]] == ["0", "1", "2"]


def test_what_is_no_json_is_refused_by_name_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    with SampleFile(path) as file, pytest.raises(StoreError, match=r"returned for a cannot be stored as JSON.*complex"):
        file.append("a", [Sample(texts=("x",), stats={"nfe": 1j})])
    assert path.read_bytes() == b""


def test_two_runs_cannot_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    with SampleFile(path) as file:
        with pytest.raises(StoreError, match="is being written by another run"):
            SampleFile(path)
        file.append("a", SAMPLE)
    with SampleFile(path) as file:
        assert list(file.samples) == ["a"]


def test_reading_changes_nothing_and_needs_no_turn(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    assert read_samples(path) == {}
    assert not path.exists()
    with SampleFile(path) as file:
        file.append("a", SAMPLE)
        with open(path, "ab") as half:
            half.write(b'{"id": "b", "sam')
        before = path.read_bytes()
        assert list(read_samples(path)) == ["a"]
    assert path.read_bytes() == before
