"""Tasks on packed text, to predict the next token or hidden tokens: the models that fit, batches, loss and scores."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.data.local_data import data_root
from manyheads.data.randomness import Indices
from manyheads.data.text.corpora import Corpus, corpus
from manyheads.data.text.token_blocks import Hiding, Packed, hiding
from manyheads.data.upload import upload
from manyheads.nn.loss import IGNORED
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.field_checks import between
from manyheads.spec.parts import Lm, Masked, Token
from manyheads.spec.text import LanguageModel, MaskedLanguage, PackedText

from .task import check, check_probe, fit, open_task, shares
from .validation import Validated

EVALUATED = 16_384  # tokens of an evaluation step
Ids = Int[Tensor, "batch tokens"]


@check.register(LanguageModel)
def _(task: LanguageModel, arch: Arch) -> None:
    """Refuse a model that is not a language model, or whose vocabulary or length does not fit."""
    _check(task, arch, Lm, "gpt2 or llama")


@check.register(MaskedLanguage)
def _(task: MaskedLanguage, arch: Arch) -> None:
    """Refuse a model that does not predict masked tokens, or whose vocabulary or length does not fit."""
    _check(task, arch, Masked, "crammed_bert or bert")


def _check(task: PackedText, arch: Arch, head: type[Lm] | type[Masked], example: str) -> None:
    """Refuse a model that reads no text, has another head, or whose vocabulary or length does not fit."""
    if not isinstance(arch.embed, Token) or not isinstance(arch.head, head):
        raise UserError(
            f"{type(task).__name__} trains a model that reads tokens and has a {head.__name__} head; this "
            f"one is {arch.family} with {type(arch.embed).__name__} and {type(arch.head).__name__}: take "
            f"{example}"
        )
    if arch.embed.vocab < task.ids:
        raise UserError(
            f"{task.data} has ids 0 to {task.ids - 1} and the model's vocabulary is {arch.embed.vocab}; "
            f"build it with vocab={task.ids}"
        )
    if arch.stages[0].tokens != task.tokens:
        raise UserError(
            f"{type(task).__name__}.tokens is {task.tokens} and the model is built for "
            f"{arch.stages[0].tokens}; write tokens={arch.stages[0].tokens}, or build it with "
            f"tokens={task.tokens}"
        )


@fit.register(PackedText)
def _(task: PackedText, arch: Arch) -> Arch:
    """`arch` for this vocabulary and length, with as many learned positions as tokens; all else stays."""
    if not isinstance(arch.embed, Token):
        raise UserError(f"{task.data} is text and a {arch.family} model reads {type(arch.embed).__name__} input")
    embed: Any = replace(
        arch.embed, vocab=task.ids, positions=task.tokens + arch.embed.first if arch.embed.positions else 0
    )
    stages = tuple(replace(stage, tokens=task.tokens) for stage in arch.stages)
    return replace(arch, embed=embed, stages=stages)


def _corpus(task: PackedText, root: Path | None) -> Corpus:
    """The corpus that the task names. One of another tokenizer than the task states is refused."""
    source = corpus(task.data, data_root(root), task.held, task.held_split, task.validation)
    manifest = source.train.manifest
    if manifest.vocab != task.ids:
        raise UserError(
            f"{task.data} was made with tokenizer {manifest.tokenizer} of {manifest.vocab} ids, and the "
            f"task says vocab={task.ids}; write vocab={manifest.vocab}"
        )
    if not manifest.digest.startswith(task.tokenizer):
        raise UserError(
            f"{task.data} was made with tokenizer {manifest.tokenizer} ({manifest.digest[:12]}), and the "
            f"task says {task.tokenizer[:12]}; tokenize with that one, or write tokenizer="
            f"{manifest.digest[:12]!r}"
        )
    return source


def _validation(task: PackedText, source: Corpus, more: int) -> Packed | None:
    """The sequences of the validation split, each read with the `more` ids that follow it; None where there is none."""
    if source.validation is None:
        return None
    tokens = source.validation.tokens
    if len(tokens) < task.tokens + more:
        raise UserError(
            f"{type(task).__name__}.validation is {task.validation:g}: the last documents of {task.data} have "
            f"{len(tokens):,} ids, which do not fill one sequence of {task.tokens}; write a larger share"
        )
    return Packed(tokens, task.tokens, more, "given", 0, 1)


@open_task.register(LanguageModel)
def _(task: LanguageModel, device: torch.device, seed: int, batch: int, *, root: Path | None = None) -> LanguageWork:
    """The corpus of token ids, memory-mapped."""
    between("batch", batch, 1, whole=True)
    source = _corpus(task, root)
    train = Packed(source.train.tokens, task.tokens, 1, task.order, seed, batch)
    held = Packed(source.held.tokens, task.tokens, 1, "given", 0, 1)
    count = min(held.samples, task.test_limit or held.samples)
    work = LanguageWork(train, held, count, device, task.tokens, task.ids, source.held.bytes_per_token)
    valid = _validation(task, source, more=1)
    if valid is not None:
        own = source.train.bytes_per_token
        work.validation = replace(work, held=valid, held_out=valid.samples, bytes_per_token=own)
    return work


@open_task.register(MaskedLanguage)
def _(task: MaskedLanguage, device: torch.device, seed: int, batch: int, *, root: Path | None = None) -> MaskedWork:
    """The corpus of token ids, memory-mapped."""
    between("batch", batch, 1, whole=True)
    source = _corpus(task, root)
    roles = source.roles
    if "mask" not in roles:
        manifest = source.train.manifest
        raise UserError(
            f"{task.data} was made with tokenizer {manifest.tokenizer}, which has no <mask> or [MASK]; "
            "tokenize with one that has a mask token, such as a WordPiece"
        )
    special = tuple(sorted({roles[name] for name in ("pad", "end", "cls", "sep", "mask") if name in roles}))
    hide = hiding(task.tokens, task.share, roles["mask"], task.ids, special if task.protect else ())
    train = Packed(source.train.tokens, task.tokens, 0, task.order, seed, batch)
    held = Packed(source.held.tokens, task.tokens, 0, "given", 0, 1)
    count = min(held.samples, task.test_limit or held.samples)
    work = MaskedWork(train, held, count, device, task.tokens, hide, seed)
    valid = _validation(task, source, more=0)
    if valid is not None:
        work.validation = replace(work, held=valid, held_out=valid.samples)
    return work


@dataclass(eq=False)  # not frozen: torch.compile would trace every field of it
class PackedWork(Validated):
    """Sequences of `per_sample` tokens on a device; evaluation takes the first `held_out` sequences of `held`."""

    train: Packed
    held: Packed
    held_out: int
    device: torch.device
    per_sample: int

    unit, better, waited = "tokens", ("loss", "down"), 0.0

    @property
    def samples(self) -> int:
        """Sequences in an epoch."""
        return self.train.samples

    def inputs(self, numbers: Indices) -> dict[str, Indices]:
        """A model's inputs for these held-out sequences, by name: `ids`, `targets`, and others that it takes."""
        raise NotImplementedError

    def sums(self, model: nn.Module, share: tuple[int, int]) -> dict[str, Tensor]:
        """Sums of losses and of predicted tokens over a part of the held-out sequences."""
        total = torch.zeros(2, dtype=torch.float64, device=self.device)
        for numbers, counts in shares(self.held_out, max(1, EVALUATED // self.per_sample), share):
            inputs = self.inputs(numbers)
            tokens = int(counts.sum()) * inputs["targets"].shape[1]
            inputs["targets"] = np.where(counts[:, None], inputs["targets"], IGNORED)
            with torch.no_grad():
                mean = model(**{name: upload(part, self.device) for name, part in inputs.items()})
            total += torch.stack((mean.double() * tokens, torch.full_like(mean, tokens).double()))
        return {"loss": total[0], "tokens": total[1]}

    def probe_batch(self, size: int) -> Tensor:
        """Token ids of the first `size` held-out sequences, hidden as in evaluation."""
        check_probe(size, self.held_out, "sequences")
        return upload(self.inputs(np.arange(size))["ids"], self.device)


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
        """Mean cross-entropy in nats a token. The model computes it without ever storing all logits in float32."""
        ids, targets = batch
        loss: Tensor = model(ids, targets=targets)
        return loss

    def inputs(self, numbers: Indices) -> dict[str, Indices]:
        """Token ids, and the token that follows each."""
        read = self.held.block(numbers)
        return {"ids": read[:, :-1], "targets": read[:, 1:]}

    def metrics(self, sums: dict[str, Tensor]) -> dict[str, float]:
        """`loss` (nats a token), `perplexity`, and `bits` (a byte of text)."""
        return scores(float(sums["loss"]) / float(sums["tokens"]), self.bytes_per_token)

    def guess(self) -> dict[str, float]:
        """The scores of equal logits."""
        return scores(math.log(self.vocab), self.bytes_per_token)


@dataclass(eq=False)
class MaskedWork(PackedWork):
    """Masked-token prediction on a device; a sample is a sequence, measured in all its tokens."""

    hide: Hiding
    seed: int

    def batch(self, step: int, rows: range) -> tuple[Ids, Ids, Ids]:
        """Ids of these rows with some tokens hidden, the positions of the hidden tokens, and the tokens themselves."""
        places = self.train.order.places(step, rows)
        hidden, at, targets = self.hide(self.train.batch(step, rows), places, self.seed)
        return upload(hidden, self.device), upload(at, self.device), upload(targets, self.device)

    def loss(self, model: nn.Module, *batch: Tensor) -> Float[Tensor, ""]:
        """Mean cross-entropy of the hidden tokens, in nats."""
        ids, at, targets = batch
        loss: Tensor = model(ids, at=at, targets=targets)
        return loss

    def inputs(self, numbers: Indices) -> dict[str, Indices]:
        """As a training batch; the same tokens are hidden every time."""
        hidden, at, targets = self.hide(self.held.block(numbers), numbers, 0)
        return {"ids": hidden, "at": at, "targets": targets}

    def metrics(self, sums: dict[str, Tensor]) -> dict[str, float]:
        """`loss` (nats a hidden token) and `perplexity`."""
        return scores(float(sums["loss"]) / float(sums["tokens"]))

    def guess(self) -> dict[str, float]:
        """The scores of equal logits."""
        return scores(math.log(self.hide.vocab))


def scores(loss: float, bytes_per_token: float | None = None) -> dict[str, float]:
    """A loss in nats a token, its perplexity and, where `bytes_per_token` is stated, bits a byte of text."""
    bits = {} if bytes_per_token is None else {"bits": loss / math.log(2) / bytes_per_token}
    return {"loss": loss, "perplexity": math.exp(min(loss, 700))} | bits
