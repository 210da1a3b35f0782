"""`MaskedLanguage`: predict hidden tokens, exactly a quarter of each sequence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.data.randomness import Indices
from manyheads.data.text.token_blocks import Hiding, Packed, hiding
from manyheads.data.upload import upload
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Masked
from manyheads.spec.validate import between

from .packed_work import PackedWork
from .text import PackedText

Ids = Int[Tensor, "batch tokens"]


@dataclass(frozen=True)
class MaskedLanguage(PackedText):
    """Predict hidden tokens of packed text (sparse prediction: the vocabulary's matrix sees those alone).

    Exactly round(`share` x tokens) of each sequence are chosen: 80 % stand behind the mask token, 10 % behind a random
    one, 10 % as they are, rounded (26, 3 and 3 of 32). `protect` never chooses what stands between documents; Crammed
    BERT's code does choose it (`protect=False`). Held-out sequences are hidden in the same way every time."""

    share: float = 0.25
    protect: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        between("MaskedLanguage.share", self.share, 0.01, 0.9)
        if not isinstance(self.protect, bool):
            raise UserError(f"MaskedLanguage.protect is {self.protect!r}; write True or False")

    def check(self, arch: Arch) -> None:
        """Refuse a model that predicts no masked tokens of this vocabulary and length."""
        self._check(arch, Masked, "crammed_bert or bert")

    def open(self, device: torch.device, seed: int, batch: int, *, root: Path | None = None) -> MaskedWork:
        """The ids, memory-mapped."""
        between("batch", batch, 1, whole=True)
        found = self._corpus(root)
        roles = found.roles
        if "mask" not in roles:
            manifest = found.train.manifest
            raise UserError(
                f"{self.data} was made with tokenizer {manifest.tokenizer}, which has no <mask> or [MASK]; "
                "tokenize with one that has, such as a WordPiece"
            )
        kept = tuple(sorted({roles[name] for name in ("pad", "end", "cls", "sep", "mask") if name in roles}))
        hide = hiding(self.tokens, self.share, roles["mask"], self.ids, kept if self.protect else ())
        train = Packed(found.train.tokens, self.tokens, 0, self.order, seed, batch)
        held = Packed(found.held.tokens, self.tokens, 0, "given", 0, 1)
        count = min(held.samples, self.test_limit or held.samples)
        return MaskedWork(train, held, count, device, self.tokens, hide, seed)


@dataclass(eq=False)
class MaskedWork(PackedWork):
    """Masked-token prediction on a device; a sample is a sequence, measured in all its tokens."""

    hide: Hiding
    seed: int

    def batch(self, step: int, rows: range) -> tuple[Ids, Ids, Ids]:
        """Ids of these rows with some hidden, the positions of those, and what stood there."""
        places = self.train.order.places(step, rows)
        hidden, at, targets = self.hide(self.train.batch(step, rows), places, self.seed)
        return upload(hidden, self.device), upload(at, self.device), upload(targets, self.device)

    def loss(self, model: nn.Module, *batch: Tensor) -> Float[Tensor, ""]:
        """Mean cross-entropy of the hidden tokens, in nats."""
        ids, at, targets = batch
        found: Tensor = model(ids, at=at, targets=targets)
        return found

    def asked(self, numbers: Indices) -> dict[str, Indices]:
        """Ids with some hidden, the same each time; the positions of those, and what stood there."""
        hidden, at, targets = self.hide(self.held.block(numbers), numbers, 0)
        return {"ids": hidden, "at": at, "targets": targets}

    def score(self, tally: dict[str, Tensor]) -> dict[str, float]:
        """Nats a hidden token, and perplexity."""
        return scores(float(tally["loss"]) / float(tally["tokens"]))

    def trivial(self) -> dict[str, float]:
        """What equal logits score."""
        return scores(math.log(self.hide.vocab))


def scores(loss: float) -> dict[str, float]:
    """A loss of so many nats a token, and as a perplexity."""
    return {"loss": loss, "perplexity": math.exp(min(loss, 700))}
