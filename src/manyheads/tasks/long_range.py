"""The long-range tasks (LRA): the models that fit, the source of samples, batches, loss and scores."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import singledispatch
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from manyheads.data.local_data import data_root
from manyheads.data.lra import generated_sets, published_sets
from manyheads.data.lra.sequences import Sequences
from manyheads.data.randomness import Indices, Order, balanced, key
from manyheads.data.upload import upload
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.field_checks import between
from manyheads.spec.long_range import ByteText, Form, LraTask, MadeTask, PixelRow, Retrieval
from manyheads.spec.parts import Classify, Pair, Token

from .task import check, check_probe, fit, open_task, shares, wrong_input
from .validation import VALID

MOST_WORKERS = 8  # processes that generate a set
EVALUATED = 131_072  # tokens of an evaluation step
Ids = Int[Tensor, "batch tokens"] | Int[Tensor, "batch 2 tokens"]
Mask = Bool[Tensor, "batch tokens"] | Bool[Tensor, "batch 2 tokens"]


@check.register(LraTask)
def _(task: LraTask, arch: Arch) -> None:
    """Refuse a model whose vocabulary, length or number of classes does not fit."""
    name, form = type(task).__name__, task.form
    embed, head = _kinds(task, arch)
    if embed.vocab < form.vocab:
        raise UserError(
            f"{name} has ids 0 to {form.vocab - 1} and the model's vocabulary is {embed.vocab}; build it "
            f"with vocab={form.vocab}"
        )
    if arch.stages[0].tokens != form.tokens:
        raise UserError(
            f"{name} gives sequences of {form.tokens} tokens and the model is built for "
            f"{arch.stages[0].tokens}; build it with tokens={form.tokens}"
        )
    if head.classes != form.classes:
        raise UserError(
            f"{name} has {form.classes} classes and the model gives {head.classes}; build it with "
            f"classes={form.classes}"
        )


def _kinds(task: LraTask, arch: Arch) -> tuple[Token, Classify | Pair]:
    """Embedding and head of a model that classifies sequences; any other is refused."""
    name, kind = type(task).__name__, Pair if task.form.documents == 2 else Classify
    if not isinstance(arch.embed, Token):
        raise wrong_input(f"{name} gives token ids", arch, "a nystromformer")
    if not isinstance(arch.head, kind):
        pair = "pair=True" if kind is Pair else "pair=False"
        raise UserError(
            f"{name} asks for a {kind.__name__} head and the model's is {type(arch.head).__name__}; "
            f"write nystromformer(..., {pair})"
        )
    assert isinstance(arch.head, Classify | Pair)
    return arch.embed, arch.head


@fit.register(LraTask)
def _(task: LraTask, arch: Arch) -> Arch:
    """`arch` for these sequences and classes. A vocabulary that is large enough stays, and so does all else."""
    form = task.form
    embed, head = _kinds(task, arch)
    positions = form.tokens + embed.first if embed.positions else 0
    read: Any = replace(embed, vocab=max(embed.vocab, form.vocab), positions=positions)
    stages = tuple(replace(stage, tokens=form.tokens) for stage in arch.stages)
    return replace(arch, embed=read, stages=stages, head=replace(head, classes=form.classes))


@open_task.register(LraTask)
def _(task: LraTask, device: torch.device, seed: int, batch: int, *, root: Path | None = None) -> SequenceWork:
    """The samples below `root`. Sets that can be generated are generated there where they are missing."""
    between("batch", batch, 1, whole=True)
    samples = splits(task, data_root(root))
    held = {name: samples[name].first(getattr(task, name)) for name in ("valid", "test") if getattr(task, name)}
    if isinstance(task, MadeTask) and task.fresh:
        assert task.made is not None
        kind, setting = task.made
        source: SequenceSource = Fresh(
            lambda places: generated_sets.sample(kind, setting, key(seed, "fresh"), places), batch
        )
    else:
        train = samples["train"].first(task.train)
        source = Stored(train, Order(len(train), seed, batch))
    return SequenceWork(source, held, task.form, device)


@singledispatch
def splits(task: LraTask, root: Path) -> dict[str, Sequences]:
    """Training, validation and test samples; without the training samples where they are fresh at every step."""
    raise NotImplementedError


@splits.register(MadeTask)
def _(task: MadeTask, root: Path) -> dict[str, Sequences]:
    """The sets generated for these sizes."""
    assert task.made is not None
    sizes = {"train": 0 if task.fresh else task.train, "valid": task.valid, "test": task.test}
    workers = min(MOST_WORKERS, os.cpu_count() or 1)
    return generated_sets.generated_set(root, *task.made, sizes, task.data_seed, workers=workers)


@splits.register(ByteText)
def _(task: ByteText, root: Path) -> dict[str, Sequences]:
    """Generated documents, or the reviews with a validation split taken from training."""
    if task.data == "made":
        return splits.dispatch(MadeTask)(task, root)
    return {name: split.cut(task.longest) for name, split in published_sets.imdb(root).items()}


@splits.register(Retrieval)
def _(task: Retrieval, root: Path) -> dict[str, Sequences]:
    """Generated pairs, or pairs of papers."""
    return splits.dispatch(MadeTask)(task, root) if task.data == "made" else published_sets.aan(root, task.longest)


@splits.register(PixelRow)
def _(task: PixelRow, root: Path) -> dict[str, Sequences]:
    """Images as rows of pixels, with a validation split taken from training."""
    return published_sets.pixel_rows(task.data, root)


class SequenceSource(Protocol):
    """Where training samples come from."""

    @property
    def waited(self) -> float:
        """Seconds that `batch` has waited for samples."""

    @property
    def samples(self) -> int | None:
        """Samples in an epoch; None where they never repeat."""

    def batch(self, step: int, rows: range) -> tuple[Sequences, Indices]:
        """A set of samples, and the numbers of those in these rows of a step."""


@dataclass(frozen=True)
class Stored:
    """A stored set, shuffled anew in each epoch."""

    train: Sequences
    order: Order
    waited: float = 0.0

    @property
    def samples(self) -> int:
        """Samples in an epoch."""
        return len(self.train)

    def batch(self, step: int, rows: range) -> tuple[Sequences, Indices]:
        """A set of samples, and the numbers of those in these rows of a step."""
        return self.train, self.order.at(self.order.places(step, rows))


@dataclass
class Fresh:
    """Samples generated on demand, as a function of their place in the endless sequence of all steps."""

    make: Callable[[Indices], Sequences]
    size: int
    waited: float = 0.0
    samples: None = field(default=None, init=False)

    def batch(self, step: int, rows: range) -> tuple[Sequences, Indices]:
        """A set of samples, and the numbers of those in these rows of a step."""
        began = time.perf_counter()
        samples = self.make(step * self.size + np.arange(rows.start, rows.stop, rows.step))
        self.waited += time.perf_counter() - began
        return samples, np.arange(len(samples))


@dataclass(eq=False)  # not frozen: torch.compile would trace every field of it
class SequenceWork:
    """Classification of sequences on a device. A sample is measured in tokens with its padding, which is computed, too.

    The headline metric is on the validation split. Each evaluation also records `test_top1`, so that the evaluation
    that is best on the validation split has its test score, and the test split is never used to choose. `valid_top1` is
    the headline under the name that other tasks give to a score to choose by."""

    source: SequenceSource
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
        """Seconds that generating fresh samples took."""
        return self.source.waited

    def batch(self, step: int, rows: range) -> tuple[Tensor, ...]:
        """Ids, the mask of real tokens if sequences are padded, and labels."""
        return self._tensors(*self.source.batch(step, rows))

    def _tensors(self, stored: Sequences, samples: Indices) -> tuple[Tensor, ...]:
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
        *inputs, labels = batch
        return functional.cross_entropy(model(*inputs).float(), labels)

    def tally(self, model: nn.Module, share: tuple[int, int] = (0, 1)) -> dict[str, Tensor]:
        """Sums over part share[0] of share[1] of the validation and the test split. Every sample counts once."""
        sums = {}
        training = model.training
        model.eval()
        try:
            for name, split in self.held.items():
                sums[name] = torch.zeros(3, dtype=torch.float64, device=self.device)
                for numbers, counts in shares(len(split), max(1, EVALUATED // self.per_sample), share):
                    *inputs, labels = self._tensors(split, numbers)
                    with torch.no_grad():
                        logits = model(*inputs).float()
                    sums[name] += _scores(logits, labels).masked_fill(~upload(counts, self.device), 0).sum(1)
        finally:
            model.train(training)
        return {
            f"{split}_{name}": value
            for split, parts in sums.items()
            for name, value in zip(("count", "loss", "top1"), parts.unbind(), strict=True)
        }

    def score(self, tally: dict[str, Tensor]) -> dict[str, float]:
        """Mean `loss` and accuracy (`top1`) on the validation split, also as `valid_loss` and `valid_top1`; `test_loss`
        and `test_top1` on the test split."""
        return _with_headline(
            {
                f"{split}_{name}": float(tally[f"{split}_{name}"]) / float(tally[f"{split}_count"])
                for split in self.held
                for name in ("loss", "top1")
            }
        )

    def probe_batch(self, size: int) -> dict[str, Tensor]:
        """The first `size` validation samples, class by class in turn, as keyword arguments."""
        split = self.held["valid"]
        check_probe(size, len(split), "sequences")
        *inputs, _ = self._tensors(split, balanced(split.labels, size))
        return dict(zip(("ids", "mask"), inputs, strict=False))

    def trivial(self) -> dict[str, float]:
        """The scores of the best constant guess: the labels' frequencies as probabilities, and the most frequent
        label."""
        out = {}
        for split, stored in self.held.items():
            share = np.bincount(stored.labels) / len(stored)
            out[f"{split}_loss"] = -math.fsum(p * math.log(p) for p in share if p)
            out[f"{split}_top1"] = float(share.max())
        return _with_headline(out)


def _with_headline(scores: dict[str, float]) -> dict[str, float]:
    """The scores of every split, and those of the validation split under the names of the headline too."""
    return {name.removeprefix(VALID): value for name, value in scores.items() if name.startswith(VALID)} | scores


def _scores(logits: Float[Tensor, "batch classes"], labels: Int[Tensor, " batch"]) -> Float[Tensor, "3 batch"]:
    """For each sample: 1, its loss, and whether its label alone has the highest logit. A NaN is never right."""
    loss = functional.cross_entropy(logits, labels, reduction="none")
    labelled = logits.gather(1, labels[:, None])
    right = (~(logits < labelled)).sum(1) == 1
    return torch.stack((torch.ones_like(loss), loss, right)).double()
