"""One training step, all of it that happens on the device: batch, forward, backward, clipping, update.

On one GPU the step may be recorded as a CUDA graph: a small model's step is mostly kernel launches, and replaying the
graph is a single launch."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, MethodType
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn

from manyheads.nn.embed import half_stream
from manyheads.spec.recipe import Rates, Recipe
from manyheads.tasks import Work

from .numerics import autocast, reseed, uses_compile, uses_graph, uses_half
from .optimizer import Average
from .parallel import Ranks
from .sharding import clip, data_parallel, units

DESIGNS = 32  # whose compiled programs a process keeps


class Step(Protocol):
    """Makes a step and returns its loss."""

    def __call__(self, index: int, parts: int = ..., first: int = ...) -> Tensor:
        """Make step number `index`. Where the batch grows, the step takes `parts` parts, and its first one is part
        number `first` of the whole run."""


def make_step(
    model: nn.Module,
    work: Work,
    optimizer: torch.optim.Optimizer,
    recipe: Recipe,
    ranks: Ranks,
    seed: int,
    average: Average | None = None,
) -> Step:
    """The function that makes a step. The loss it returns is on the device and has not been waited for.

    The function reads the learning rate from the optimizer's tensor; nothing else outside it changes from step to step.
    Random numbers inside the model are a function of (seed, step, rank, part), so that a resumed run draws the same
    ones."""
    half = uses_half(recipe, ranks.device)
    half_stream(model, half)
    caller = data_parallel(model, ranks)
    noisy = recipe.rates != Rates()

    def forward(*batch: Tensor) -> Tensor:
        with autocast(ranks.device, half):
            return work.loss(caller, *batch)

    if uses_compile(recipe, ranks.device):
        if ranks.kind == "fsdp":  # a graph ends where FSDP gathers: at the blocks
            torch.compiler.reset()  # PyTorch compiles one code 8 times at most; runs before this one count, too
            for unit in units(model):
                compile_apart(unit)
        else:
            forward = torch.compile(compiled_once(forward, (str(model.arch), type(work), recipe.rows, recipe.rates)))
    parameters = list(model.parameters())
    unsharded = [parameter for parameter in parameters if parameter.ndim == 0] if ranks.kind == "fsdp" else []

    def gradient(index: int, part: int, parts: int, batch: tuple[Tensor, ...]) -> Tensor:
        if noisy:
            reseed(ranks.device, seed, index, ranks.rank, part)
        with _unsynchronised(caller, ranks, part + 1 < parts):
            loss = forward(*batch)
            if parts > 1:
                loss = loss / parts  # out here, so that the compiled code does not depend on the number of parts
            loss.backward()
        return loss.detach()

    def update() -> None:
        for parameter in unsharded:  # FSDP does not sum the gradients of parameters that it does not shard
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

    recorded = Captured(whole) if uses_graph(recipe, ranks) else None

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


class Captured:
    """Calls `step(*batch)`, which makes one optimizer step and returns its loss: the first `warm` times directly, then
    as a recorded CUDA graph.

    The step must do the same work on the same tensors each time: parameters, gradients and optimizer state stay at the
    addresses they had when it was recorded, the learning rate is a tensor, and nothing waits for the device. A batch is
    copied over the recorded one, so shapes stay the same. The loss returned is overwritten by the next call."""

    def __init__(self, step: Callable[..., Tensor], *, warm: int = 3) -> None:
        self.step, self.left = step, warm
        self.graph: torch.cuda.CUDAGraph | None = None
        self.batch: tuple[Tensor, ...] = ()
        self.loss = torch.empty(0)

    def __call__(self, *batch: Tensor) -> Tensor:
        """The loss of this step, on the device."""
        if self.graph is not None:
            for place, new in zip(self.batch, batch, strict=True):
                place.copy_(new)
            self.graph.replay()
            return self.loss
        if self.left:
            self.left -= 1
            return self._on_side_stream(batch)
        self.batch = tuple(part.clone() for part in batch)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):  # other threads may read data meanwhile
            self.loss = self.step(*self.batch)
        self.graph.replay()  # recording ran nothing
        return self.loss

    def _on_side_stream(self, batch: tuple[Tensor, ...]) -> Tensor:
        """The step on a stream of its own, as PyTorch asks for the steps before a recording."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            loss = self.step(*batch)
        torch.cuda.current_stream().wait_stream(side)
        return loss


_codes: dict[Hashable, CodeType] = {}  # design -> the code that runs of it share, with what PyTorch compiled for it


def compiled_once(forward: Callable[..., Tensor], design: Hashable) -> Callable[..., Tensor]:
    """`forward` with a code that it shares with the other runs of a design in this process, so that other seeds and
    learning rates use what was compiled. PyTorch checks whether that fits, and compiles anew where it does not; one code
    it compiles 8 times at most, so designs have codes of their own."""
    if design not in _codes and len(_codes) >= DESIGNS:
        torch.compiler.reset()
        _codes.clear()
    plain: Any = forward
    code = _codes.setdefault(design, plain.__code__.replace())
    own: Any = FunctionType(code, plain.__globals__, plain.__name__, plain.__defaults__, plain.__closure__)
    return own


def compile_apart(block: nn.Module) -> None:
    """Compile the forward of a block as code of its own. Blocks share their code, and where they differ (in a rate),
    PyTorch would compile it for the first 8 and leave the others uncompiled."""
    shared: Any = type(block).forward
    code = shared.__code__.replace()
    own = FunctionType(code, shared.__globals__, shared.__name__, shared.__defaults__, shared.__closure__)
    own.__kwdefaults__ = shared.__kwdefaults__
    block.forward = torch.compile(MethodType(own, block))


@contextmanager
def _unsynchronised(caller: nn.Module, ranks: Ranks, more: bool) -> Iterator[None]:
    """Keep gradients in this process where `more` parts of the batch follow: the last part sums them over all
    processes."""
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
