"""Tasks on text: predict the next token, predict hidden tokens, or fine-tune on GLUE."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from manyheads.spec.field_checks import between

from .datasets import CORPUS_VOCAB, SHARDS, TOKENIZER_VOCAB, VALID, BlockOrder, check_corpus, check_split, glue_set
from .errors import UserError
from .recipe import LATER
from .task import SCRATCH, Task


@dataclass(frozen=True)
class PackedText(Task):
    """Sequences of `tokens` ids from a corpus: tinystories, or shards:NAME, which `manyheads tokenize` wrote.

    `vocab` is the number of ids of the tokenizer. It must be stated for shards; embedded corpora have their own.
    `tokenizer` is the sha256 of the tokenizer or its beginning, and is checked if stated. `order` is that of the
    training sequences: `shuffled`, `random` or `given` (see `data.text`). `held` is the share of the training ids, at
    their end, that is held out in place of the corpus's own split (0 for none). `test_limit` keeps only so many
    held-out sequences, the first. `held_split` is the corpus's split with the held-out text: a choice, such as that of a
    learning rate, is made on another one than `valid`.

    `validation` is the share of the other training ids, again at their end, that is kept out of training to choose by.
    It begins with a document where the corpus says where documents end. Every metric is scored on it too
    (`valid_loss`)."""

    data: str = "tinystories"
    tokens: int = 128
    vocab: int | None = None
    tokenizer: str = ""
    order: BlockOrder = "shuffled"
    held: float = 0.0
    test_limit: int | None = None
    held_split: str = field(default=VALID, metadata=LATER, kw_only=True)
    validation: float = field(default=0.0, metadata=LATER, kw_only=True)

    def __post_init__(self) -> None:
        name = type(self).__name__
        super().__post_init__()
        check_corpus(self.data)
        check_split(self.held_split)
        if self.held_split != VALID and (self.held or self.data in CORPUS_VOCAB):
            raise UserError(
                f"{name}.held_split is {self.held_split!r}, and {self.data} with held={self.held:g} has its held-out text "
                f"elsewhere; write data={SHARDS}NAME and held=0"
            )
        between(f"{name}.tokens", self.tokens, 2, whole=True)
        between(f"{name}.held", self.held, 0, 0.9)
        between(f"{name}.validation", self.validation, 0, 0.9)
        for count in ("vocab", "test_limit"):
            if getattr(self, count) is not None:
                between(f"{name}.{count}", getattr(self, count), 1, whole=True)
        if self.vocab is None and self.data not in CORPUS_VOCAB:
            raise UserError(
                f"{name}({self.data!r}) states no vocab, which the name {SHARDS}... does not tell; write "
                "vocab=..., the number of ids in its manifest.json"
            )
        if self.data in CORPUS_VOCAB and self.vocab not in (None, CORPUS_VOCAB[self.data]):
            raise UserError(f"{name}.vocab is {self.vocab}; {self.data} has {CORPUS_VOCAB[self.data]}: leave it out")

    @property
    def ids(self) -> int:
        """Number of ids of the tokenizer."""
        return self.vocab or CORPUS_VOCAB[self.data]


@dataclass(frozen=True)
class LanguageModel(PackedText):
    """Predict each next token of packed text. Scores are `loss` (nats a token), `perplexity`, and `bits`: bits a byte
    of text, which compare across tokenizers."""


@dataclass(frozen=True)
class MaskedLanguage(PackedText):
    """Predict hidden tokens of packed text. Logits are computed for the hidden tokens alone.

    Exactly round(`share` x tokens) of each sequence are chosen: 80 % are replaced by the mask token, 10 % by a random
    one, and 10 % stay as they are, rounded (26, 3 and 3 of 32). `protect` never chooses special tokens, such as
    those between documents; Crammed BERT's code does choose them (`protect=False`). In held-out sequences, the same
    tokens are hidden every time."""

    share: float = 0.25
    protect: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        between("MaskedLanguage.share", self.share, 0.01, 0.9)


@dataclass(frozen=True)
class Glue(Task):
    """Fine-tune on one of the eight GLUE tasks, each with its own metric: classify sentences or pairs. `task` is cola,
    sst2, mrpc, stsb (a score), qqp, mnli, qnli or rte.

    Rows are <cls> A <sep> B <sep>, a single sentence with an empty B, cut to `tokens`. `data` is the folder that holds
    CoLA, SST-2, ...; `tokenizer` is a name of `data.text`, or shards:NAME for the tokenizer of a corpus; `vocab` is its
    number of ids, which has to be stated for shards. `segments` marks B with segment type 1, for models that have
    types. `weights` is the sha256 of the weights that fine-tuning starts from, so that it is part of the run's id;
    `scratch` means random weights. `limit` and `test_limit` keep only the first so many training and held-out
    examples.

    `validation` is the share of the training examples (of those that `limit` keeps) that are kept out of training to
    choose by: `data.validation` says which, and every metric is scored on them too (`valid_accuracy`)."""

    task: str = "rte"
    data: str = "glue"
    tokenizer: str = "bert_uncased"
    vocab: int | None = None
    tokens: int = 128
    segments: bool = False
    weights: str = ""
    limit: int | None = None
    test_limit: int | None = None
    validation: float = field(default=0.0, metadata=LATER)

    def __post_init__(self) -> None:
        super().__post_init__()
        glue_set(self.task)
        between("Glue.tokens", self.tokens, 4, whole=True)
        between("Glue.validation", self.validation, 0, 0.9)
        for name in ("vocab", "limit", "test_limit"):
            if getattr(self, name) is not None:
                between(f"Glue.{name}", getattr(self, name), 1, whole=True)
        if self.vocab is None and self.tokenizer not in TOKENIZER_VOCAB:
            raise UserError(f"Glue.tokenizer is {self.tokenizer!r}, whose size its name does not tell; write vocab=...")
        if self.weights and not re.fullmatch(f"[0-9a-f]{{64}}|{SCRATCH}", self.weights):
            raise UserError(
                f"Glue.weights is {self.weights[:20]!r}; write the sha256 of a model.safetensors, or {SCRATCH}"
            )

    @property
    def ids(self) -> int:
        """Number of ids of the tokenizer."""
        return self.vocab or TOKENIZER_VOCAB[self.tokenizer]

    @property
    def starts_from(self) -> str:
        """The weights that fine-tuning starts from: `weights`."""
        return self.weights
