"""On a GPU batches are the CPU's, and making them never makes the host wait."""

from __future__ import annotations

import pytest
import torch

from manyheads.tasks import Augment, Images, open_task

pytestmark = pytest.mark.gpu
AUGMENTS = [
    Augment(crop=2, flip=True),
    Augment(resized=(0.3, 1.0), flip=True),
    Augment(crop=2, erase=0.5, mixup=0.8, cutmix=1.0),
]


@pytest.mark.parametrize("augment", AUGMENTS)
def test_a_batch_is_the_cpus(augment: Augment) -> None:
    task = Images(augment=augment, limit=500)
    here, there = (open_task(task, torch.device(kind), 3, 64) for kind in ("cpu", "cuda"))
    for step in (0, 7, 8):
        for mine, theirs in zip(here.batch(step, range(64)), there.batch(step, range(64)), strict=True):
            assert theirs.device.type == "cuda"
            assert torch.allclose(mine, theirs.cpu(), atol=1.01 / 255 / 0.353 if augment.resized else 1e-5)


@pytest.mark.parametrize("augment", AUGMENTS)
def test_the_host_never_waits_for_the_device(augment: Augment) -> None:
    work = open_task(Images(augment=augment, limit=500), torch.device("cuda"), 3, 64)
    work.batch(0, range(64))
    torch.cuda.set_sync_debug_mode("error")
    try:
        for step in range(1, 20):
            work.batch(step, range(64))
    finally:
        torch.cuda.set_sync_debug_mode("default")
