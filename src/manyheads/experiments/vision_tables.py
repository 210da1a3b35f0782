"""Tables 4 and 5 (and with them Figures 6 and 7): eleven vision models beside their lean forms, and beside the control
that the tables lack, less depth alone. Figure 1 is both tables.

    manyheads run table4 --scale smoke     six toy pairs, a second a run
    manyheads run table4 --scale small     six pairs of the smallest sizes, CIFAR-10 at 64 px, 20 epochs, 3 seeds
    manyheads run table4 --scale paper     the audited records, ImageNet, 300 epochs with Table 6's recipe

fig1 has the runs of both tables, to the id: what is finished under one name is finished under the other (`sweep.plan`).
Printed is top-1 accuracy. No loss means worse by less than half a point, the size of the gains that the paper
reports."""

from __future__ import annotations

from dataclasses import replace

from manyheads.arch.controls import depth_only
from manyheads.paper.rows import BY_ID
from manyheads.spec.experiment import Arm, Comparison, Experiment, Loses, Setting

from .recipes import TABLE6_LARGE
from .scales import RECIPES, SEEDS
from .vision_pairs import BASE, LARGE, TASKS, TWICE, arm, pair

MARGIN = 0.005


def arms(keys: tuple[str, ...], scale: str) -> tuple[Arm, ...]:
    """Original and lean of every row; the large models' batch is their own, where the paper's is."""
    own = {"batch": TABLE6_LARGE.batch}
    out = []
    for key in keys:
        both = pair(key, scale)
        alone = depth_only(both.original, both.lean).arch
        for role, arch in (("original", both.original), ("lean", both.lean), ("depth_only", alone)):
            one = arm(key, scale, role, arch, f"heads {both.policy}" if role == "lean" else "")
            large = scale == "paper" and key in LARGE
            out.append(Arm(one.name, one.arch, one.note, one.task, own if large else {}))
    return tuple(out)


def settings(keys: tuple[str, ...]) -> dict[str, Setting]:
    """The rows at all three scales."""
    return {scale: Setting(arms(keys, scale), SEEDS[scale], TASKS[scale], {"steps": RECIPES[scale]}) for scale in TASKS}


def printed(keys: tuple[str, ...]) -> dict[str, float]:
    """Top-1 accuracy as the tables print it."""
    return {
        f"{key}_{role}": BY_ID[f"{key}/{role}"].scores["top1"] / 100 for key in keys for role in ("original", "lean")
    }


def comparisons(keys: tuple[str, ...], claim: str, scales: tuple[str, ...] = ()) -> tuple[Comparison, ...]:
    """Each lean model beside its original, where less depth alone loses."""
    value = printed(keys)
    return tuple(
        Comparison(
            f"{key}_lean",
            f"{key}_original",
            "no_loss",
            MARGIN,
            "" if key in TWICE else claim,
            printed=round(value[f"{key}_lean"] - value[f"{key}_original"], 4),
            primary=bool(claim) and key not in TWICE,
            controls=(Loses(f"{key}_depth_only", f"{key}_original"),),
            scales=scales,
        )
        for key in keys
    )


QUESTION = "Do models with more heads and fewer layers do as well as their originals, with {} fewer parameters?"
TABLE4 = Experiment(
    "table4",
    "Base vision models",
    QUESTION.format("29 to 54 %"),
    settings(BASE),
    comparisons(BASE, "L9"),
    printed(BASE),
    shows="Table 4 and Figure 6",
)
TABLE5 = Experiment(
    "table5",
    "Large vision models",
    QUESTION.format("29 to 52 %"),
    settings(LARGE),
    comparisons(LARGE, "L10", ("paper",)) + comparisons(LARGE, "", ("smoke", "small")),
    printed(LARGE),
    shows="Table 5 and Figure 7",
)


def _summary() -> dict[str, Setting]:
    """Both tables. Of rows whose twins are the same model, the first."""
    both = settings(BASE + LARGE)
    for scale, setting in both.items():
        first: dict[str, Arm] = {}
        for one in setting.arms:
            first.setdefault(repr((one.arch, one.task, one.recipe)), one)
        both[scale] = replace(setting, arms=tuple(first.values()))
    return both


def _distinct(settings: dict[str, Setting]) -> tuple[Comparison, ...]:
    """The comparisons of both tables that have their arms at every scale."""
    there = set.intersection(*({one.name for one in setting.arms} for setting in settings.values()))
    both = comparisons(BASE, "L9") + comparisons(LARGE, "L10", ("paper",)) + comparisons(LARGE, "", ("smoke", "small"))
    return tuple(one for one in both if set(one.arms) <= there)


FIG1 = Experiment(
    "fig1",
    "Accuracy against parameters",
    QUESTION.format("about 50 %"),
    _summary(),
    _distinct(_summary()),
    printed(BASE + LARGE),
)
