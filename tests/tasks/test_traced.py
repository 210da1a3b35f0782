"""A task's loss is traced with the model as one graph, whatever arrays the task holds."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from manyheads.arch import families
from manyheads.experiments.long_range_recipes import SMOKE
from manyheads.models.build import build
from manyheads.tasks import Images, Task, open_task
from manyheads.tasks.points import NearestNeighbor

# fmt: off
CASES: dict[str, tuple[Task, object]] = {
    "images": (Images(), families.vit(32, 1, 2, 16, 32, image=28, patch=7, classes=10, channels=1)),
    "nearest": (NearestNeighbor(dim=8, tokens=4), families.nearest_neighbor(8, 1, 1, 8, 16, tokens=4)),
    **{name: (entry.task, entry.arch) for name, entry in SMOKE.items()},
}
# fmt: on


@pytest.mark.parametrize("name", CASES)
def test_a_loss_is_one_graph(name: str, tmp_path: Path) -> None:
    task, arch = CASES[name]
    work, model = open_task(task, torch.device("cpu"), 0, 4, root=tmp_path), build(arch)
    batch = work.batch(0, range(4))
    traced = torch.compile(lambda *given: work.loss(model, *given), backend="eager", fullgraph=True)
    torch.manual_seed(0)
    found = traced(*batch)
    torch.manual_seed(0)
    assert torch.allclose(found, work.loss(model, *batch))
