"""What the tests run in processes of their own."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import torch

from manyheads.runs import Run, RunSpec
from manyheads.spec.errors import UserError
from manyheads.train.early_end import Stopped
from manyheads.train.loop import train

from . import tiny  # noqa: F401 (registers the task)


def train_alone(folder: str, spec: dict[str, Any]) -> None:
    """Train in one process; asked to stop, exit as the command does."""
    torch.set_num_threads(1)
    try:
        train(Run.create(Path(folder), RunSpec.from_dict(spec)), device="cpu", progress="none")
    except Stopped as stopped:
        sys.exit(stopped.code)


def train_together(folder: str, spec: dict[str, Any], kind: Any, stop_at: int = 0) -> None:
    """Train as one of several; with `stop_at` every process is asked to stop during that step."""
    run = Run.create(Path(folder), RunSpec.from_dict(spec))
    watcher: Any = "none"
    if stop_at:
        watcher = Stopper(stop_at)
    try:
        train(run, device="cpu", parallel=kind, progress=watcher)
    except Stopped:
        if not stop_at:
            raise


class Stopper:
    """Sends this process SIGTERM when the log comes to a step."""

    def __init__(self, at: int) -> None:
        self.at = at

    def say(self, text: str) -> None:
        """Not heard."""

    def move(self, step: int, progress: float, rate: float, numbers: Any) -> None:
        """Ask to stop."""
        if step >= self.at:
            os.kill(os.getpid(), 15)

    def record(self, step: int, numbers: Any) -> None:
        """Not kept."""

    def close(self) -> None:
        """Nothing to close."""


def meta_shards(arch: Any, answer: str) -> None:
    """Shard a model over 8 processes of which only this one exists, on meta, and tell what it would hold."""
    import json
    import resource

    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    from manyheads.models.build import build
    from manyheads.train.sharding import local, shard

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    dist.init_process_group("fake", rank=0, world_size=8, store=FakeStore())
    model = shard(build(arch, device="meta"), init_device_mesh("cpu", (8,)))
    told = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "here": sum(local(p).numel() for p in model.parameters()),
        "kibibytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before,
    }
    Path(answer).write_text(json.dumps(told))


def shard_families() -> None:
    """Every family's tiny model, whole and sharded over these processes: the same output, the same gradients."""
    from manyheads.models.build import build
    from manyheads.spec.recipe import Rates
    from manyheads.train.parallel import joined
    from manyheads.train.sharding import initial_model, whole
    from tests.models.tiny import ORIGINALS, inputs, scalar

    with joined("fsdp", "cpu") as ranks:
        for name, arch in ORIGINALS.items():
            plain, cut = build(arch, device="cpu", seed=3), initial_model(arch, Rates(), 3, ranks)
            losses = [scalar(model, inputs(arch)) for model in (plain, cut)]
            for loss in losses:
                loss.backward()
            torch.testing.assert_close(losses[1], losses[0], msg=name)
            for (parameter, a), b in zip(cut.named_parameters(), plain.parameters(), strict=True):
                assert a.grad is not None, parameter
                assert b.grad is not None
                torch.testing.assert_close(whole(a.grad), b.grad, rtol=1e-3, atol=1e-6, msg=f"{name} {parameter}")


def refused_together(folder: str, made: dict[str, Any], parallel: str, out: str) -> None:
    """Train as one of several processes; what it is refused with goes to a file."""
    try:
        train_together(folder, made, parallel)
    except UserError as error:
        (Path(out) / f"refused-{os.environ['RANK']}").write_text(str(error))


class Ear(Stopper):
    """Keeps what is said; asks to stop at a step."""

    def __init__(self, at: int = 10**9) -> None:
        super().__init__(at)
        self.heard: list[str] = []

    def say(self, text: str) -> None:
        """Keep it."""
        self.heard.append(text)
