"""`Glue`: fine-tune on one of the eight GLUE tasks, each with its own metric."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from manyheads.data.local_data import data_root
from manyheads.data.randomness import Order
from manyheads.data.text import corpora
from manyheads.data.text.glue import encoded
from manyheads.data.text.vocabulary import Vocabulary, load
from manyheads.spec.arch import Arch
from manyheads.spec.datasets import SHARDS, TOKENIZER_VOCAB, glue_set
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Classify, Masked, Token
from manyheads.spec.validate import between

from .glue_work import GlueWork

POOLER = 1024  # hidden units of Crammed BERT's classifier


@dataclass(frozen=True)
class Glue:
    """Classify sentences and pairs: `task` is cola, sst2, mrpc, stsb (a score), qqp, mnli, qnli or rte.

    Rows are <cls> A <sep> B <sep>, a single sentence with an empty B, cut to `tokens`. `data` is the folder that holds
    CoLA, SST-2, ...; `tokenizer` a name of `data.text.vocabulary`, or shards:NAME for that of a corpus, of `vocab` ids
    (to be stated where the name does not tell). `segments` marks B with type 1, for models that have types. `weights`
    is the sha256 of the weights that fine-tuning starts from (`train.finetune`): it belongs to what the run is; `scratch`
    are those that the seed draws. `limit` and `test_limit` keep the first so many examples."""

    task: str = "rte"
    data: str = "glue"
    tokenizer: str = "bert_uncased"
    vocab: int | None = None
    tokens: int = 128
    segments: bool = False
    weights: str = ""
    limit: int | None = None
    test_limit: int | None = None

    def __post_init__(self) -> None:
        glue_set(self.task)
        between("Glue.tokens", self.tokens, 4, whole=True)
        for name in ("vocab", "limit", "test_limit"):
            if getattr(self, name) is not None:
                between(f"Glue.{name}", getattr(self, name), 1, whole=True)
        if self.vocab is None and self.tokenizer not in TOKENIZER_VOCAB:
            raise UserError(f"Glue.tokenizer is {self.tokenizer!r}, whose size its name does not tell; write vocab=...")
        if self.weights and not re.fullmatch("[0-9a-f]{64}|scratch", self.weights):
            raise UserError(
                f"Glue.weights is {self.weights[:20]!r}; write the sha256 of a model.safetensors, or scratch"
            )
        if not isinstance(self.segments, bool):
            raise UserError(f"Glue.segments is {self.segments!r}; write True or False")

    @property
    def ids(self) -> int:
        """Number of ids of the tokenizer."""
        return self.vocab or TOKENIZER_VOCAB[self.tokenizer]

    def check(self, arch: Arch) -> None:
        """Refuse a model of another vocabulary, length or number of classes."""
        wanted = glue_set(self.task).outputs
        if not isinstance(arch.embed, Token) or not isinstance(arch.head, Classify):
            raise UserError(
                f"Glue trains a model that reads tokens and has a Classify head; this one is {arch.family} "
                f"with {type(arch.embed).__name__} and {type(arch.head).__name__}: take Glue.fit of an encoder"
            )
        if arch.head.classes != wanted:
            raise UserError(
                f"{self.task} has {wanted} outputs and the model gives {arch.head.classes}; build it with "
                f"Classify({wanted}, ...)"
            )
        if arch.embed.vocab < self.ids:
            raise UserError(
                f"tokenizer {self.tokenizer} has ids 0 to {self.ids - 1} and the model's vocabulary is "
                f"{arch.embed.vocab}; take the tokenizer that it was pretrained with"
            )
        if arch.stages[0].tokens != self.tokens:
            raise UserError(
                f"Glue.tokens is {self.tokens} and the model is built for {arch.stages[0].tokens}; write "
                f"tokens={arch.stages[0].tokens}"
            )
        if self.segments != bool(arch.embed.types):
            raise UserError(
                f"Glue.segments is {self.segments} and the model has {arch.embed.types} segment types; write "
                f"segments={bool(arch.embed.types)}"
            )

    def fit(self, arch: Arch) -> Arch:
        """A pretrained encoder's record with a classifier on the first token in place of its head: Crammed BERT's
        hidden layer of 1,024, or one as wide as the model (BERT's pooler); tanh."""
        if isinstance(arch.head, Masked) and isinstance(arch.embed, Token):
            hidden = POOLER if arch.family == "crammed_bert" else arch.stages[-1].width
            head = Classify(glue_set(self.task).outputs, "class", arch.head.norm, hidden=hidden, act="tanh")
        elif isinstance(arch.head, Classify):
            head = replace(arch.head, classes=glue_set(self.task).outputs)
        else:
            raise UserError(
                f"Glue fine-tunes an encoder, and this is {arch.family} with {type(arch.head).__name__}; take "
                "crammed_bert or bert"
            )
        stages: Any = tuple(replace(stage, tokens=self.tokens) for stage in arch.stages)
        return replace(arch, stages=stages, head=head)

    def vocabulary(self, root: Path) -> Vocabulary:
        """The tokenizer."""
        if self.tokenizer.startswith(SHARDS):
            return corpora.tokenizer(self.tokenizer, root)
        return load(self.tokenizer, root)

    def open(self, device: torch.device, seed: int, batch: int, *, root: Path | None = None) -> GlueWork:
        """The rows, in memory."""
        between("batch", batch, 1, whole=True)
        place, task = data_root(root), glue_set(self.task)
        words = self.vocabulary(place)
        if words.size != self.ids:
            raise UserError(
                f"tokenizer {self.tokenizer} has {words.size} ids, and the task says vocab={self.ids}; write "
                f"vocab={words.size}"
            )
        train, held = encoded(task, self.data, place, words, self.tokens)
        train = train.first(self.limit)
        parts = tuple(part.first(self.test_limit) for part in held)
        order = Order(len(train.labels), seed, batch)
        return GlueWork(task, train, parts, order, self.segments, self.tokens, device)
