"""`LanguageModel`: predict the next token."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.arch.errors import UserError
from manyheads.arch.parts import Lm
from manyheads.arch.spec import Arch
from manyheads.data.augment import between
from manyheads.data.pixels import upload
from manyheads.data.text.pack import Packed
from manyheads.nn.loss import IGNORED

from .held import dealt
from .text import EVALUATED, PackedText

Ids = Int[Tensor, "batch tokens"]


@dataclass(frozen=True)
class LanguageModel(PackedText):
    """Predict each next token of packed text. Scores are `loss` (nats a token), `perplexity`, and `bits`: bits a byte of
    text, which compare across tokenizers."""

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
        return LanguageWork(train, held, count, self.ids, found.held.bytes_per_token, device, self.tokens)


@dataclass(eq=False)  # not frozen: torch.compile would trace every field of it
class LanguageWork:
    """Next-token prediction on a device; a sample is a sequence, measured in tokens."""

    train: Packed
    held: Packed
    held_count: int
    vocab: int
    bytes_per_token: float
    device: torch.device
    per_sample: int
    unit: str = "tokens"
    better: tuple[str, str] = ("loss", "down")
    waited: float = 0.0

    @property
    def held_out(self) -> int:
        """Sequences held out."""
        return self.held_count

    @property
    def samples(self) -> int:
        """Sequences in an epoch."""
        return self.train.samples

    def batch(self, step: int, rows: range) -> tuple[Ids, Ids]:
        """Token ids of these rows, and the token that follows each."""
        read = self.train.batch(step, rows)
        return upload(read[:, :-1], self.device), upload(read[:, 1:], self.device)

    def loss(self, model: nn.Module, *batch: Tensor) -> Float[Tensor, ""]:
        """Mean cross-entropy, in nats a token; logits are never held in float32."""
        ids, targets = batch
        found: Tensor = model(ids, targets=targets)
        return found

    def tally(self, model: nn.Module, share: tuple[int, int] = (0, 1)) -> dict[str, Tensor]:
        """Sums of losses and tokens over a part of the held-out sequences."""
        sums = torch.zeros(2, dtype=torch.float64, device=self.device)
        for numbers, counts in dealt(self.held_count, max(1, EVALUATED // self.per_sample), share):
            read = self.held.block(numbers)
            targets = np.where(counts[:, None], read[:, 1:], IGNORED)
            tokens = int(counts.sum()) * self.per_sample
            with torch.no_grad():
                mean = model(upload(read[:, :-1], self.device), targets=upload(targets, self.device))
            sums += torch.stack((mean.double() * tokens, torch.full_like(mean, tokens).double()))
        return {"loss": sums[0], "tokens": sums[1]}

    def score(self, tally: dict[str, Tensor]) -> dict[str, float]:
        """Nats a token, perplexity, bits a byte."""
        return scores(float(tally["loss"]) / float(tally["tokens"]), self.bytes_per_token)

    def probe_batch(self, size: int) -> Ids:
        """The first `size` held-out sequences."""
        if size > self.held_count:
            raise UserError(f"a probe on {size} sequences: {self.held_count} are held out; write at most that many")
        return upload(self.held.block(np.arange(size))[:, :-1], self.device)

    def trivial(self) -> dict[str, float]:
        """What equal logits score."""
        return scores(math.log(self.vocab), self.bytes_per_token)


def scores(loss: float, bytes_per_token: float) -> dict[str, float]:
    """A loss of so many nats a token, as a perplexity and as bits a byte of text."""
    return {"loss": loss, "perplexity": math.exp(min(loss, 700)), "bits": loss / math.log(2) / bytes_per_token}
