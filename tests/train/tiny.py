"""A task and a model small enough for a step of two milliseconds, and runs of them in processes of their own.

Processes are forked from a server that has everything imported, so that one costs some milliseconds and not seconds.
"""

from __future__ import annotations

import hashlib
import math
import multiprocessing
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from manyheads.arch.families import vit
from manyheads.runs import Run, RunSpec
from manyheads.spec.arch import Arch
from manyheads.spec.parts import Token
from manyheads.spec.task import Task
from manyheads.spec.task_kinds import register
from manyheads.tasks import open_task
from manyheads.tasks.task import check, wrong_input
from manyheads.train.loop import train
from tests.specs import run_spec

ARCH = vit(16, 2, 2, 8, 32, image=8, patch=4, channels=1, classes=4)
# fmt: off
RECIPE: dict[str, Any] = {
    "batch": 16, "basis": {"kind": "steps", "amount": 20}, "lr": 1e-2, "log_every": 4, "evaluate_every": 10,
    "probe_every": 10, "probe_samples": 2, "checkpoint_every": 5,
}
# fmt: on


@dataclass(frozen=True)
class Blobs(Task):
    """Classify noise around one of a few pictures; fresh at every step. Any model will do."""

    classes: int = 4
    size: int = 8
    noise: float = 1.0


class Blobbing:
    """Batches of a step are drawn whole and cut, so that they do not depend on who asks for which rows."""

    unit, per_sample, samples, held_out, better, waited = "images", 1, 160, 64, ("top1", "up"), 0.0

    def __init__(self, task: Blobs, device: torch.device, seed: int, batch: int) -> None:
        self.task, self.device, self.seed, self.rows = task, device, seed, batch
        self.centres = self.draw("centres").normal(task.classes)

    def draw(self, *place: object) -> Draw:
        """Random numbers that belong to a place."""
        return Draw(self.task.size, place)

    def made(self, place: tuple[object, ...], rows: int) -> tuple[Tensor, Tensor]:
        """Pictures and their classes."""
        labels = torch.arange(rows) % self.task.classes
        return self.centres[labels] + self.task.noise * self.draw(*place).normal(rows), labels

    def batch(self, step: int, rows: range) -> tuple[Tensor, ...]:
        """Rows of a step."""
        images, labels = self.made((self.seed, step), self.rows)
        return images[rows.start : rows.stop].to(self.device), labels[rows.start : rows.stop].to(self.device)

    def loss(self, model: nn.Module, *batch: Tensor) -> Tensor:
        """Cross-entropy."""
        return functional.cross_entropy(model(batch[0]).float(), batch[1])

    def tally(self, model: nn.Module, share: tuple[int, int]) -> dict[str, Tensor]:
        """Sums over a share of 64 held-out pictures."""
        images, labels = (part.to(self.device).chunk(share[1])[share[0]] for part in self.made(("held", 0), 64))
        logits = model(images).double()
        right = (logits.argmax(1) == labels).double().sum()
        return {
            "loss": functional.cross_entropy(logits, labels, reduction="sum"),
            "right": right,
            "count": torch.tensor(float(len(labels)), dtype=torch.float64, device=self.device),
        }

    def score(self, tally: dict[str, Tensor]) -> dict[str, float]:
        """Loss and accuracy."""
        return {"loss": float(tally["loss"] / tally["count"]), "top1": float(tally["right"] / tally["count"])}

    def probe_batch(self, size: int) -> Tensor:
        """Held-out pictures."""
        return self.made(("held", 0), 64)[0][:size].to(self.device)

    def trivial(self) -> dict[str, float]:
        """A constant guess."""
        return {"loss": math.log(self.task.classes), "top1": 1 / self.task.classes}


@dataclass(frozen=True)
class Draw:
    """Normal numbers that are a function of `place`."""

    size: int
    place: tuple[object, ...]

    def normal(self, rows: int) -> Tensor:
        """`rows` pictures."""
        seed = int.from_bytes(hashlib.sha256(repr(self.place).encode()).digest()[:7])
        return torch.randn(rows, 1, self.size, self.size, generator=torch.Generator().manual_seed(seed))


@dataclass(frozen=True)
class Points(Task):
    """Give back every point, scaled: something for the models of the rank experiments. Any model will do."""


