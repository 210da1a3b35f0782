"""The five long-range tasks (LRA, 2011.04006): ListOps, Text, Retrieval, Image and Pathfinder.

Every one runs offline: ListOps and Pathfinder are generated, texts and pairs of texts can be (`data="made"`), and the
embedded images stand in for CIFAR-10. `experiments` has the published settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from manyheads.spec.field_checks import between, shown

from .datasets import image_set
from .errors import UserError
from .generated import LISTOPS_CLASSES, LISTOPS_TOKENS, Grammar, Scene, Topics
from .task import Task

VALUES = 256  # of a byte
TREES, SCENE, TOPICS, TWO_TOPICS = Grammar(), Scene(), Topics(taste=0.5), Topics(count=2)
PADDED = 1  # in texts, byte b is the id b + 1, and 0 is padding


@dataclass(frozen=True)
class Form:
    """The sizes of a task's inputs and outputs. A byte b is the id b + `shift`; `padded` sequences come with a mask;
    `documents` is 2 where a sample is a pair."""

    vocab: int
    tokens: int
    classes: int
    documents: int = 1
    shift: int = 0
    padded: bool = True


@dataclass(frozen=True, kw_only=True)
class LraTask(Task):
    """A task of LRA. `train`, `valid` and `test` are the largest numbers of samples of the splits; a larger split is
    cut, class by class. 0 for `test` leaves the test scores out."""

    train: int
    valid: int
    test: int

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self).__name__
        between(f"{name}.train", self.train, 1, whole=True)
        between(f"{name}.valid", self.valid, 1, whole=True)
        between(f"{name}.test", self.test, 0, whole=True)

    @property
    def form(self) -> Form:
        """The sizes of its inputs and outputs."""
        raise NotImplementedError


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
        if self.fresh and self.made is None:
            raise UserError(
                f"{name}.fresh asks for new samples at every step, which data that is read does not have; write data='made'"
            )

    @property
    def made(self) -> tuple[str, Any] | None:
        """The kind of samples and the setting with which `data.lra` generates them; None where they are read."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class ListOps(MadeTask):
    """Evaluate nested MIN, MAX, MED and SM (sum modulo 10) of digits; 10 classes, 16 ids. Sequences are padded to
    `tokens`."""

    grammar: Grammar = TREES
    tokens: int = 2048
    train: int = 96_000
    valid: int = 2_000
    test: int = 2_000

    def __post_init__(self) -> None:
        super().__post_init__()
        between("ListOps.tokens", self.tokens, 1, whole=True)
        if self.grammar.longest > self.tokens:
            raise UserError(
                f"ListOps.tokens is {self.tokens} and its sequences are up to {self.grammar.longest} long; one "
                f"that is cut has no value: write tokens={self.grammar.longest} or more"
            )

    @property
    def form(self) -> Form:
        """The sizes of its inputs and outputs."""
        return Form(len(LISTOPS_TOKENS), self.tokens, LISTOPS_CLASSES)

    @property
    def made(self) -> tuple[str, Grammar]:
        """The kind of its samples, which are always generated, and their setting."""
        return "listops", self.grammar


@dataclass(frozen=True, kw_only=True)
class Pathfinder(MadeTask):
    """Say whether two dots are the ends of one dashed contour: the picture's grey pixels in a row, 256 ids, none of
    them padding; 2 classes."""

    scene: Scene = SCENE
    train: int = 160_000
    valid: int = 20_000
    test: int = 20_000

    @property
    def form(self) -> Form:
        """The sizes of its inputs and outputs."""
        return Form(VALUES, self.scene.side**2, 2, padded=False)

    @property
    def made(self) -> tuple[str, Scene]:
        """The kind of its samples, which are always generated, and their setting."""
        return "pathfinder", self.scene


@dataclass(frozen=True, kw_only=True)
class TextTask(MadeTask):
    """A task on texts, byte by byte: real ones, named by `data`, or documents of made-up words (`made`: `topics` says
    which). At most `longest` bytes of a text are read; sequences are padded to `tokens`."""

    data: str = "made"
    topics: Topics = TOPICS
    longest: int = 4000
    tokens: int = 4096

    def __post_init__(self) -> None:
        name = type(self).__name__
        if self.data not in ("made", self.real):
            raise UserError(f"{name}.data is {shown(self.data)}; write 'made' or {self.real!r}")
        super().__post_init__()
        between(f"{name}.tokens", self.tokens, 1, whole=True)
        between(f"{name}.longest", self.longest, 1, self.tokens, whole=True)
        if self.data == "made" and self.topics.longest > self.longest:
            raise UserError(
                f"{name}.topics makes documents of up to {self.topics.longest} bytes, and {self.longest} are "
                f"read; write topics with longest={self.longest}"
            )

    @property
    def real(self) -> str:
        """The name of the real texts."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class ByteText(TextTask):
    """Classify a text: `imdb` reviews as negative or positive, or made-up documents by their topic."""

    topics: Topics = TWO_TOPICS
    train: int = 25_000
    valid: int = 2_500
    test: int = 25_000

    @property
    def real(self) -> str:
        """The name of the real texts."""
        return "imdb"

    @property
    def form(self) -> Form:
        """The sizes of its inputs and outputs."""
        return Form(VALUES + PADDED, self.tokens, self.topics.count if self.data == "made" else 2, shift=PADDED)

    @property
    def made(self) -> tuple[str, Topics] | None:
        """The kind of generated samples and their setting; None where they are read."""
        return ("text", self.topics) if self.data == "made" else None


@dataclass(frozen=True, kw_only=True)
class Retrieval(TextTask):
    """Say whether two documents belong together: `aan` papers by citation, or made-up ones by their topic."""

    train: int = 20_000
    valid: int = 2_000
    test: int = 2_000

    @property
    def real(self) -> str:
        """The name of the real texts."""
        return "aan"

    @property
    def form(self) -> Form:
        """The sizes of its inputs and outputs."""
        return Form(VALUES + PADDED, self.tokens, 2, documents=2, shift=PADDED)

    @property
    def made(self) -> tuple[str, Topics] | None:
        """The kind of generated samples and their setting; None where they are read."""
        return ("retrieval", self.topics) if self.data == "made" else None


@dataclass(frozen=True, kw_only=True)
class PixelRow(LraTask):
    """Classify an image as its grey pixels in a row: LRA's Image with `cifar10` (1,024 tokens), offline the embedded
    Fashion-MNIST (784). 256 ids, none of them padding."""

    data: str = "fashion_mnist"
    train: int = 45_000
    valid: int = 5_000
    test: int = 10_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if image_set(self.data).streamed:
            raise UserError(f"PixelRow.data is {self.data!r}; write a dataset in memory: cifar10 or fashion_mnist")

    @property
    def form(self) -> Form:
        """The sizes of its inputs and outputs."""
        images = image_set(self.data)
        return Form(VALUES, images.size**2, images.classes, padded=False)
