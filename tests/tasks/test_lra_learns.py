"""Every long-range task is learnt, at a size for seconds on one core, clearly beyond the best constant guess."""

from __future__ import annotations

from pathlib import Path

import pytest

from manyheads.experiments.long_range_recipes import SMOKE, softmax
from manyheads.runs import Run
from manyheads.tasks import to_dict
from manyheads.train.loop import train
from tests.specs import run_spec

# validation accuracy that the best constant guess has at most, and that the model reaches at least
FLOOR = {
    "listops": (0.13, 0.5),
    "text": (0.5, 0.8),
    "retrieval": (0.5, 0.72),
    "image": (0.12, 0.3),
    "pathfinder": (0.5, 0.75),
}


QUICK = ("listops", "text")  # the others by `make test-all`


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in FLOOR]
)
def test_a_small_nystromformer_learns(name: str, tmp_path: Path) -> None:
    entry = SMOKE[name]
    spec = run_spec(entry.arch, to_dict(entry.task), entry.recipe.to_dict(), 0)
    result = train(Run.create(tmp_path / "run", spec), device="cpu", progress="none", root=tmp_path)
    trivial, reached = FLOOR[name]
    assert result["trivial"]["top1"] <= trivial
    assert result["score"]["top1"] > reached
    assert result["score"]["test_top1"] > reached
    assert result["score"]["loss"] < 0.85 * result["trivial"]["loss"]


def test_its_softmax_peer_learns_too(tmp_path: Path) -> None:
    entry = SMOKE["listops"]
    spec = run_spec(softmax(entry.arch), to_dict(entry.task), entry.recipe.to_dict(), 0)
    result = train(Run.create(tmp_path / "run", spec), device="cpu", progress="none", root=tmp_path)
    assert result["score"]["top1"] > 0.5
