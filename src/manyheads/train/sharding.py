"""The model of a run, in one process or many: initial weights, DDP, FSDP2 shards, clipping over shards.

Initial weights depend on the seed alone: they are the same on any device and with any number of processes."""

from __future__ import annotations

import inspect
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from manyheads.models.build import allocate, build
from manyheads.spec.arch import Arch
from manyheads.spec.recipe import Rates

from .parallel import Ranks


def initial_model(arch: Arch, rates: Rates, seed: int, ranks: Ranks) -> nn.Module:
    """The module of `arch` on this process's device, sharded under FSDP. Weights are drawn on the CPU, since a GPU's
    generator would draw others."""
    if ranks.kind != "fsdp":
        return sync_batch_norms(build(arch, rates, device="cpu", seed=seed), ranks).to(ranks.device)
    mesh = init_device_mesh(ranks.device.type, (ranks.world,))
    model = shard(sync_batch_norms(build(arch, rates, device="meta"), ranks), mesh)
    allocate(model, ranks.device)
    weights = build(arch, rates, device="cpu", seed=seed).state_dict() if ranks.first else {}
    for name, tensor in model.state_dict().items():
        scatter(tensor, weights.get(name), ranks)
    return model


def scatter(tensor: Tensor, values: Tensor | None, ranks: Ranks) -> None:
    """Fill `tensor`, which may be sharded, with `values`, which only the first process has. Each process keeps its
    shard; one full tensor at a time is in memory."""
    full = torch.empty(tensor.shape, dtype=tensor.dtype, device=ranks.device)
    if values is not None:
        full.copy_(values)
    dist.broadcast(full, src=0)
    if isinstance(tensor, DTensor):
        full = local(distribute_tensor(full, tensor.device_mesh, tensor.placements, src_data_rank=None))
    local(tensor).detach().copy_(full)


def sync_batch_norms(model: nn.Module, ranks: Ranks) -> nn.Module:
    """`model` with batch norms that see the whole batch, which PyTorch has on GPUs only. On CPUs each process
    normalises its rows by their own statistics, and the first process's running statistics are kept."""
    if ranks.world > 1 and ranks.device.type == "cuda":
        return nn.SyncBatchNorm.convert_sync_batchnorm(model)
    return model


def data_parallel(model: nn.Module, ranks: Ranks) -> nn.Module:
    """`model` as the loss calls it: inside DistributedDataParallel under ddp, otherwise as it is."""
    if ranks.kind != "ddp":
        return model
    normed = any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in model.modules())
    parameters = inspect.signature(DistributedDataParallel.__init__).parameters
    name = "forward_sync_buffers" if "forward_sync_buffers" in parameters else "broadcast_buffers"  # renamed after 2.11
    options: dict[str, Any] = {name: normed, "gradient_as_bucket_view": True}
    return DistributedDataParallel(model, **options)


def units(model: nn.Module) -> list[nn.Module]:
    """What FSDP gathers at a time: the elements of every outermost list of modules, that is the blocks."""
    blocks: list[nn.Module] = []
    for child in model.children():
        if isinstance(child, nn.ModuleList):
            blocks += [part for part in child if any(True for _ in part.parameters())]
        else:
            blocks += units(child)
    return blocks


def shard(model: nn.Module, mesh: Any) -> nn.Module:
    """Shard every parameter of `model` over `mesh` with FSDP2; on meta nothing is allocated. Scalars stay whole."""
    scalars = {parameter for parameter in model.parameters() if parameter.ndim == 0}
    for part in units(model):
        fully_shard(part, mesh=mesh, ignored_params=scalars)
    fully_shard(model, mesh=mesh, ignored_params=scalars)
    return model


def reshard(model: nn.Module, ranks: Ranks) -> None:
    """Free what a forward without a backward leaves gathered under FSDP: the root's parameters."""
    if ranks.kind == "fsdp":
        for part in model.modules():
            if isinstance(part, FSDPModule):
                part.reshard()


def share_statistics(model: nn.Module, ranks: Ranks) -> None:
    """Give all processes the first one's running statistics of batch norms where each has its own, which is on CPUs.
    Training does not read them; evaluations and checkpoints do."""
    if ranks.world > 1 and ranks.device.type == "cpu":
        for part in model.modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                for buffer in part.buffers():
                    dist.broadcast(buffer, src=0)


def whole(tensor: Tensor) -> Tensor:
    """The full tensor of one that may be sharded. Every process has to call it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def local(tensor: Tensor) -> Tensor:
    """The part of a tensor that is stored in this process."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def clip(parameters: list[nn.Parameter], largest: float) -> None:
    """Scale the gradients down where their joint norm is above `largest`."""
    grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
    sharded = [grad for grad in grads if isinstance(grad, DTensor)]
    if not sharded:
        torch.nn.utils.clip_grad_norm_(parameters, largest, foreach=True)
        return
    rest = [grad for grad in grads if not isinstance(grad, DTensor)]
    norm = whole(torch.nn.utils.get_total_norm(sharded))
    if rest:
        norm = torch.hypot(norm, torch.nn.utils.get_total_norm(rest))
    torch.nn.utils.clip_grads_with_norm_(parameters, largest, norm)
