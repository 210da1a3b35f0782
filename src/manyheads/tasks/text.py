"""What the tasks on packed text share: which corpus, which tokens, which model fits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from manyheads.data.local_data import data_root
from manyheads.data.text.corpora import Corpus, corpus
from manyheads.spec.arch import Arch
from manyheads.spec.datasets import BLOCK_ORDERS, CORPUS_VOCAB, SHARDS, BlockOrder, check_corpus
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Lm, Masked, Token
from manyheads.spec.validate import between


@dataclass(frozen=True)
class PackedText:
    """Sequences of `tokens` ids out of a corpus (`data.text.corpora`: tinystories, or shards:NAME).

    `vocab` is the number of the tokenizer's ids, known of what is embedded, to be stated of shards; `tokenizer` its
    sha256 or the beginning of it, compared where it is stated. `order` deals the training sequences: `shuffled`,
    `random` or `given` (`data.text.token_blocks`). `held` > 0 holds out the last part of the training ids in place of the
    corpus's own split; `test_limit` keeps the first so many held-out sequences."""

    data: str = "tinystories"
    tokens: int = 128
    vocab: int | None = None
    tokenizer: str = ""
    order: BlockOrder = "shuffled"
    held: float = 0.0
    test_limit: int | None = None

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_corpus(self.data)
        between(f"{name}.tokens", self.tokens, 2, whole=True)
        between(f"{name}.held", self.held, 0, 0.9)
        for field in ("vocab", "test_limit"):
            if getattr(self, field) is not None:
                between(f"{name}.{field}", getattr(self, field), 1, whole=True)
        if self.vocab is None and self.data not in CORPUS_VOCAB:
            raise UserError(
                f"{name}({self.data!r}) states no vocab, and {SHARDS} does not tell; write vocab=..., the "
                "number of ids in its manifest.json"
            )
        if self.data in CORPUS_VOCAB and self.vocab not in (None, CORPUS_VOCAB[self.data]):
            raise UserError(f"{name}.vocab is {self.vocab}; {self.data} has {CORPUS_VOCAB[self.data]}: leave it out")
        if self.order not in BLOCK_ORDERS:
            raise UserError(f"{name}.order is {self.order!r}; write one of {', '.join(BLOCK_ORDERS)}")
        if not isinstance(self.tokenizer, str):
            raise UserError(f"{name}.tokenizer is {self.tokenizer!r}; write its sha256, or leave it out")

    @property
    def ids(self) -> int:
        """Number of ids of the tokenizer."""
        return self.vocab or CORPUS_VOCAB[self.data]

    def _check(self, arch: Arch, head: type[Lm] | type[Masked], example: str) -> None:
        """Refuse a model that reads no text, predicts something else, or is of another vocabulary or length."""
        if not isinstance(arch.embed, Token) or not isinstance(arch.head, head):
            raise UserError(
                f"{type(self).__name__} trains a model that reads tokens and has a {head.__name__} head; this "
                f"one is {arch.family} with {type(arch.embed).__name__} and {type(arch.head).__name__}: take "
                f"{example}"
            )
        if arch.embed.vocab < self.ids:
            raise UserError(
                f"{self.data} has ids 0 to {self.ids - 1} and the model's vocabulary is {arch.embed.vocab}; "
                f"build it with vocab={self.ids}"
            )
        if arch.stages[0].tokens != self.tokens:
            raise UserError(
                f"{type(self).__name__}.tokens is {self.tokens} and the model is built for "
                f"{arch.stages[0].tokens}; write tokens={arch.stages[0].tokens}, or build it with "
                f"tokens={self.tokens}"
            )

    def fit(self, arch: Arch) -> Arch:
        """`arch` for this vocabulary and length; learned positions are as many as tokens, everything else stays."""
        if not isinstance(arch.embed, Token):
            raise UserError(f"{self.data} is text and a {arch.family} model reads {type(arch.embed).__name__} input")
        embed: Any = replace(arch.embed, vocab=self.ids, positions=self.tokens if arch.embed.positions else 0)
        stages = tuple(replace(stage, tokens=self.tokens) for stage in arch.stages)
        return replace(arch, embed=embed, stages=stages)

    def _corpus(self, root: Path | None) -> Corpus:
        """The corpus, if it is the one that the task describes."""
        found = corpus(self.data, data_root(root), self.held)
        manifest = found.train.manifest
        if manifest.vocab != self.ids:
            raise UserError(
                f"{self.data} was made with tokenizer {manifest.tokenizer} of {manifest.vocab} ids, and the "
                f"task says vocab={self.ids}; write vocab={manifest.vocab}"
            )
        if not manifest.digest.startswith(self.tokenizer):
            raise UserError(
                f"{self.data} was made with tokenizer {manifest.tokenizer} ({manifest.digest[:12]}), and the "
                f"task says {self.tokenizer[:12]}; tokenize with that one, or write tokenizer="
                f"{manifest.digest[:12]!r}"
            )
        return found
