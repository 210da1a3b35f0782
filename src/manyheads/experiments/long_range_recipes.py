"""LRA's five tasks with their published settings (mlpen/Nystromformer; 2102.03902), and a tiny twin of each for a test
run.

    entry = PUBLISHED["listops"]
    RunSpec(entry.arch, entry.task, entry.recipe, seed=0)

Published: width 64, 2 layers of 2 heads of 32, MLP 128, 64 landmarks, a convolution of 35 taps, dropout 0.1; AdamW at
1e-4 without decay or clipping, a straight rise from 1/25 of that and a straight fall to 0, mixed precision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from manyheads.arch.families import nystromformer
from manyheads.arch.redesign import redesign
from manyheads.paper import rows as paper
from manyheads.spec.arch import Arch
from manyheads.spec.generated import Grammar, Scene, Topics
from manyheads.spec.long_range import ByteText, ListOps, LraTask, Pathfinder, PixelRow, Retrieval
from manyheads.spec.parts import Attention, Residual, Softmax, Stage
from manyheads.spec.recipe import Basis, Rates, Recipe
from manyheads.spec.schedule import Schedule

CYCLING = (0.95, 0.85)  # what PyTorch's OneCycleLR does to AdamW's first beta unless told not to


@dataclass(frozen=True)
class LraEntry:
    """A model, a task and a recipe that belong together. `accuracy` has what others published, in per cent, one seed
    each: `nystromformer` and `softmax` by the authors of the Nyströmformer (2 layers of 2 heads), `original` and `lean`
    by the first paper (Table 3)."""

    arch: Arch
    task: LraTask
    recipe: Recipe
    accuracy: Mapping[str, float] = field(default_factory=dict)

    @property
    def lean(self) -> Arch:
        """The first paper's redesign: 1 layer of 4 heads, head_dim kept."""
        return redesign(self.arch, depth=1, heads=4)

    @property
    def cycling(self) -> Recipe:
        """The recipe as the published code runs it, AdamW's first beta moving against the learning rate."""
        return replace(self.recipe, schedule=replace(self.recipe.schedule, beta1=CYCLING))


def softmax(arch: Arch) -> Arch:
    """The exact peer of a Nyströmformer: the same model with softmax attention, and no convolution."""

    def peer(branch: Residual) -> Residual:
        return replace(branch, op=replace(branch.op, mix=Softmax())) if isinstance(branch.op, Attention) else branch

    def stage(given: Stage) -> Stage:
        return replace(given, unit=tuple(tuple(map(peer, layer)) for layer in given.unit if isinstance(layer, tuple)))

    return replace(arch, stages=tuple(map(stage, arch.stages)))


def _published(
    task: LraTask, model: paper.Model, batch: int, warmup: int, steps: int, every: int, **accuracy: float
) -> LraEntry:
    """An entry. Mixed precision is bfloat16 here and float16 there; `LraEntry.cycling` also moves the first beta."""
    recipe = Recipe(
        batch=batch,
        basis=Basis("steps", steps),
        lr=1e-4,
        eps=1e-6,
        weight_decay=0.0,
        clip=0.0,
        schedule=Schedule("linear", warmup=warmup / steps, start=1 / 25, end=1 / 25e4),
        rates=Rates(dropout=0.1, attention=0.1),
        evaluate_every=every,
        checkpoint_every=1000,
    )
    return LraEntry(model.make(128), task, recipe, accuracy)


# fmt: off
PUBLISHED: dict[str, LraEntry] = {
    "listops": _published(ListOps(), paper.LISTOPS, 32, 1000, 5_000, 50,
                          nystromformer=37.15, softmax=37.10, original=36.79, lean=37.13),
    "text": _published(ByteText(data="imdb"), paper.TEXT, 32, 8000, 20_000, 500,
                       nystromformer=65.52, softmax=65.02, original=62.95, lean=63.82),
    "retrieval": _published(Retrieval(data="aan", train=147_086, valid=18_090, test=17_437), paper.RETRIEVAL, 32, 800,
                            30_000, 300, nystromformer=79.56, softmax=79.35, original=79.3, lean=79.5),
    "image": _published(PixelRow(data="cifar10"), paper.IMAGE, 256, 175, 35_000, 175,
                        nystromformer=41.58, softmax=38.20, original=37.2, lean=38.2),
    "pathfinder": _published(Pathfinder(), paper.PATHFINDER, 256, 312, 62_400, 312,
                             nystromformer=70.94, softmax=74.16, original=69.8, lean=69.9),
}
# fmt: on


def _smoke(task: LraTask, steps: int, batch: int, lr: float, landmarks: int, conv: int) -> LraEntry:
    form = task.form
    arch = nystromformer(
        32,
        1,
        2,
        16,
        64,
        vocab=form.vocab,
        tokens=form.tokens,
        classes=form.classes,
        landmarks=landmarks,
        conv=conv,
        pair=form.documents == 2,
        head_hidden=64,
    )
    recipe = Recipe(
        batch=batch,
        basis=Basis("steps", steps),
        lr=lr,
        schedule=Schedule("cosine", warmup=0.1),
        betas=(0.9, 0.99),
        weight_decay=0.0,
        evaluate_every=0.5,
        log_every=20,
    )
    return LraEntry(arch, task, recipe)


# Seconds on one core: the same generators at easy settings, trees without nesting, short texts, contours of two dashes.
# fmt: off
SMOKE: dict[str, LraEntry] = {
    "listops": _smoke(ListOps(grammar=Grammar(depth=2, arity=4, shortest=4, longest=6), tokens=8, train=10_000, valid=500,
                              test=500), 250, 64, 3e-3, 4, 0),
    "text": _smoke(ByteText(topics=Topics(count=2, share=0.6, shortest=48, longest=64), longest=64, tokens=64, train=5_000,
                            valid=500, test=500), 150, 32, 3e-3, 16, 7),
    "retrieval": _smoke(Retrieval(topics=Topics(count=4, share=1, taste=1, shortest=60, longest=64), longest=64, tokens=64,
                                  train=5_000, valid=500, test=500), 150, 32, 5e-3, 16, 3),
    "image": _smoke(PixelRow(train=2_000, valid=200, test=200), 110, 32, 5e-3, 16, 35),
    "pathfinder": _smoke(Pathfinder(scene=Scene(side=12, contour=2, distractors=1, distractor=2, dash=1, gap=1, apart=6,
                                                marker=2), train=4_000, valid=500, test=500), 300, 32, 3e-3, 12, 25),
}
# fmt: on
