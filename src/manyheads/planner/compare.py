"""The comparison that decides: a design beside its original and the controls, arm by arm."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from manyheads.arch.controls import (
    Control,
    depth_only,
    fixed,
    heads_only,
    mlp_matched,
    params_matched,
    split,
    wide_heads,
)
from manyheads.arch.count import params
from manyheads.arch.redesign import policy_of
from manyheads.spec import serialise as record
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Points, Token


@dataclass(frozen=True)
class Arm:
    """One model of a comparison: what it matches, by how much it misses, or why it cannot be made (`fault`)."""

    name: str
    arch: Arch | None
    params: int
    matches: str
    residual: float = 0.0
    same_as: str = ""
    fault: str = ""


def arms(original: Arch, lean: Arch) -> tuple[Arm, ...]:
    """Original, lean and every control that can be made of the pair; one that cannot says why."""
    found = [
        Arm("original", original, params(original).total, "what is redesigned"),
        Arm("lean", lean, params(lean).total, "the design"),
    ]
    policy = policy_of(original, lean)
    makers = {
        "depth_only": depth_only,
        "heads_only": heads_only,
        "split": split,
        "fixed": fixed,
        "wide_heads": wide_heads,
        "mlp_matched": mlp_matched,
        "params_matched": params_matched,
    }
    del makers["split" if policy == "split" else "fixed"]  # the policy control is the one that lean did not use
    if isinstance(original.embed, Points):
        del makers["params_matched"]
    for name, make in makers.items():
        try:
            control: Control = make(original, lean)
        except UserError as error:
            found.append(Arm(name, None, 0, "", fault=str(error)))
            continue
        twin = next((arm.name for arm in found if arm.arch == control.arch), "")
        count = params(control.arch).total
        found.append(Arm(name, control.arch, count, control.matches, control.residual, twin))
    return tuple(found)


def command(found: tuple[Arm, ...], folder: Path) -> str:
    """The shell line that trains every saved arm with three seeds, on the images or the task of the user's choice."""
    names = " ".join(arm.name for arm in found if arm.arch is not None and not arm.same_as)
    arch = found[0].arch
    assert arch is not None
    on = "--task TASK.json" if isinstance(arch.embed, Token | Points) else "--data folder:NAME --recipe table6"
    return (
        f"for arm in {names}; do for seed in 0 1 2; do manyheads train {folder}/$arm.json {on} --seed $seed "
        "--out runs/$arm-s$seed; done; done"
    )


def save(found: tuple[Arm, ...], folder: Path) -> list[Path]:
    """Write every arm that is a model of its own as `NAME.json`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder} cannot be made: {error.strerror or error}") from None
    paths = []
    for arm in found:
        if arm.arch is not None and not arm.same_as:
            record.save(arm.arch, folder / f"{arm.name}.json")
            paths.append(folder / f"{arm.name}.json")
    return paths
