"""The eleven vision pairs of Tables 4 and 5, an original and its lean redesign each, at three scales.

At paper scale a pair is the two audited records: the likely reading of each row (`paper.audit`). At small scale it is
the family's smallest model at 64 pixels. Every stage and kind of attention stays, and so do the row's depth ratio, head
ratio, MLP ratio and policy. Patches and windows shrink with the image, so that tokens stay on the side of inner on
which the paper has them (VOLO's outlook attention has more tokens than columns there and here). At smoke the model is a
toy of the same form.

Ratios are rounded: ViT-L's 16 to 30 heads are 3 to 6 here, TNT-B's 10 to 16 are 6 to 10 (of 38, inner 1 % short). The
twins of VOLO-d3 and -d4 are one pair, and so are those of DaViT-B and -L: they differ in width alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from manyheads.arch import families as f
from manyheads.arch.controls import depths, head_dims, heads, inners, mlp_dims
from manyheads.arch.redesign import policy_of, redesign
from manyheads.paper.audit import likely
from manyheads.paper.rows import BY_ID, PAIRS
from manyheads.spec.arch import Arch, editable
from manyheads.spec.experiment import Arm

from .recipes import table6_task
from .scales import cifar, fashion

BASE = tuple(key for key in PAIRS if BY_ID[f"{key}/lean"].table == 4)
LARGE = tuple(key for key in PAIRS if BY_ID[f"{key}/lean"].table == 5)
TWICE = ("deit_b", "deit_l")  # the networks of ViT under another normalisation of the images: one pair counts once
FAMILY = {key: key.split("_")[0] for key in (*BASE, *LARGE)}
TASKS = {"smoke": fashion(32), "small": cifar(64), "paper": table6_task()}
# timm's families normalise and crop differently; with ViT-B and DeiT-B that is all that differs
NORMALISED = {
    "vit": ("half", 0.9),
    "tnt": ("half", 0.9),
    "deit": ("data", 0.9),
    "xcit": ("data", 1.0),
    "volo": ("data", 0.96),
    "davit": ("data", 0.95),
}

Maker = Callable[[Sequence[int]], Arch]
# fmt: off
SMALLEST: dict[str, Maker] = {
    "vit": lambda mlp: f.vit(192, 12, 3, 64, mlp[0], image=64, patch=8, classes=10),
    "deit": lambda mlp: f.vit(192, 12, 3, 64, mlp[0], image=64, patch=8, classes=10, family="deit"),
    "xcit": lambda mlp: f.xcit(384, 12, 8, 48, mlp[0], image=64, patch=8, classes=10, scaled=1.0),
    "tnt": lambda mlp: f.tnt(384, 12, 6, 64, mlp[0], pixel_width=24, pixel_head_dim=6, pixel_mlp_dim=96, image=64, patch=8,
                             stride=2, classes=10),
    "volo": lambda mlp: f.volo((192, 384, 384, 384), (4, 4, 8, 2), (6, 12, 12, 12), (32,) * 4, mlp, image=64, patch=4,
                               classes=10),
    "davit": lambda mlp: f.davit((96, 192, 384, 768), (1, 1, 3, 1), (3, 6, 12, 24), (32,) * 4, mlp, window=4, image=64,
                                 classes=10),
}
TOY: dict[str, Maker] = {
    "vit": lambda mlp: f.vit(36, 6, 3, 12, mlp[0], image=32, patch=8, channels=1, classes=10),
    "deit": lambda mlp: f.vit(36, 6, 3, 12, mlp[0], image=32, patch=8, channels=1, classes=10, family="deit"),
    "xcit": lambda mlp: f.xcit(48, 4, 4, 12, mlp[0], image=32, patch=8, channels=1, classes=10, scaled=1.0),
    "tnt": lambda mlp: f.tnt(40, 3, 5, 8, mlp[0], pixel_width=8, pixel_heads=2, pixel_head_dim=4, pixel_mlp_dim=16,
                             image=32, patch=8, channels=1, classes=10),
    "volo": lambda mlp: f.volo((24, 48, 48, 48), (2, 2, 2, 2), (2, 4, 4, 4), (12,) * 4, mlp, stem=8, image=32, patch=4,
                               channels=1, classes=10),
    "davit": lambda mlp: f.davit((16, 32, 64, 128), (1, 1, 2, 1), (1, 2, 4, 8), (16,) * 4, mlp, window=4, image=32,
                                 channels=1, classes=10),
}
# fmt: on


@dataclass(frozen=True)
class VisionPair:
    """An original and its lean form. `policy` says how heads were added: `fixed` kept head_dim, `split` kept inner."""

    key: str
    original: Arch
    lean: Arch
    policy: str


@cache
def pair(key: str, scale: str) -> VisionPair:
    """The pair of a row at a scale."""
    audited = VisionPair(
        key,
        likely(BY_ID[f"{key}/original"]).arch,
        likely(BY_ID[f"{key}/lean"]).arch,
        likely(BY_ID[f"{key}/lean"]).policy,
    )
    if scale == "paper":
        return audited
    make = (SMALLEST if scale == "small" else TOY)[FAMILY[key]]
    original = _with_mlp(make, audited.original)
    lean = scaled(original, audited)
    assert policy_of(original, lean) == audited.policy, key
    return VisionPair(key, original, lean, audited.policy)


def _with_mlp(make: Maker, audited: Arch) -> Arch:
    """The family's model with the MLP ratio of the audited original: that of ViT-L is 2, not 4."""
    stages = [audited.stages[i] for i in editable(audited)]
    ratios = [mlp / stage.width for mlp, stage in zip(mlp_dims(audited), stages, strict=True)]
    plain = make([1] * len(ratios))
    widths = [plain.stages[i].width for i in editable(plain)]
    return make([round(ratio * width) for ratio, width in zip(ratios, widths, strict=True)])


def scaled(original: Arch, audited: VisionPair) -> Arch:
    """`original` redesigned by the ratios between the audited records, stage by stage."""

    def like(what: Callable[[Arch], list[int]]) -> list[int]:
        before, after, ours = what(audited.original), what(audited.lean), what(original)
        return [max(1, round(own * b / a)) for a, b, own in zip(before, after, ours, strict=True)]

    counts = like(heads)
    sizes = head_dims(original)
    if audited.policy == "split":
        sizes = [round(inner / count) for inner, count in zip(inners(original), counts, strict=True)]
    return redesign(original, depth=like(depths), heads=counts, head_dim=sizes, mlp_dim=like(mlp_dims))


def task(key: str, scale: str) -> dict[str, Any]:
    """The task's fields of an arm of this row: how its family crops and normalises images."""
    normalise, centre = NORMALISED[FAMILY[key]]
    return {"normalise": normalise} | ({"centre": centre} if scale == "paper" else {})


def arm(key: str, scale: str, role: str, arch: Arch, note: str = "") -> Arm:
    """One model of a row: vit_b_lean."""
    shapes = [f"{count} x {dim}" for count, dim in zip(heads(arch), head_dims(arch), strict=True)]
    layers = ",".join(map(str, depths(arch)))
    shape = f"{layers} layers, {shapes[0] if len(set(shapes)) == 1 else ', '.join(shapes)} heads"
    return Arm(f"{key}_{role}", arch, f"{shape}; {note}" if note else shape, task(key, scale))
