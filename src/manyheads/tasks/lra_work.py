"""Batches, loss and scores of the long-range tasks: classify a sequence of bytes, or a pair of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from manyheads.data.lra.sequences import Sequences
from manyheads.data.randomness import Indices, Order, balanced
from manyheads.data.upload import upload
from manyheads.spec.errors import UserError

from .held import dealt

EVALUATED = 131_072  # tokens of an evaluation step
Ids = Int[Tensor, "batch tokens"] | Int[Tensor, "batch 2 tokens"]
Mask = Bool[Tensor, "batch tokens"] | Bool[Tensor, "batch 2 tokens"]


@dataclass(frozen=True)
class Form:
    """What a model is given and asked for. A byte b is the id b + `shift`; `padded` sequences come with a mask, others
    are all real; `documents` is 2 where a sample is a pair."""

    vocab: int
    tokens: int
    classes: int
    documents: int = 1
    shift: int = 0
    padded: bool = True


class Source(Protocol):
    """Where training samples come from."""

    @property
    def waited(self) -> float:
        """Seconds that samples were waited for."""

    @property
    def samples(self) -> int | None:
        """Samples in an epoch; None where they never repeat."""

    def batch(self, step: int, rows: range) -> tuple[Sequences, Indices]:
        """A set, and which samples of it stand in these rows of a step."""


@dataclass(frozen=True)
class Stored:
    """A set that is there, epoch after epoch, each in an order of its own."""

    train: Sequences
    order: Order
    waited: float = 0.0

    @property
    def samples(self) -> int:
        """Samples in an epoch."""
        return len(self.train)

    def batch(self, step: int, rows: range) -> tuple[Sequences, Indices]:
        """A set, and which samples of it stand in these rows of a step."""
        return self.train, self.order.at(self.order.places(step, rows))


@dataclass
class Fresh:
    """Samples made when they are asked for, a function of their place in the endless row of all steps."""

    make: Callable[[Indices], Sequences]
    size: int
    waited: float = 0.0
    samples: None = field(default=None, init=False)

    def batch(self, step: int, rows: range) -> tuple[Sequences, Indices]:
        """A set, and which samples of it stand in these rows of a step."""
        began = time.perf_counter()
        made = self.make(step * self.size + np.arange(rows.start, rows.stop, rows.step))
        self.waited += time.perf_counter() - began
        return made, np.arange(len(made))


@dataclass(eq=False)  # not frozen: torch.compile would trace every field of it
class SequenceWork:
    """Classification of sequences on a device. A sample is measured in tokens, padding counted: that is what is
    computed.

    The headline is of the validation split; `test_top1` stands beside it in each record, so that the record that
    validation chooses holds the test score of that moment, and test chooses nothing."""

    source: Source
    held: dict[str, Sequences]  # "valid" and, unless it is empty, "test"
    form: Form
    device: torch.device
    unit: str = "tokens"
    better: tuple[str, str] = ("top1", "up")

    @property
    def per_sample(self) -> int:
        """Tokens of a sample, padding counted."""
        return self.form.tokens * self.form.documents

    @property
    def samples(self) -> int | None:
        """Samples in an epoch; None where they are fresh."""
        return self.source.samples

    @property
    def held_out(self) -> int:
        """Samples of the validation split."""
        return len(self.held["valid"])

    @property
    def waited(self) -> float:
        """Seconds that fresh samples took to make."""
        return self.source.waited

    def batch(self, step: int, rows: range) -> tuple[Tensor, ...]:
        """Ids, the mask of real tokens where there is padding, labels."""
        return self._given(*self.source.batch(step, rows))

    def _given(self, stored: Sequences, samples: Indices) -> tuple[Tensor, ...]:
        form = self.form
        read, lengths = stored.rows(samples, form.tokens)
        if form.documents == 1:
            read, lengths = read[:, 0], lengths[:, 0]
        ids = upload(read, self.device).long() + form.shift
        labels = upload(stored.labels[samples], self.device)
        if not form.padded:
            return ids, labels
        mask = torch.arange(form.tokens, device=self.device) < upload(lengths, self.device)[..., None]
        return ids * mask, mask, labels

    def loss(self, model: nn.Module, *batch: Tensor) -> Float[Tensor, ""]:
        """Cross-entropy."""
        *given, labels = batch
        return functional.cross_entropy(model(*given).float(), labels)

    def tally(self, model: nn.Module, share: tuple[int, int] = (0, 1)) -> dict[str, Tensor]:
        """Sums over a part of the validation split and of the test split; no sample is dropped, none counts twice."""
        sums = {}
        training = model.training
        model.eval()
        try:
            for name, split in self.held.items():
                sums[name] = torch.zeros(3, dtype=torch.float64, device=self.device)
                for numbers, counts in dealt(len(split), max(1, EVALUATED // self.per_sample), share):
                    *given, labels = self._given(split, numbers)
                    with torch.no_grad():
                        logits = model(*given).float()
                    sums[name] += _judged(logits, labels).masked_fill(~upload(counts, self.device), 0).sum(1)
        finally:
            model.train(training)
        return {
            f"{split}_{name}": value
            for split, parts in sums.items()
            for name, value in zip(("count", "loss", "top1"), parts.unbind(), strict=True)
        }

    def score(self, tally: dict[str, Tensor]) -> dict[str, float]:
        """Mean loss and accuracy on validation, and on test under names of their own."""
        out = {}
        for split in self.held:
            for name in ("loss", "top1"):
                value = float(tally[f"{split}_{name}"]) / float(tally[f"{split}_count"])
                out[name if split == "valid" else f"{split}_{name}"] = value
        return out

    def probe_batch(self, size: int) -> dict[str, Tensor]:
        """The first `size` validation samples, class by class in turn, as keyword arguments."""
        split = self.held["valid"]
        if size > len(split):
            raise UserError(f"a probe on {size} sequences: {len(split)} are held out; write at most that many")
        *given, _ = self._given(split, balanced(split.labels, size))
        return dict(zip(("ids", "mask"), given, strict=False))

    def trivial(self) -> dict[str, float]:
        """What the best constant guess scores: the frequencies of the labels, and the most frequent one."""
        out = {}
        for split, stored in self.held.items():
            share = np.bincount(stored.labels) / len(stored)
            name = "" if split == "valid" else f"{split}_"
            out[f"{name}loss"] = -math.fsum(p * math.log(p) for p in share if p)
            out[f"{name}top1"] = float(share.max())
        return out


def _judged(logits: Float[Tensor, "batch classes"], labels: Int[Tensor, " batch"]) -> Float[Tensor, "3 batch"]:
    """For every sample 1, its loss, and whether its label has the highest logit, alone; NaN is never right."""
    loss = functional.cross_entropy(logits, labels, reduction="none")
    chosen = logits.gather(1, labels[:, None])
    right = (~(logits < chosen)).sum(1) == 1
    return torch.stack((torch.ones_like(loss), loss, right)).double()
