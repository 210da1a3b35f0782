"""One eager float32 forward of the plain module that leaves the model exactly as it was."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

HALF = (torch.float16, torch.bfloat16)


def unwrap(model: nn.Module) -> nn.Module:
    """The user's own module inside `torch.compile` and DistributedDataParallel. FSDP does not wrap, it shards in
    place."""
    while True:
        if isinstance(model, DataParallel | DistributedDataParallel):
            model = model.module
        elif isinstance(inner := getattr(model, "_orig_mod", None), nn.Module):
            model = inner
        else:
            return model


def sharded(module: nn.Module) -> bool:
    """Whether `fully_shard` was applied to this module. Its slow library is not imported: whoever sharded has done
    so."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    return fsdp is not None and isinstance(module, fsdp.FSDPModule)


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Inside this context `call` runs `model` eagerly, in evaluation mode, without gradients, autocast or TF32.

    Whatever a forward may change is restored after it: every module's mode, the buffers, the state of the random
    numbers on the CPU and on the model's GPUs. Removing hooks is left to the caller."""
    modes = {module: module.training for module in model.modules()}
    buffers = [
        (module, name, value, value.detach().clone(), value._version)
        for module in model.modules()
        for name, value in module.named_buffers(recurse=False)
    ]
    tensors = [*model.parameters(), *model.buffers()]
    devices = {t.device for t in tensors}
    fastpath = torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(torch.random.fork_rng(sorted({d.index or 0 for d in devices if d.type == "cuda"})))
        for kind in {"cpu", *(d.type for d in devices if d.type != "meta")}:
            stack.enter_context(torch.autocast(kind, enabled=False))
        stack.enter_context(full_precision())
        try:
            # nn.TransformerEncoder's fast path calls no module, so no hook would run
            torch.backends.mha.set_fastpath_enabled(False)
            for module in modes:
                module.training = False
            yield
        finally:
            torch.backends.mha.set_fastpath_enabled(fastpath)
            for module, mode in modes.items():
                module.training = mode
            for module, name, buffer, before, version in buffers:
                module._buffers[name] = buffer
                if buffer._version != version:  # written to in place
                    buffer.copy_(before)
            for module in modes:
                if sharded(module):
                    module.reshard()  # type: ignore[operator]


def arguments(batch: Any, device: torch.device | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The batch as arguments on `device`. It is a tensor, a tuple of arguments, or a mapping of keyword arguments."""

    def ready(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return value.to(device=device, dtype=torch.float32 if value.dtype in HALF else None)

    if isinstance(batch, Mapping):
        return (), {name: ready(value) for name, value in batch.items()}
    return tuple(ready(value) for value in (batch if isinstance(batch, tuple | list) else (batch,))), {}


def call(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`module` on these arguments, with half-precision weights as float32. Under FSDP its own policy sets the
    precision."""
    own = {name: t for name, t in [*module.named_parameters(), *module.named_buffers()] if t.dtype in HALF}
    if not own or any(map(sharded, module.modules())):
        return module(*args, **kwargs)
    full = {name: t.detach().float() for name, t in own.items()}
    return torch.func.functional_call(module, full, args, kwargs)


@contextmanager
def full_precision() -> Iterator[None]:
    """float32 products by IEEE 754 on every device: no TF32, no bfloat16."""
    backends: Any = torch.backends
    settings = (
        backends.cuda.matmul,
        backends.cudnn.conv,
        backends.cudnn.rnn,
        backends.mkldnn.matmul,
        backends.mkldnn.conv,
    )
    before = [setting.fp32_precision for setting in settings]
    try:
        for setting in settings:
            setting.fp32_precision = "ieee"
        yield
    finally:
        for setting, precision in zip(settings, before, strict=True):
            setting.fp32_precision = precision