class Pointing(Blobbing):
    """Points in, the same points turned round out."""

    better = ("loss", "down")

    def made(self, place: tuple[object, ...], rows: int) -> tuple[Tensor, Tensor]:
        """Points, and where each is wanted."""
        points = functional.normalize(Draw(16, place).normal(rows)[:, 0, :6], dim=-1)
        return points, points.flip(1)

    def loss(self, model: nn.Module, *batch: Tensor) -> Tensor:
        """Mean squared error."""
        return (model(batch[0]) - batch[1]).pow(2).mean()

    def tally(self, model: nn.Module, share: tuple[int, int]) -> dict[str, Tensor]:
        """Summed over a share of 64."""
        points, wanted = (part.chunk(share[1])[share[0]] for part in self.made(("held", 0), 64))
        error = (model(points) - wanted).double().pow(2).sum()
        return {"loss": error, "count": torch.tensor(float(points.numel()), dtype=torch.float64)}

    def score(self, tally: dict[str, Tensor]) -> dict[str, float]:
        """The mean."""
        return {"loss": float(tally["loss"] / tally["count"])}

    def trivial(self) -> dict[str, float]:
        """Nought everywhere."""
        return {"loss": 1 / 16}


@open_task.register(Blobs)
def _(task: Blobs, device: torch.device, seed: int, batch: int, *, root: Path | None = None) -> Blobbing:
    return Blobbing(task, device, seed, batch)


@open_task.register(Points)
def _(task: Points, device: torch.device, seed: int, batch: int, *, root: Path | None = None) -> Pointing:
    return Pointing(Blobs(), device, seed, batch)


@check.register(Points)
@check.register(Blobs)
def _(task: Task, arch: Arch) -> None:
    """Not a model of tokens: a task that accepts every model would be offered to users of every other test."""
    if isinstance(arch.embed, Token):
        raise wrong_input("a tiny task", arch, "vit")


register(Points)
register(Blobs)


def spec(arch: Arch = ARCH, task: dict[str, Any] | None = None, seed: int = 0, **recipe: Any) -> RunSpec:
    """A run of the tiny task; other fields of the recipe as given."""
    return run_spec(arch, {"is": "Blobs"} | (task or {}), RECIPE | recipe, seed)


def steps(amount: int) -> dict[str, Any]:
    """A basis."""
    return {"kind": "steps", "amount": amount}


def run_here(folder: Path, made: RunSpec) -> dict[str, Any]:
    """Train in this process."""
    return train(Run.create(folder, made), device="cpu", progress="none")


def traces(folder: Path) -> dict[str, bytes]:
    """What has to be equal to the bit in two equal runs: metrics, spectra, weights."""
    names = ("metrics.jsonl", "spectra.jsonl", "model/arch.json")
    weights = load_file(
        folder / "model" / "model.safetensors"
    )  # not its bytes: the header's order is the library's whim
    return {name: (folder / name).read_bytes() for name in names} | {
        name: tensor.numpy().tobytes() for name, tensor in weights.items()
    }


def server() -> multiprocessing.context.ForkServerContext:
    """Where processes come from: forked, with all that training needs imported and no thread started."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [
            "tests.train.tiny",
            "torch.distributed.checkpoint",
            "torch.distributed.fsdp",
            "torch.distributed.device_mesh",
            "torch._dynamo",
            "tests.train.workers",
        ]
    )
    return context


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def spawn(target: Callable[..., None], *args: Any) -> multiprocessing.process.BaseProcess:
    """Start `target(*args)` in a process of its own."""
    process = server().Process(target=target, args=args)
    process.start()
    return process


def together(world: int, target: Callable[..., None], *args: Any, seconds: float = 180) -> None:
    """Run `target(*args)` in `world` processes that know of each other as torchrun's do; all have to end well."""
    port = free_port()
    context = server()
    processes = [context.Process(target=as_rank, args=(rank, world, port, target, args)) for rank in range(world)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(seconds)
    codes = [process.exitcode for process in processes]
    for process in processes:
        if process.is_alive():
            process.kill()
    assert codes == [0] * world, f"exit codes {codes}"


def as_rank(rank: int, world: int, port: int, target: Callable[..., None], args: tuple[Any, ...]) -> None:
    """Be one of several processes."""
    torch.set_num_threads(1)
    os.environ.update(
        RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    target(*args)
