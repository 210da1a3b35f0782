"""`LanguageModel`: predict the next token."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.data.randomness import Indices
from manyheads.data.text.token_blocks import Packed
from manyheads.data.upload import upload
from manyheads.spec.arch import Arch
from manyheads.spec.parts import Lm
from manyheads.spec.validate import between

from .packed_work import PackedWork
from .text import PackedText

Ids = Int[Tensor, "batch tokens"]


@dataclass(frozen=True)
class LanguageModel(PackedText):
    """Predict each next token of packed text. Scores are `loss` (nats a token), `perplexity`, and `bits`: bits a byte
    of text, which compare across tokenizers."""

    def check(self, arch: Arch) -> None:
        """Refuse a model that is no language model of this vocabulary and length."""
        self._check(arch, Lm, "gpt2 or llama")

    def open(self, device: torch.device, seed: int, batch: int, *, root: Path | None = None) -> LanguageWork:
        """The ids, memory-mapped."""
        between("batch", batch, 1, whole=True)
        found = self._corpus(root)
        train = Packed(found.train.tokens, self.tokens, 1, self.order, seed, batch)
        held = Packed(found.held.tokens, self.tokens, 1, "given", 0, 1)
        count = min(held.samples, self.test_limit or held.samples)
        return LanguageWork(train, held, count, device, self.tokens, self.ids, found.held.bytes_per_token)


@dataclass(eq=False)
class LanguageWork(PackedWork):
    """Next-token prediction on a device; a sample is a sequence, measured in tokens."""

    vocab: int
    bytes_per_token: float

    def batch(self, step: int, rows: range) -> tuple[Ids, Ids]:
        """Token ids of these rows, and the token that follows each."""
        read = self.train.batch(step, rows)
        return upload(read[:, :-1], self.device), upload(read[:, 1:], self.device)

    def loss(self, model: nn.Module, *batch: Tensor) -> Float[Tensor, ""]:
        """Mean cross-entropy, in nats a token; logits are never held in float32."""
        ids, targets = batch
        found: Tensor = model(ids, targets=targets)
        return found

    def asked(self, numbers: Indices) -> dict[str, Indices]:
        """Token ids, and the token that follows each."""
        read = self.held.block(numbers)
        return {"ids": read[:, :-1], "targets": read[:, 1:]}

    def score(self, tally: dict[str, Tensor]) -> dict[str, float]:
        """Nats a token, perplexity, bits a byte."""
        return scores(float(tally["loss"]) / float(tally["tokens"]), self.bytes_per_token)

    def trivial(self) -> dict[str, float]:
        """What equal logits score."""
        return scores(math.log(self.vocab), self.bytes_per_token)


def scores(loss: float, bytes_per_token: float) -> dict[str, float]:
    """A loss of so many nats a token, as a perplexity and as bits a byte of text."""
    return {"loss": loss, "perplexity": math.exp(min(loss, 700)), "bits": loss / math.log(2) / bytes_per_token}
