"""Runs that start from other weights, or that were trained on other files, are not compared as if they were alike."""

from __future__ import annotations

from pathlib import Path

from manyheads.arch.families import vit
from manyheads.report.comparable import unplanned
from manyheads.report.section_verdicts import verdicts
from manyheads.runs import Run
from manyheads.spec.images import Images
from manyheads.spec.recipe import Basis, Recipe
from manyheads.spec.run import RunSpec
from manyheads.train.loop import train
from tests.data.written import write_folder, write_image

from .made import put
from .test_comparable import SEEDS, only_section


def of_width(width: int, seed: int = 0, weights: str = "") -> RunSpec:
    """A short run of a small model on the image folder `colours`."""
    arch = vit(width, 1, 1, 8, 8, image=16, patch=16, channels=3, classes=3)
    recipe = Recipe(batch=4, basis=Basis("steps", 1), probe_every=0)
    return RunSpec(arch, Images("folder:colours", size=16, classes=3), recipe, seed, weights=weights)


def test_runs_on_other_images_of_the_same_name_and_number_are_not_comparable(tmp_path: Path) -> None:
    for arm, width in (("original", 8), ("lean", 16)):
        data = write_folder(tmp_path / arm / "data" / "colours", train=2, val=1)
        if arm == "lean":
            write_image(data / "val" / "red" / "000.png", (0, 0, 0))
        run = Run.create(tmp_path / f"{arm}-s0", of_width(width))
        train(run, device="cpu", quiet=True, root=tmp_path / arm / "data")
    section = only_section(tmp_path)
    assert "their data" in " ".join(unplanned(section, section.arms))
    assert [one.verdict.word for one in verdicts(section)] == ["not comparable"]


def test_a_model_from_trained_weights_is_not_comparable_with_one_from_random_weights(tmp_path: Path) -> None:
    for seed in SEEDS:
        put(tmp_path / f"original-s{seed}", of_width(8, seed), 0.8 + 0.001 * seed)
        put(tmp_path / f"tuned-s{seed}", of_width(16, seed, "a" * 64), 0.9 + 0.002 * seed)
    (one,) = verdicts(only_section(tmp_path))
    assert one.verdict.word == "not comparable"
    assert "They differ in weights" in one.verdict.reason


def test_seeds_that_start_from_other_trained_weights_are_one_arm(tmp_path: Path) -> None:
    for seed in SEEDS:
        for width, name in ((8, "original"), (16, "tuned")):
            put(
                tmp_path / f"{name}-s{seed}",
                of_width(width, seed, f"{name == 'tuned':d}{seed}" * 32),
                0.8 + 0.001 * seed,
            )
    section = only_section(tmp_path)
    assert {arm.name: arm.seeds for arm in section.arms} == {"original": 3, "tuned": 3}
    assert [one.verdict.word for one in verdicts(section)] == ["within noise"]
