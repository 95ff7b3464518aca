"""MARS runs: what is a response, that a killed run goes on as if nothing had been, what is written, what is refused."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor

from anyorder.adapters import mars
from anyorder.codec import SentencePieceCodec
from training.causal_data import ChatData, Example, collate, from_packed, read_chat
from training.fit_mars import main
from training.mars_config import parse
from training.stream import Batch

TINY = (
    *("--objective", "causal", "--width", "32", "--layers", "1", "--heads", "2", "--vocab_size", "400"),
    *("--lengths", "{64: 1.0}", "--tokens_per_step", "256", "--validate_windows", "4", "--validate_every", "100"),
)


def tokens_of(*rows: list[int]) -> Tensor:
    return torch.tensor(rows)


def test_documents_of_a_row_end_with_their_separator_and_prompts_end_anywhere_in_a_block() -> None:
    tokens = tokens_of([5, 6, 0, 7, 8, 9, 0, 3], [1, 2, 3, 4, 5, 6, 7, 8])
    batch = Batch(tokens, torch.zeros_like(tokens).bool(), torch.tensor([8, 6]), [(0, 0), (0, 1)], 2, {"used": 1})
    made = from_packed(batch, separator_id=0, block=4, seed=0)
    assert made.documents is not None
    assert made.documents.tolist() == [[0, 0, 0, 1, 1, 1, 1, 2], [0] * 8]
    assert not made.is_response[1, 6:].any()
    assert made.place == (2, {"used": 1})
    heads = set()
    for number in range(60):
        again = from_packed(batch._replace(keys=[(0, number), (1, number)]), separator_id=0, block=4, seed=0)
        heads |= {int(row.long().argmax()) for row in again.is_response}
    assert heads == {1, 2, 3, 4}


def test_a_chat_counts_its_responses_filled_up_to_a_block_unless_it_was_cut() -> None:
    examples = [Example([1, 2], [3, 4, 9]), Example([1], [2, 9]), Example([1, 2, 3], [4] * 8)]
    batch = collate(examples, block=4, max_length=10, eos_id=9)
    assert batch.tokens.tolist() == [
        [1, 2, 3, 4, 9, 9, 9, 9, 9, 9],
        [1, 2, 9, 9, 9, 9, 9, 9, 9, 9],
        [1, 2, 3, 4, 4, 4, 4, 4, 4, 4],
    ]
    assert batch.is_response.long().tolist() == [
        [0, 0, 1, 1, 1, 1, 1, 1, 0, 0],
        [0, 1, 1, 1, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 1, 1, 1, 1, 1, 1, 1],
    ]


def test_every_epoch_of_a_chat_is_another_order_of_all_of_it_and_any_step_is_found_at_once() -> None:
    examples = [Example([number], [number, 0]) for number in range(10)]
    data = ChatData(
        examples, rows=2, accumulate=1, seed=0, collate=lambda picked: collate(picked, block=1, max_length=9, eos_id=0)
    )
    epochs = [
        torch.cat([data.batch(5 * epoch + step).tokens[:, 0] for step in range(5)]).tolist() for epoch in range(2)
    ]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert epochs[0] != epochs[1]
    assert torch.equal(data.batch(7).tokens, data.batch(7).tokens)


def test_a_line_of_a_chat_that_is_none_is_named(tmp_path: Path) -> None:
    codec = SentencePieceCodec.from_file(Path("anyorder/pretrained/mini-code/tokenizer.model"))
    path = tmp_path / "chat.jsonl"
    path.write_text('{"prompt": "a", "response": "b"}\n\n{"prompt": "a"}\n')
    with pytest.raises(ValueError, match=r"chat\.jsonl:3: a line is"):
        read_chat(path, codec, eos_id=codec.separator_id, block=4, max_length=64)
    path.write_text('{"prompt": "", "response": "b"}\n')
    with pytest.raises(ValueError, match=r"chat\.jsonl:1: prompt and response are text"):
        read_chat(path, codec, eos_id=codec.separator_id, block=4, max_length=64)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--pieces", "windows"), "--pieces packed"),
        (("--lora_rank", "4", "--optimizer", "muon"), "--optimizer adamw"),
        (("--lora_rank", "4", "--objective", "causal"), "nothing for --objective causal to train"),
    ],
)
def test_options_that_contradict_each_other_are_one_sentence(
    flags: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["--out", str(tmp_path / "run"), *flags]) == 2
    assert message in capsys.readouterr().err


def test_the_flags_are_those_of_fit_and_a_few() -> None:
    config = parse(["--block", "8", "--learning_rate", "0.002", "--data", "x.txt", "--minutes", "3"])
    assert (config.mars.block, config.optimizer.learning_rate, config.data.data, config.run.minutes) == (
        8,
        0.002,
        "x.txt",
        3,
    )
    assert config.fit.data.pieces == "packed"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few steps of plain training, in one life."""
    out = tmp_path_factory.mktemp("runs") / "base"
    assert main([*TINY, "--max_steps", "6", "--schedule", "constant", "--out", str(out)]) == 0
    return out


