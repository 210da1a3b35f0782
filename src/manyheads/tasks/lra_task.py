"""What the long-range tasks share: which model fits, and how a task is opened."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from manyheads.data.local_data import data_root
from manyheads.data.lra import generated_sets
from manyheads.data.lra.sequences import Sequences
from manyheads.data.randomness import Order, key
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Classify, Pair, Token
from manyheads.spec.validate import between

from .lra_work import Form, Fresh, SequenceWork, Source, Stored

MOST_WORKERS = 8  # processes that make a set


@dataclass(frozen=True, kw_only=True)
class LraTask(ABC):
    """A task of LRA. `train`, `valid` and `test` say how many samples of each split there are, at most; a split that is
    larger keeps as many of each class as that allows. 0 for `test` leaves the test scores out."""

    train: int
    valid: int
    test: int

    def __post_init__(self) -> None:
        name = type(self).__name__
        between(f"{name}.train", self.train, 1, whole=True)
        between(f"{name}.valid", self.valid, 1, whole=True)
        between(f"{name}.test", self.test, 0, whole=True)

    @property
    @abstractmethod
    def form(self) -> Form:
        """What a model is given and asked for."""

    @abstractmethod
    def splits(self, root: Path) -> dict[str, Sequences]:
        """Training, validation and test samples; training is left out where it is not kept."""

    def check(self, arch: Arch) -> None:
        """Refuse a model that reads other sequences or gives other classes."""
        name, form = type(self).__name__, self.form
        embed, head = self._kinds(arch)
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

    def _kinds(self, arch: Arch) -> tuple[Token, Classify | Pair]:
        """Embedding and head of a model that classifies sequences; any other is refused."""
        name, wanted = type(self).__name__, Pair if self.form.documents == 2 else Classify
        if not isinstance(arch.embed, Token):
            raise UserError(
                f"{name} gives token ids and a {arch.family} model reads {type(arch.embed).__name__} input; "
                "take a nystromformer"
            )
        if not isinstance(arch.head, wanted):
            pair = "pair=True" if wanted is Pair else "pair=False"
            raise UserError(
                f"{name} asks for a {wanted.__name__} head and the model's is {type(arch.head).__name__}; "
                f"write nystromformer(..., {pair})"
            )
        assert isinstance(arch.head, Classify | Pair)
        return arch.embed, arch.head

    def fit(self, arch: Arch) -> Arch:
        """`arch` for these sequences and classes; a vocabulary that is large enough and everything else stay."""
        form = self.form
        embed, head = self._kinds(arch)
        positions = form.tokens if embed.positions else 0
        read: Any = replace(embed, vocab=max(embed.vocab, form.vocab), positions=positions)
        stages = tuple(replace(stage, tokens=form.tokens) for stage in arch.stages)
        return replace(arch, embed=read, stages=stages, head=replace(head, classes=form.classes))

    def open(self, device: torch.device, seed: int, batch: int, *, root: Path | None = None) -> SequenceWork:
        """The samples below `root`; sets that we make are made there if they are not there yet."""
        between("batch", batch, 1, whole=True)
        found = self.splits(data_root(root))
        held = {name: found[name].first(getattr(self, name)) for name in ("valid", "test") if getattr(self, name)}
        return SequenceWork(self._source(found, seed, batch), held, self.form, device)

    def _source(self, found: dict[str, Sequences], seed: int, batch: int) -> Source:
        train = found["train"].first(self.train)
        return Stored(train, Order(len(train), seed, batch))


@dataclass(frozen=True, kw_only=True)
class MadeTask(LraTask):
    """A task whose samples can be generated. `fresh` makes new training samples at every step instead of keeping a set;
    `data_seed` draws the sets, and is not the seed of a run."""

    fresh: bool = False
    data_seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self).__name__
        between(f"{name}.data_seed", self.data_seed, 0, whole=True)
        if not isinstance(self.fresh, bool):
            raise UserError(f"{name}.fresh is {self.fresh!r}; write True or False")
        if self.fresh and self.made is None:
            raise UserError(
                f"{name}.fresh asks for new samples at every step, and its data are read; write data='made'"
            )

    @property
    @abstractmethod
    def made(self) -> tuple[str, Any] | None:
        """The kind of samples and their setting, as `data.lra.generated_sets` has them; None where they are read."""

    def splits(self, root: Path) -> dict[str, Sequences]:
        """The sets that were made for these sizes."""
        assert self.made is not None
        sizes = {"train": 0 if self.fresh else self.train, "valid": self.valid, "test": self.test}
        workers = min(MOST_WORKERS, os.cpu_count() or 1)
        return generated_sets.generated_set(root, *self.made, sizes, self.data_seed, workers=workers)

    def _source(self, found: dict[str, Sequences], seed: int, batch: int) -> Source:
        if not self.fresh:
            return super()._source(found, seed, batch)
        assert self.made is not None
        kind, setting = self.made
        return Fresh(lambda places: generated_sets.sample(kind, setting, key(seed, "fresh"), places), batch)
