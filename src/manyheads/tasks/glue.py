"""Fine-tuning on GLUE: the models that fit, batches, loss, and the metric of each of the eight tasks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from manyheads.data.local_data import data_root
from manyheads.data.randomness import Indices, Order
from manyheads.data.text import corpora
from manyheads.data.text.glue import Encoded, encoded
from manyheads.data.text.vocabulary import Vocabulary, load
from manyheads.data.upload import upload
from manyheads.data.validation import parted
from manyheads.spec.arch import Arch
from manyheads.spec.datasets import SHARDS, GlueSet, glue_set
from manyheads.spec.errors import UserError
from manyheads.spec.field_checks import between
from manyheads.spec.parts import Classify, Masked, Token
from manyheads.spec.text import Glue

from . import glue_scores
from .task import check, check_probe, fit, open_task, shares
from .text import EVALUATED
from .validation import Validated

POOLER = 1024  # hidden units of Crammed BERT's classifier


@check.register(Glue)
def _(task: Glue, arch: Arch) -> None:
    """Refuse a model whose vocabulary, length or number of classes does not fit."""
    outputs = glue_set(task.task).outputs
    if not isinstance(arch.embed, Token) or not isinstance(arch.head, Classify):
        raise UserError(
            f"Glue trains a model that reads tokens and has a Classify head; this one is {arch.family} "
            f"with {type(arch.embed).__name__} and {type(arch.head).__name__}: take Glue.fit of an encoder"
        )
    if arch.head.classes != outputs:
        raise UserError(
            f"{task.task} has {outputs} outputs and the model gives {arch.head.classes}; build it with "
            f"Classify({outputs}, ...)"
        )
    if arch.embed.vocab < task.ids:
        raise UserError(
            f"tokenizer {task.tokenizer} has ids 0 to {task.ids - 1} and the model's vocabulary is "
            f"{arch.embed.vocab}; take the tokenizer that it was pretrained with"
        )
    if arch.stages[0].tokens != task.tokens:
        raise UserError(
            f"Glue.tokens is {task.tokens} and the model is built for {arch.stages[0].tokens}; write "
            f"tokens={arch.stages[0].tokens}"
        )
    if task.segments != bool(arch.embed.types):
        raise UserError(
            f"Glue.segments is {task.segments} and the model has {arch.embed.types} segment types; write "
            f"segments={bool(arch.embed.types)}"
        )


@fit.register(Glue)
def _(task: Glue, arch: Arch) -> Arch:
    """The encoder with a classifier on the first token in place of its pretraining head. The classifier has one hidden
    layer with tanh: 1,024 units for Crammed BERT, otherwise as many as the model is wide (BERT's pooler)."""
    if isinstance(arch.head, Masked) and isinstance(arch.embed, Token):
        hidden = POOLER if arch.family == "crammed_bert" else arch.stages[-1].width
        head = Classify(glue_set(task.task).outputs, "class", arch.head.norm, hidden=hidden, act="tanh")
    elif isinstance(arch.head, Classify):
        head = replace(arch.head, classes=glue_set(task.task).outputs)
    else:
        raise UserError(
            f"Glue fine-tunes an encoder, and this is {arch.family} with {type(arch.head).__name__}; take "
            "crammed_bert or bert"
        )
    stages: Any = tuple(replace(stage, tokens=task.tokens) for stage in arch.stages)
    return replace(arch, stages=stages, head=head)


def vocabulary(task: Glue, root: Path) -> Vocabulary:
    """The tokenizer that the task names."""
    if task.tokenizer.startswith(SHARDS):
        return corpora.tokenizer(task.tokenizer, root)
    return load(task.tokenizer, root)


@open_task.register(Glue)
def _(task: Glue, device: torch.device, seed: int, batch: int, *, root: Path | None = None) -> GlueWork:
    """All examples, tokenized and in memory."""
    between("batch", batch, 1, whole=True)
    place, dataset = data_root(root), glue_set(task.task)
    words = vocabulary(task, place)
    if words.size != task.ids:
        raise UserError(
            f"tokenizer {task.tokenizer} has {words.size} ids, and the task says vocab={task.ids}; write "
            f"vocab={words.size}"
        )
    train, held_out = encoded(dataset, task.data, place, words, task.tokens)
    train = train.first(task.limit)
    parts = tuple(part.first(task.test_limit) for part in held_out)
    kept = None
    if task.validation:
        numbers = parted(np.arange(len(train.labels)), task.validation, "Glue.validation")
        train, kept = train.at(numbers[0]), train.at(numbers[1])
    order = Order(len(train.labels), seed, batch)
    work = GlueWork(dataset, train, parts, order, task.segments, task.tokens, device)
    if kept is not None:
        work.validation = replace(work, held=(kept,))
    return work


@dataclass(eq=False)  # not frozen: torch.compile would trace every field of it
class GlueWork(Validated):
    """Sentence classification on a device. A sample is one example, measured in the tokens it is padded to."""

    task: GlueSet
    train: Encoded
    held: tuple[Encoded, ...]
    order: Order
    segments: bool
    per_sample: int
    device: torch.device
    unit: str = "tokens"
    waited: float = 0.0

    @property
    def samples(self) -> int:
        """Examples in an epoch."""
        return len(self.train.labels)

    @property
    def held_out(self) -> int:
        """Examples of the development set; of the first one for MNLI, which has two."""
        return len(self.held[0].labels)

    @property
    def better(self) -> tuple[str, str]:
        """The metric that GLUE reports for this task."""
        return self.task.metric, "up"

    def batch(self, step: int, rows: range) -> tuple[Tensor, ...]:
        """Ids, the mask of real tokens, segment types if the task has them, and labels."""
        return self.rows(self.train, self.order.at(self.order.places(step, rows)))

    def rows(self, source: Encoded, numbers: Indices) -> tuple[Tensor, ...]:
        """The examples with these numbers: the inputs of a model, then the labels."""
        places = np.arange(self.per_sample)
        real = places < source.lengths[numbers][:, None]
        inputs = [source.ids[numbers].astype(np.int64), real]
        if self.segments:
            inputs.append(((places >= source.parts[numbers][:, None]) & real).astype(np.int64))
        labels = source.labels[numbers]
        inputs.append(labels if self.task.classes else labels.astype(np.float32))
        return tuple(upload(part, self.device) for part in inputs)

    def loss(self, model: nn.Module, *batch: Tensor) -> Float[Tensor, ""]:
        """Cross-entropy; the squared error where the task predicts a score."""
        *inputs, labels = batch
        outputs = model(*inputs).float()
        if not self.task.classes:
            return functional.mse_loss(outputs[:, 0], labels)
        return functional.cross_entropy(outputs, labels)

    def sums(self, model: nn.Module, share: tuple[int, int]) -> dict[str, Tensor]:
        """Outputs for part share[0] of share[1] of each held-out file, zeros elsewhere: they add up to all outputs."""
        tallies = {}
        for number, source in enumerate(self.held):
            count = len(source.labels)
            whole = torch.zeros(count, self.task.outputs, dtype=torch.float64, device=self.device)
            for numbers, counts in shares(count, max(1, EVALUATED // self.per_sample), share):
                *inputs, _ = self.rows(source, numbers)
                with torch.no_grad():
                    outputs = model(*inputs).double()
                rows = upload(np.flatnonzero(counts), self.device)
                whole[upload(numbers[counts], self.device)] = outputs[rows]
            tallies[f"outputs{number}"] = whole
        return tallies

    def metrics(self, sums: dict[str, Tensor]) -> dict[str, float]:
        """Metrics on the first held-out file, with the standard error of the accuracy, or of Pearson's correlation
        where the task predicts a score. `accuracy_mismatched` is on MNLI's second file, which has other genres."""
        outputs, true = sums["outputs0"].cpu().numpy(), self.held[0].labels
        if not np.isfinite(outputs).all():
            return dict.fromkeys(("loss", self.task.metric, "standard_error"), math.nan)
        if not self.task.classes:
            answers = outputs[:, 0]
            linear = glue_scores.pearson(answers, true)
            return {
                "loss": float(((answers - true) ** 2).mean()),
                "pearson": linear,
                "spearman": glue_scores.spearman(answers, true),
                "standard_error": glue_scores.correlation_error(linear, len(true)),
            }
        classes, labels = outputs.argmax(axis=1), torch.from_numpy(true)
        share = glue_scores.accuracy(classes, true)
        out = {"loss": float(functional.cross_entropy(torch.from_numpy(outputs), labels)), "accuracy": share}
        if self.task.metric == "f1":
            out["f1"] = glue_scores.f1(classes, true)
        if self.task.metric == "mcc":
            out["mcc"] = glue_scores.matthews(classes, true)
        for number in range(1, len(self.held)):
            answers = sums[f"outputs{number}"].cpu().numpy().argmax(axis=1)
            out["accuracy_mismatched"] = glue_scores.accuracy(answers, self.held[number].labels)
        return out | {"standard_error": glue_scores.binomial_error(share, len(true))}

    def probe_batch(self, size: int) -> Tensor:
        """The `size` longest held-out examples, cut to the length of the shortest, so that none is padded."""
        source = self.held[0]
        check_probe(size, len(source.labels), "examples")
        longest = np.argsort(-source.lengths, kind="stable")[:size]
        return upload(source.ids[longest, : source.lengths[longest].min()].astype(np.int64), self.device)

    def guess(self) -> dict[str, float]:
        """Scores of a constant guess: the training set's class frequencies and most frequent class, or its mean
        score."""
        labels, true = self.train.labels, self.held[0].labels
        if not self.task.classes:
            return {"loss": float(((labels.mean() - true) ** 2).mean()), "pearson": 0.0, "spearman": 0.0}
        chances = (np.bincount(labels, minlength=self.task.outputs) + 1) / (len(labels) + self.task.outputs)
        most = np.full_like(true, int(chances.argmax()))
        out = {"loss": float(-np.log(chances[true]).mean()), "accuracy": glue_scores.accuracy(most, true)}
        if self.task.metric == "f1":
            out["f1"] = glue_scores.f1(most, true)
        if self.task.metric == "mcc":
            out["mcc"] = 0.0
        return out
