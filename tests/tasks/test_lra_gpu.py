"""The long-range tasks on a GPU, compiled and captured as a run is there."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from manyheads.experiments.long_range_recipes import PUBLISHED, SMOKE, softmax
from manyheads.runs import Run
from manyheads.tasks import open_task, to_dict
from manyheads.train.loop import train
from tests.specs import run_spec

FLOOR = {"listops": 0.5, "text": 0.8, "retrieval": 0.7, "image": 0.3, "pathfinder": 0.7}


@pytest.mark.gpu
@pytest.mark.parametrize("name", FLOOR)
def test_a_gpu_learns_them_too(name: str, tmp_path: Path) -> None:
    entry = SMOKE[name]
    spec = run_spec(entry.arch, to_dict(entry.task), entry.recipe.to_dict(), 0)
    result = train(Run.create(tmp_path / "run", spec), device="cuda", progress="none", root=tmp_path)
    assert result["score"]["top1"] > FLOOR[name]


@pytest.mark.gpu
@pytest.mark.parametrize("exact", [False, True], ids=["nystrom", "softmax"])
def test_batches_are_the_same_as_on_a_cpu_and_the_published_model_takes_them(exact: bool, tmp_path: Path) -> None:
    from manyheads.models.build import build

    entry = PUBLISHED["listops"]
    task = type(entry.task)(train=64, valid=16, test=16)  # type: ignore[call-arg]
    here, there = (
        open_task(task, torch.device(kind), 0, 8, root=tmp_path).batch(3, range(8)) for kind in ("cuda", "cpu")
    )
    assert all(torch.equal(one.cpu(), other) for one, other in zip(here, there, strict=True))
    made = build(softmax(entry.arch) if exact else entry.arch, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(made(*here[:-1]).float(), here[-1])
    loss.backward()
    assert float(loss) < 4
