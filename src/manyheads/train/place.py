"""The model of a run where it is trained: initial weights that depend on the seed alone, on any device and any number
of processes."""

from __future__ import annotations

import inspect
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from manyheads.models.build import build
from manyheads.spec.arch import Arch
from manyheads.spec.rates import Rates

from .parallel import Ranks, local, shard


def place(arch: Arch, rates: Rates, seed: int, ranks: Ranks) -> nn.Module:
    """The module of `arch` on this process's device, sharded under FSDP. Weights are drawn on the CPU: a GPU's
    generator would give others."""
    if ranks.kind != "fsdp":
        return synced(build(arch, rates, device="cpu", seed=seed), ranks).to(ranks.device)
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh(ranks.device.type, (ranks.world,))
    model = shard(synced(build(arch, rates, device="meta"), ranks), mesh)
    model.to_empty(device=ranks.device)
    for part in model.modules():
        reset = getattr(part, "reset", None)
        if callable(reset):
            reset()
    drawn = build(arch, rates, device="cpu", seed=seed).state_dict() if ranks.first else {}
    for name, tensor in model.state_dict().items():
        fill(tensor, drawn.get(name), ranks)
    return model


def fill(tensor: Tensor, drawn: Tensor | None, ranks: Ranks) -> None:
    """Give `tensor` the values that the first process holds: each keeps its part, one full tensor at a time."""
    full = torch.empty(tensor.shape, dtype=tensor.dtype, device=ranks.device)
    if drawn is not None:
        full.copy_(drawn)
    dist.broadcast(full, src=0)
    from torch.distributed.tensor import DTensor, distribute_tensor

    if isinstance(tensor, DTensor):
        full = local(distribute_tensor(full, tensor.device_mesh, tensor.placements, src_data_rank=None))
    local(tensor).detach().copy_(full)


def synced(model: nn.Module, ranks: Ranks) -> nn.Module:
    """With batch norms that see the whole batch, where PyTorch has them: on GPUs. On CPUs each process norms its rows
    by their own statistics, and the first process's running ones are kept."""
    if ranks.world > 1 and ranks.device.type == "cuda":
        return nn.SyncBatchNorm.convert_sync_batchnorm(model)
    return model


def wrapped(model: nn.Module, ranks: Ranks) -> nn.Module:
    """`model` as the loss calls it: in DistributedDataParallel, or as it is."""
    if ranks.kind != "ddp":
        return model
    normed = any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in model.modules())
    known = inspect.signature(DistributedDataParallel.__init__).parameters
    name = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"  # renamed after 2.11
    options: dict[str, Any] = {name: normed, "gradient_as_bucket_view": True}
    return DistributedDataParallel(model, **options)
