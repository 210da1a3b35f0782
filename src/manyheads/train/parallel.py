"""One process or many: who this process is, what it holds of the model, how the processes agree.

Started by torchrun, every process reads its rank from the environment; CPU tensors travel over gloo and GPU tensors
over NCCL. Each takes its contiguous rows of the batch, and the first one writes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

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
        """Whether this is the process that writes."""
        return self.rank == 0

    def rows(self, batch: int, part: int, parts: int) -> range:
        """The rows of a batch that are this process's in part `part` of `parts`: all parts of a rank lie together."""
        size = batch // (self.world * parts)
        start = (self.rank * parts + part) * size
        return range(start, start + size)

    def check(self, batch: int, parts: int) -> None:
        """Refuse a batch that does not split evenly; mixing pairs neighbouring rows, so pairs stay together."""
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
        """The largest of each value over all processes; what only the first knows, the others give as 0."""
        if self.world == 1:
            return values
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        return tuple(tensor.tolist())

    def wait(self) -> None:
        """Go on when all processes have come here."""
        if self.world > 1:
            self.agree(0.0)


def pick_device(device: torch.device | str | None) -> torch.device:
    """The device asked for; None is the first GPU (under torchrun, this process's own), or the CPU where there is
    none."""
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise UserError(f"device {device!r} is not known to PyTorch; write cpu, cuda or cuda:1") from None
    if chosen.type not in ("cpu", "cuda"):
        raise UserError(f"device {chosen} was asked for; training runs on cpu and cuda")
    if chosen.type == "cuda":
        if not torch.cuda.is_available():
            raise UserError(f"device {chosen} was asked for, and PyTorch sees no GPU here; write device=cpu")
        if chosen.index is None:
            chosen = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        if (chosen.index or 0) >= torch.cuda.device_count():
            raise UserError(
                f"device {chosen} was asked for, and there are {torch.cuda.device_count()} GPUs here; start as "
                "many processes as GPUs"
            )
    return chosen


@contextmanager
def joined(kind: Parallel, device: torch.device | str | None = None) -> Iterator[Ranks]:
    """Join the processes that torchrun started; afterwards leave them, unless they had been joined before."""
    if kind not in ("none", "ddp", "fsdp"):
        raise UserError(f"parallel={kind!r} is not known; write none, ddp or fsdp")
    here = pick_device(device)
    if here.type == "cuda":
        torch.cuda.set_device(here)
    started = int(os.environ.get("WORLD_SIZE", "1"))
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
                f"parallel={kind} needs processes that know of each other; start it with torchrun "
                "--nproc-per-node=N -m manyheads ..."
            )
        dist.init_process_group("cpu:gloo,cuda:nccl" if here.type == "cuda" else "gloo")
    try:
        yield Ranks(here, kind, dist.get_rank(), dist.get_world_size())
    finally:
        if own:
            dist.destroy_process_group()


def units(model: nn.Module) -> list[nn.Module]:
    """What FSDP gathers at a time: the elements of every outermost list of modules, that is the blocks."""
    found: list[nn.Module] = []
    for child in model.children():
        if isinstance(child, nn.ModuleList):
            found += [part for part in child if any(True for _ in part.parameters())]
        else:
            found += units(child)
    return found


def shard(model: nn.Module, mesh: Any) -> nn.Module:
    """Cut every parameter of `model` over `mesh` with FSDP2; on meta nothing is allocated. Scalars stay whole."""
    from torch.distributed.fsdp import fully_shard

    scalars = {parameter for parameter in model.parameters() if parameter.ndim == 0}
    for part in units(model):
        fully_shard(part, mesh=mesh, ignored_params=scalars)
    fully_shard(model, mesh=mesh, ignored_params=scalars)
    return model


def reshard(model: nn.Module, ranks: Ranks) -> None:
    """Let go of what a forward without a backward leaves gathered: under FSDP, the root's parameters."""
    if ranks.kind == "fsdp":
        from torch.distributed.fsdp import FSDPModule

        for part in model.modules():
            if isinstance(part, FSDPModule):
                part.reshard()


def share_statistics(model: nn.Module, ranks: Ranks) -> None:
    """Give all processes the first one's running statistics of batch norms, where each keeps its own: on CPUs. Training
    does not read them; evaluations and checkpoints do."""
    if ranks.world > 1 and ranks.device.type == "cpu":
        for part in model.modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                for buffer in part.buffers():
                    dist.broadcast(buffer, src=0)


def whole(tensor: Tensor) -> Tensor:
    """The full tensor of one that may be sharded. Every process has to call it."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def local(tensor: Tensor) -> Tensor:
    """The part of a tensor that is stored here."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def clip(parameters: list[nn.Parameter], largest: float) -> None:
    """Scale the gradients down where their joint norm is above `largest`."""
    grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
    cut = [grad for grad in grads if hasattr(grad, "full_tensor")]
    if not cut:
        torch.nn.utils.clip_grad_norm_(parameters, largest, foreach=True)
        return
    rest = [grad for grad in grads if not hasattr(grad, "full_tensor")]
    norm = whole(torch.nn.utils.get_total_norm(cut))
    if rest:
        norm = torch.hypot(norm, torch.nn.utils.get_total_norm(rest))
    torch.nn.utils.clip_grads_with_norm_(parameters, largest, norm)
