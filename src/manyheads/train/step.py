"""One training step, everything of it that happens on the device: batch, forward, backward, clipping, update."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FunctionType, MethodType
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn

from manyheads.nn.stream import half_stream
from manyheads.spec.rates import Rates
from manyheads.spec.recipe import Recipe
from manyheads.tasks import Work

from .average import Average
from .captured import Captured
from .parallel import Ranks, clip
from .place import wrapped


class Step(Protocol):
    """Makes a step and gives its loss."""

    def __call__(self, index: int, parts: int = ..., first: int = ...) -> Tensor:
        """Step number `index`. Where the batch grows, of `parts` parts, the first of which is part `first` of the
        run."""


def make_step(
    model: nn.Module,
    work: Work,
    optimizer: torch.optim.Optimizer,
    recipe: Recipe,
    ranks: Ranks,
    seed: int,
    average: Average | None = None,
) -> Step:
    """The function that makes step number `step` and gives its loss, on the device and not waited for.

    It reads the learning rate from the optimizer's tensor; nothing else outside it changes from step to step. Random
    numbers inside the model are a function of (seed, step, rank, part), so that a resumed run draws what it would
    have."""
    half = uses_half(recipe, ranks.device)
    half_stream(model, half)
    caller = wrapped(model, ranks)
    noisy = recipe.rates != Rates()

    def forward(*batch: Tensor) -> Tensor:
        with autocast(ranks.device, half):
            return work.loss(caller, *batch)

    if uses_compile(recipe, ranks.device):
        torch.compiler.reset()  # programs and shapes of runs before: of one code PyTorch compiles 8, and then no more
        if ranks.kind == "fsdp":  # a graph ends where FSDP gathers: at the blocks
            from .parallel import units

            for unit in units(model):
                compile_apart(unit)
        else:
            forward = torch.compile(forward)
    parameters = list(model.parameters())
    alone = [parameter for parameter in parameters if parameter.ndim == 0] if ranks.kind == "fsdp" else []

    def gradient(index: int, part: int, parts: int, batch: tuple[Tensor, ...]) -> Tensor:
        if noisy:
            reseed(ranks.device, seed, index, ranks.rank, part)
        with _held_back(caller, ranks, part + 1 < parts):
            loss = forward(*batch)
            if parts > 1:
                loss = loss / parts  # out here: what is compiled knows of no number of parts
            loss.backward()
        return loss.detach()

    def update() -> None:
        for parameter in alone:  # what FSDP leaves whole it leaves unsummed
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
                parameter.grad /= ranks.world
        if recipe.clip:
            clip(parameters, recipe.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if average is not None:
            average.update()

    def whole(*batch: Tensor) -> Tensor:
        loss = forward(*batch)
        loss.backward()
        update()
        return loss.detach()

    recorded = Captured(whole) if captures(recipe, ranks) else None

    def step(index: int, parts: int = recipe.accumulate, first: int = 0) -> Tensor:
        if recipe.ramp:
            batches = (work.batch(first + part, ranks.rows(recipe.dealt, 0, 1)) for part in range(parts))
        else:
            batches = (work.batch(index, ranks.rows(recipe.batch, part, parts)) for part in range(parts))
        if recorded is not None:
            batch = next(batches)
            if noisy:
                reseed(ranks.device, seed, index, ranks.rank, 0)
            return recorded(*batch)
        losses = [gradient(index, part, parts, batch) for part, batch in enumerate(batches)]
        update()
        return sum(losses[1:], losses[0])

    return step


def compile_apart(block: nn.Module) -> None:
    """Compile the forward of a block as code of its own: blocks share theirs, and where they differ, in a rate, PyTorch
    would compile the first 8 and leave the others as they are."""
    shared: Any = type(block).forward
    code = shared.__code__.replace()
    own = FunctionType(code, shared.__globals__, shared.__name__, shared.__defaults__, shared.__closure__)
    own.__kwdefaults__ = shared.__kwdefaults__
    block.forward = torch.compile(MethodType(own, block))


@contextmanager
def _held_back(caller: nn.Module, ranks: Ranks, more: bool) -> Iterator[None]:
    """Where more parts of the batch follow, gradients stay here: they are summed over the processes with the last
    part."""
    if not more or ranks.kind == "none":
        yield
    elif ranks.kind == "ddp":
        with caller.no_sync():  # type: ignore[operator]
            yield
    else:
        caller.set_requires_gradient_sync(False)  # type: ignore[operator]
        try:
            yield
        finally:
            caller.set_requires_gradient_sync(True)  # type: ignore[operator]


def reseed(device: torch.device, *place: int) -> None:
    """Set the global random numbers of `device` to a function of `place`."""
    digest = hashlib.blake2b("/".join(map(str, place)).encode(), digest_size=7).digest()
    if device.type == "cuda":
        torch.cuda.manual_seed(int.from_bytes(digest))
    else:
        torch.default_generator.manual_seed(int.from_bytes(digest))


def uses_half(recipe: Recipe, device: torch.device) -> bool:
    """Whether this recipe computes in bfloat16 on `device`."""
    return recipe.precision == "bf16" or (recipe.precision == "auto" and device.type == "cuda")


def uses_compile(recipe: Recipe, device: torch.device) -> bool:
    """Whether this recipe compiles the model on `device`."""
    return recipe.compile == "on" or (recipe.compile == "auto" and device.type == "cuda")


def captures(recipe: Recipe, ranks: Ranks) -> bool:
    """Whether a step is recorded as one CUDA graph: on one GPU, with whole batches and an optimizer whose numbers, but
    for the learning rate, stay. Deterministic runs do without: a resumed one would record later than the first did."""
    if ranks.device.type != "cuda" or ranks.kind != "none" or recipe.accumulate > 1 or recipe.deterministic:
        return False
    if recipe.schedule.beta1 is not None:
        return False
    return recipe.capture == "on" or (recipe.capture == "auto" and uses_compile(recipe, ranks.device))


def autocast(device: torch.device, half: bool) -> AbstractContextManager[Any]:
    """Products in bfloat16, or everything as it is."""
    return torch.autocast(device.type, torch.bfloat16) if half else nullcontext()


@contextmanager
def numerics(recipe: Recipe, device: torch.device) -> Iterator[None]:
    """The process-wide settings that a recipe asks for, put back afterwards: TF32, determinism, random numbers."""
    if recipe.deterministic and device.type == "cuda":
        import os

        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts
    cuda: Any = torch.backends.cuda
    cudnn: Any = torch.backends.cudnn
    conv = cudnn.conv
    before = (
        torch.are_deterministic_algorithms_enabled(),
        cuda.cudnn_sdp_enabled(),
        cuda.matmul.fp32_precision,
        conv.fp32_precision,
    )
    if recipe.deterministic:
        torch.use_deterministic_algorithms(True)
        cuda.enable_cudnn_sdp(False)
    if recipe.precision != "auto":
        cuda.matmul.fp32_precision = conv.fp32_precision = "tf32" if recipe.precision == "tf32" else "ieee"
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        cuda.enable_cudnn_sdp(before[1])
        cuda.matmul.fp32_precision, conv.fp32_precision = before[2], before[3]
