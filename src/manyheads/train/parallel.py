"""One process or many: which one this is, which rows of a batch it takes, and how the processes agree.

Started by torchrun, every process reads its rank from the environment; CPU tensors travel over gloo and GPU tensors
over NCCL. Each process takes contiguous rows of the batch, and the first one writes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
import torch.distributed as dist
from torch import Tensor

from manyheads.nn.device import pick_device
from manyheads.spec.errors import UserError

Parallel = Literal["none", "ddp", "fsdp"]


@dataclass(frozen=True)
class Ranks:
    """This process among the others."""

    device: torch.device
    kind: Parallel = "none"
    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the first process, the one that writes."""
        return self.rank == 0

    def rows(self, batch: int, part: int, parts: int) -> range:
        """The rows of a batch that this process takes as part `part` of `parts`. All parts of a process are
        adjacent."""
        size = batch // (self.world * parts)
        start = (self.rank * parts + part) * size
        return range(start, start + size)

    def check(self, batch: int, parts: int) -> None:
        """Refuse a batch that does not split evenly into pairs of rows: mixup and cutmix mix two neighbouring rows."""
        pieces = self.world * parts
        if pieces > 1 and batch % (2 * pieces):
            better = max(1, round(batch / (2 * pieces))) * 2 * pieces
            raise UserError(
                f"a batch of {batch} does not split into {pieces} parts ({self.world} processes x {parts} "
                f"accumulated) of whole pairs; write batch={better}"
            )

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, in place."""
        if self.world > 1:
            dist.all_reduce(tensor)
        return tensor

    def stack(self, tensor: Tensor) -> Tensor:
        """The tensors of all processes, stacked, the same everywhere."""
        out = tensor.new_zeros((self.world, *tensor.shape))
        out[self.rank] = tensor
        return self.sum(out)

    def agree(self, *values: float) -> tuple[float, ...]:
        """The largest of each value over all processes. A value that only the first process knows is 0 in the
        others."""
        if self.world == 1:
            return values
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        return tuple(tensor.tolist())

    def wait(self) -> None:
        """Return when all processes have called this."""
        if self.world > 1:
            self.agree(0.0)


def processes_started() -> int:
    """How many processes torchrun started, this one among them."""
    stated = os.environ.get("WORLD_SIZE") or "1"
    if re.fullmatch("[1-9][0-9]{0,5}", stated) is None:
        raise UserError(f"WORLD_SIZE is {stated[:80]!r}; torchrun sets it to a number of processes: unset it")
    return int(stated)


@contextmanager
def joined(kind: Parallel, device: torch.device | str | None = None) -> Iterator[Ranks]:
    """Join the process group that torchrun started, and leave it afterwards, unless this process was in it before."""
    if kind not in ("none", "ddp", "fsdp"):
        raise UserError(f"parallel={kind!r} is not known; write none, ddp or fsdp")
    here = pick_device(device)
    if here.type == "cuda":
        torch.cuda.set_device(here)
    started = processes_started()
    if kind == "none":
        if started > 1:
            raise UserError(
                f"torchrun started {started} processes, and parallel=none would train {started} times; write "
                "parallel=ddp or parallel=fsdp"
            )
        yield Ranks(here)
        return
    own = not dist.is_initialized()
    if own:
        if "RANK" not in os.environ:
            raise UserError(
                f"parallel={kind} needs the processes that torchrun starts; write torchrun "
                "--nproc-per-node=N -m manyheads ..."
            )
        dist.init_process_group("cpu:gloo,cuda:nccl" if here.type == "cuda" else "gloo")
    try:
        yield Ranks(here, kind, dist.get_rank(), dist.get_world_size())
    finally:
        if own:
            dist.destroy_process_group()
