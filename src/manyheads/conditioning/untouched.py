"""One eager float32 forward of the plain module, after which the model is exactly as it was."""

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
    """The user's own module, out of `torch.compile` and of DistributedDataParallel. FSDP's modules are the user's."""
    while True:
        if isinstance(model, DataParallel | DistributedDataParallel):
            model = model.module
        elif isinstance(inner := getattr(model, "_orig_mod", None), nn.Module):
            model = inner
        else:
            return model


def sharded(module: nn.Module) -> bool:
    """Whether `fully_shard` was applied to this module. Its library takes long to import, and whoever sharded has."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    return fsdp is not None and isinstance(module, fsdp.FSDPModule)


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """In here `call` runs `model` eager, evaluating, without gradients, autocast or TF32.

    What a forward could move is put back: every module's mode, buffers, the state of random numbers on the CPU and on
    the model's GPUs. Hooks are the caller's."""
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
            # nn.TransformerEncoder's fast path calls no module that could be listened to
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
    """A batch as arguments, on `device`: a tensor, a tuple of arguments, or a mapping of keyword arguments."""

    def ready(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return value.to(device=device, dtype=torch.float32 if value.dtype in HALF else None)

    if isinstance(batch, Mapping):
        return (), {name: ready(value) for name, value in batch.items()}
    return tuple(ready(value) for value in (batch if isinstance(batch, tuple | list) else (batch,))), {}


def call(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`module` on arguments, its half-precision weights taken as float32. FSDP's precision is its own policy's."""
    own = {name: t for name, t in [*module.named_parameters(), *module.named_buffers()] if t.dtype in HALF}
    if not own or any(map(sharded, module.modules())):
        return module(*args, **kwargs)
    full = {name: t.detach().float() for name, t in own.items()}
    return torch.func.functional_call(module, full, args, kwargs)


@contextmanager
def full_precision() -> Iterator[None]:
    """float32 products as IEEE 754 has them: no TF32, no bfloat16, on any device."""
    backends: Any = torch.backends
    places = (
        backends.cuda.matmul,
        backends.cudnn.conv,
        backends.cudnn.rnn,
        backends.mkldnn.matmul,
        backends.mkldnn.conv,
    )
    before = [place.fp32_precision for place in places]
    try:
        for place in places:
            place.fp32_precision = "ieee"
        yield
    finally:
        for place, precision in zip(places, before, strict=True):
            place.fp32_precision = precision
