"""AdamW, its decay kept to matrices, its learning rate a tensor that a captured step can read."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from manyheads.models.build import groups
from manyheads.spec.recipe import Recipe

MOMENTS = ("exp_avg", "exp_avg_sq")


def decayed(model: nn.Module) -> set[str]:
    """Names of the parameters that are matrices: kernels of linear maps and convolutions.

    Biases, norms, layer scales and temperatures are vectors, whatever their number of dimensions; positions, class
    tokens and embedding tables hold rows that are looked up or added, not multiplied by."""
    group = groups(model)
    found = set()
    for name, parameter in model.named_parameters():
        owner = model.get_submodule(name.rpartition(".")[0])
        kernel = isinstance(owner, nn.Linear | nn.Conv1d | nn.Conv2d)
        table = isinstance(owner, nn.Embedding) or (group[name] == "embedding" and not kernel)
        if not table and sum(size > 1 for size in parameter.shape) > 1:
            found.add(name)
    return found


def adamw(model: nn.Module, recipe: Recipe) -> torch.optim.AdamW:
    """AdamW over the parameters of `model`, fused where there is a fused kernel."""
    names = decayed(model) if recipe.decay == "matrices" else {name for name, _ in model.named_parameters()}
    parts: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for name, parameter in model.named_parameters():
        parts[name in names].append(parameter)
    device = next(model.parameters()).device
    lr = torch.tensor(recipe.lr, device=device)
    decay = {True: recipe.weight_decay, False: 0.0}
    found = [{"params": params, "weight_decay": decay[kind]} for kind, params in parts.items() if params]
    kernel = {"fused": device.type in ("cpu", "cuda"), "capturable": device.type == "cuda"}
    return torch.optim.AdamW(found, lr=lr, betas=recipe.betas, eps=recipe.eps, **kernel)


def set_lr(optimizer: torch.optim.Optimizer, lr: float, beta1: float | None = None) -> None:
    """Write the learning rate into the tensor that the step reads, and the first beta where it moves."""
    for group in optimizer.param_groups:
        group["lr"].fill_(lr)
        if beta1 is not None:
            group["betas"] = (beta1, group["betas"][1])


def prepare(model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Give every parameter its moments, at 0, and the number of steps made: what AdamW would do at the first step."""
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
