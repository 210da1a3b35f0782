"""The comparison that decides: a design beside its original and the controls, arm by arm."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote

from manyheads.arch.controls import makers
from manyheads.arch.count import params
from manyheads.spec import serialise as record
from manyheads.spec.arch import Arch
from manyheads.spec.datasets import FOLDER
from manyheads.spec.errors import UserError
from manyheads.spec.shell import word


@dataclass(frozen=True)
class ComparisonArm:
    """One model of a comparison: what it matches and by what relative miss, or why it cannot be made (`fault`)."""

    name: str
    arch: Arch | None = field(repr=False)
    params: int
    matches: str
    residual: float = 0.0
    same_as: str = ""
    fault: str = ""


def arms(original: Arch, lean: Arch) -> tuple[ComparisonArm, ...]:
    """The original, the lean design and every control of the pair; a control that cannot be made says why."""
    arms = [
        ComparisonArm("original", original, params(original).total, "what is redesigned"),
        ComparisonArm("lean", lean, params(lean).total, "the design"),
    ]
    for name, make in makers(original, lean).items():
        try:
            control = make(original, lean)
        except UserError as error:
            arms.append(ComparisonArm(name=name, arch=None, params=0, matches="", fault=str(error)))
            continue
        twin = next((arm.name for arm in arms if arm.arch == control.arch), "")
        count = params(control.arch).total
        arms.append(
            ComparisonArm(
                name=name,
                arch=control.arch,
                params=count,
                matches=control.matches,
                residual=control.residual,
                same_as=twin,
            )
        )
    return tuple(arms)


def command(arms: tuple[ComparisonArm, ...], folder: Path, data: str | None = None) -> str:
    """The shell line that trains every saved arm with three seeds: on the dataset `data`, or on the embedded one that
    the models' records lead to."""
    names = " ".join(arm.name for arm in arms if arm.arch is not None and not arm.same_as)
    on = "" if data is None else f" --data {quote(data)}"
    if data is not None and data.startswith(FOLDER):
        on += " --recipe table6"  # the first paper's, for images that are streamed from files
    return (
        f"for arm in {names}; do for seed in 0 1 2; do manyheads train {word(folder)}/$arm.json{on} --seed $seed "
        "--out runs/$arm-s$seed; done; done"
    )


def save(arms: tuple[ComparisonArm, ...], folder: Path) -> list[Path]:
    """Write every arm that is a model of its own to `NAME.json`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder} cannot be created: {error.strerror or error}") from None
    paths = []
    for arm in arms:
        if arm.arch is not None and not arm.same_as:
            record.save(arm.arch, folder / f"{arm.name}.json")
            paths.append(folder / f"{arm.name}.json")
    return paths