def weights(directory: Path) -> dict[str, Tensor]:
    return mars.load(directory).state_dict()


def test_a_run_that_was_cut_goes_on_as_if_it_had_not_been(base: Path, tmp_path: Path) -> None:
    for steps in ("3", "6"):
        flags = [*TINY, "--max_steps", steps, "--schedule", "constant", "--warmup_steps", "250", "--out", str(tmp_path)]
        assert main(flags) == 0
    whole = weights(base / "last")
    for name, tensor in weights(tmp_path / "last").items():
        assert torch.equal(tensor, whole[name]), name


def test_another_run_in_the_same_place_is_refused(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TINY, "--max_steps", "6", "--schedule", "constant", "--seed", "4", "--out", str(base)]) == 2
    assert "(seed was 0, is 4)" in capsys.readouterr().err


def test_a_model_goes_from_plain_training_to_drafting_on_a_chat_and_a_lora_spares_it(
    base: Path, tmp_path: Path
) -> None:
    chat = tmp_path / "chat.jsonl"
    lines = [json.dumps({"prompt": f"def f{i}(", "response": f"x):\n    return {i}\n"}) for i in range(40)]
    chat.write_text("\n".join(lines))
    full = ["--init_from", str(base), "--block", "3", "--chat", str(chat), "--max_length", "64", "--max_steps", "2"]
    assert main([*full, "--out", str(tmp_path / "full")]) == 0
    tuned = mars.load(tmp_path / "full" / "best")
    assert tuned.block == 3
    before = weights(base / "best")
    assert all(
        not torch.equal(tensor, before[name]) for name, tensor in tuned.state_dict().items() if tensor.dim() == 2
    )
    with (tmp_path / "full" / "log.csv").open() as file:
        assert {"noisy", "density", "kept1", "kept3"} <= set(file.readline().strip().split(","))
    lora = [
        "--init_from",
        str(base / "best"),
        "--lora_rank",
        "2",
        "--max_steps",
        "2",
        *TINY[8:],
        "--validate_windows",
        "2",
    ]
    assert main([*lora, "--out", str(tmp_path / "lora")]) == 0
    adapted = mars.load(tmp_path / "lora" / "last")
    after = adapted.state_dict()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items() if name != "mask_embedding")
    assert any(bool(tensor.any()) for name, tensor in after.items() if name.endswith("for_masks.up"))


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A step on a few lines with responses."""
    path = tmp_path_factory.mktemp("chat") / "chat.jsonl"
    lines = [json.dumps({"prompt": f"def f{i}(", "response": f"x):\n    return {i}\n"}) for i in range(12)]
    path.write_text("\n".join(lines))
    flags = ["--chat", str(path), "--max_length", "48", "--tokens_per_step", "96", "--max_steps", "1"]
    return [*flags, "--validate_windows", "2", "--validate_every", "100"]


@pytest.fixture(scope="module")
def lora(base: Path, chat: list[str]) -> Path:
    """A LoRA trained from a run's directory."""
    out = base.parent / "lora"
    assert main(["--init_from", str(base), "--lora_rank", "2", "--lora_alpha", "6", *chat, "--out", str(out)]) == 0
    return out


def named_base(directory: Path) -> Path:
    return (directory / json.loads((directory / "mars.json").read_text())["base"]).resolve()


def test_a_lora_names_the_model_it_was_trained_on_not_the_run_that_model_lies_in(base: Path, lora: Path) -> None:
    assert named_base(lora / "best") == base / "best"
    mars.load(lora / "best")


