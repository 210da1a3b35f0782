"""The loop with the embedded images: a small ViT learns, and does the same twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from manyheads.arch.families import vit
from manyheads.runs import Run, RunSpec
from manyheads.train.loop import train
from tests.specs import run_spec
from tests.train.tiny import traces

ARCH = vit(32, 2, 2, 16, 64, image=28, patch=7, channels=1, classes=10)
AUGMENT = {"is": "Augment", "flip": True, "mixup": 0.2}
TASK = {"is": "Images", "limit": 2000, "test_limit": 200, "augment": AUGMENT}


def made(**recipe: object) -> RunSpec:
    """A short run."""
    usual = {
        "batch": 32,
        "basis": {"kind": "epochs", "amount": 2},
        "lr": 4e-3,
        "evaluate_every": 0.5,
        "probe_every": 0.5,
    }
    return run_spec(ARCH, TASK, usual | recipe, 0)


def test_a_small_vit_learns_the_embedded_images(tmp_path: Path) -> None:
    results = [train(Run.create(tmp_path / name, made()), device="cpu", progress="none") for name in "ab"]
    assert results[0]["images"] == 4000
    assert results[0]["score"]["top1"] > 0.45 > 4 * results[0]["trivial"]["top1"]
    assert traces(tmp_path / "a") == traces(tmp_path / "b")


@pytest.mark.slow
def test_a_compiled_run_has_the_losses_of_an_eager_one(tmp_path: Path) -> None:
    for switch in ("on", "off"):
        train(Run.create(tmp_path / switch, made(compile=switch)), device="cpu", progress="none")
    on, off = ([record["loss"] for record in Run.open(tmp_path / name).metrics.read()] for name in ("on", "off"))
    assert on == pytest.approx(off, rel=0.02)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "recipe", [{}, {"deterministic": True, "rates": {"dropout": 0.1}}, {"precision": "fp32", "ema": 0.9}]
)
def test_a_gpu_trains_it_too(recipe: dict, tmp_path: Path) -> None:
    results = [train(Run.create(tmp_path / name, made(**recipe)), device="cuda", progress="none") for name in "ab"]
    assert results[0]["score"]["top1"] > 0.45
    assert results[0]["score"]["loss"] == pytest.approx(results[1]["score"]["loss"], rel=0.05)
    if recipe.get("deterministic"):
        assert traces(tmp_path / "a") == traces(tmp_path / "b")
