"""How weights are updated: AdamW, whose decay is kept to matrices, and an exponential moving average of the weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from manyheads.models.build import groups
from manyheads.spec.recipe import Recipe

from .sharding import local

MOMENTS = ("exp_avg", "exp_avg_sq")


def decayed(model: nn.Module) -> set[str]:
    """Names of the parameters that are matrices: kernels of linear maps and convolutions.

    Biases, norms, layer scales and temperatures are vectors, whatever their number of dimensions. Positions, class
    tokens and embedding tables hold rows that are looked up or added; nothing is multiplied by them."""
    group = groups(model)
    names = set()
    for name, parameter in model.named_parameters():
        owner = model.get_submodule(name.rpartition(".")[0])
        kernel = isinstance(owner, nn.Linear | nn.Conv1d | nn.Conv2d)
        table = isinstance(owner, nn.Embedding) or (group[name] == "embedding" and not kernel)
        if not table and sum(size > 1 for size in parameter.shape) > 1:
            names.add(name)
    return names


def adamw(model: nn.Module, recipe: Recipe) -> torch.optim.AdamW:
    """AdamW over the parameters of `model`, fused where there is a fused kernel. Its learning rate is a tensor, so that
    a recorded step can read it."""
    names = decayed(model) if recipe.decay == "matrices" else {name for name, _ in model.named_parameters()}
    parts: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for name, parameter in model.named_parameters():
        parts[name in names].append(parameter)
    device = next(model.parameters()).device
    lr = torch.tensor(recipe.lr, device=device)
    decay = {True: recipe.weight_decay, False: 0.0}
    param_groups = [{"params": params, "weight_decay": decay[kind]} for kind, params in parts.items() if params]
    kernel = {"fused": device.type in ("cpu", "cuda"), "capturable": device.type == "cuda"}
    return torch.optim.AdamW(param_groups, lr=lr, betas=recipe.betas, eps=recipe.eps, **kernel)


def set_lr(optimizer: torch.optim.Optimizer, lr: float, beta1: float | None = None) -> None:
    """Write the learning rate into the tensor that the step reads, and the first beta where the schedule moves it."""
    for group in optimizer.param_groups:
        group["lr"].fill_(lr)
        if beta1 is not None:
            group["betas"] = (beta1, group["betas"][1])


def prepare(model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Give every parameter its moments, at 0, and the number of steps made, as AdamW would at the first step."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            state = optimizer.state[parameter]
            device = parameter.device if parameter.device.type == "cuda" else torch.device("cpu")
            state["step"] = torch.tensor(float(step), dtype=torch.float32, device=device)
            for name in MOMENTS:
                if name not in state:
                    state[name] = torch.zeros_like(parameter, memory_format=torch.preserve_format)


def moments(model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, Tensor]]:
    """The optimizer's tensors by name, `exp_avg.<parameter>` and `exp_avg_sq.<parameter>`."""
    for name, parameter in model.named_parameters():
        for kind in MOMENTS:
            yield f"{kind}.{name}", optimizer.state[parameter][kind]


class Average:
    """An exponential moving average: after every step, weights <- decay * weights + (1 - decay) * trained weights,
    beginning with the initial ones. Buffers (batch norm's statistics) are averages already and stay the model's own.
    Sharded like the model."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model = model
        self.weights: dict[str, Tensor] = {name: p.detach().clone() for name, p in model.named_parameters()}
        self._blend = get_ema_multi_avg_fn(decay)

    def _pairs(self) -> tuple[list[Tensor], list[Tensor]]:
        """The averaged tensors and the trained ones, the parts stored here. They are looked up each time, since FSDP
        may move its shards at the first forward."""
        return [local(t) for t in self.weights.values()], [local(p.detach()) for p in self.model.parameters()]

    @torch.no_grad()
    def update(self) -> None:
        """Take the weights after the latest step into the average."""
        averaged, trained = self._pairs()
        self._blend(averaged, trained, 0)  # the count, here 0, matters to other kinds of average only

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Give the model the averaged weights; afterwards it has its own again, bit for bit."""
        averaged, trained = self._pairs()
        with torch.no_grad():
            saved = [tensor.clone() for tensor in trained]
            torch._foreach_copy_(trained, averaged)
        try:
            yield
        finally:
            with torch.no_grad():
                torch._foreach_copy_(self._pairs()[1], saved)