@pytest.mark.parametrize("rank", [(), ("--lora_rank", "2")])
def test_training_from_a_lora_goes_on_with_it_and_spares_the_same_base(
    base: Path, lora: Path, chat: list[str], rank: tuple[str, ...], tmp_path: Path
) -> None:
    flags = ["--init_from", str(lora), *rank, *chat, "--learning_rate", "1e-9", "--schedule", "constant"]
    assert main([*flags, "--out", str(tmp_path / "again")]) == 0
    assert named_base(tmp_path / "again" / "best") == base / "best"
    settings = json.loads((tmp_path / "again" / "best" / "mars.json").read_text())
    assert settings["lora"] == {"rank": 2, "alpha": 6.0}
    before, after, whole = weights(lora / "best"), weights(tmp_path / "again" / "best"), weights(base / "best")
    for name, tensor in before.items():
        # At such a rate only what had weights of its own can be near what it was.
        assert torch.allclose(after[name], tensor, atol=1e-6), name
        assert name == "mask_embedding" or name not in whole or torch.equal(after[name], whole[name]), name
    assert any(not torch.equal(after[name], tensor) for name, tensor in before.items() if name.endswith(".up"))


def test_a_lora_that_was_saved_with_its_base_goes_on_so(lora: Path, chat: list[str], tmp_path: Path) -> None:
    mars.save(mars.load(lora / "best"), tmp_path / "whole")
    (tmp_path / "whole" / "tokenizer.model").write_bytes((lora / "best" / "tokenizer.model").read_bytes())
    assert main(["--init_from", str(tmp_path / "whole"), *chat, "--out", str(tmp_path / "run")]) == 0
    assert json.loads((tmp_path / "run" / "best" / "mars.json").read_text())["base"] is None


def test_a_vocabulary_may_lie_in_the_run_instead_of_beside_its_model(
    base: Path, chat: list[str], tmp_path: Path
) -> None:
    shutil.copytree(base / "best", tmp_path / "old" / "best")
    (tmp_path / "old" / "best" / "tokenizer.model").rename(tmp_path / "old" / "tokenizer.model")
    assert main(["--init_from", str(tmp_path / "old"), *chat, "--out", str(tmp_path / "run")]) == 0
    assert (tmp_path / "run" / "best" / "tokenizer.model").read_bytes() == (base / "tokenizer.model").read_bytes()


def test_a_lora_without_a_vocabulary_takes_its_bases(base: Path, lora: Path, chat: list[str], tmp_path: Path) -> None:
    shutil.copytree(lora / "best", tmp_path / "bare")
    (tmp_path / "bare" / "tokenizer.model").unlink()
    settings = json.loads((tmp_path / "bare" / "mars.json").read_text()) | {"base": str(base / "best")}
    (tmp_path / "bare" / "mars.json").write_text(json.dumps(settings))
    assert main(["--init_from", str(tmp_path / "bare"), *chat, "--out", str(tmp_path / "run")]) == 0
    assert (tmp_path / "run" / "best" / "tokenizer.model").read_bytes() == (base / "tokenizer.model").read_bytes()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--optimizer", "muon"), "a LoRA is trained by --optimizer adamw"),
        (("--objective", "causal"), "nothing for --objective causal to train"),
        (("--lora_rank", "3"), "is a LoRA of rank 2, .* got --lora_rank 3"),
        (("--lora_rank", "2", "--lora_alpha", "32"), "is a LoRA of alpha 6, .* got --lora_alpha 32"),
    ],
)
def test_what_a_lora_cannot_go_on_with_is_refused(
    flags: tuple[str, ...],
    message: str,
    lora: Path,
    chat: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--init_from", str(lora), *chat, *flags, "--out", str(tmp_path / "run")]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_the_mask_of_a_run_is_an_id_that_no_text_has(
    base: Path, chat: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codec = SentencePieceCodec.from_file(base / "tokenizer.model")
    flags = ["--init_from", str(base), *chat, "--out", str(tmp_path / "run"), "--mask_id"]
    assert main([*flags, str(codec.separator_id)]) == 2
    assert "which ends every text" in capsys.readouterr().err
    assert main([*flags, str(codec.encode("def")[0])]) == 2
    assert "--mask_id must be an id that no text has, of this vocabulary 0, 1, 2; got" in capsys.readouterr().err
    assert main([*flags, str(codec.mask_id)]) == 0
    assert mars.load(tmp_path / "run" / "best").mask_id == codec.mask_id
