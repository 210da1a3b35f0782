"""`build(arch)`: any record of the zoo, of the paper or of a redesign becomes a module."""

from __future__ import annotations

from importlib import import_module

import torch
from torch import nn

from manyheads.spec.arch import Arch
from manyheads.spec.rates import Rates

# family -> (file, class); imported when asked for, so that one model costs one import
MODELS: dict[str, tuple[str, str]] = {
    "vit": ("vit", "ViT"),
    "deit": ("vit", "ViT"),
    "xcit": ("xcit", "XCiT"),
    "tnt": ("tnt", "TNT"),
    "volo": ("volo", "VOLO"),
    "davit": ("davit", "DaViT"),
    "crammed_bert": ("crammed_bert", "CrammedBert"),
    "bert": ("bert", "Bert"),
    "gpt2": ("gpt2", "GPT2"),
    "llama": ("llama", "Llama"),
    "nystromformer": ("nystromformer", "Nystromformer"),
    "nearest_neighbor": ("nearest_neighbor", "NearestNeighbor"),
    "stack": ("nearest_neighbor", "NearestNeighbor"),  # the layers read off a user's own module
}


def build(
    arch: Arch, rates: Rates = Rates(), *, device: torch.device | str | None = None, seed: int | None = None
) -> nn.Module:
    """The module that `arch` describes, initialised as its family's original.

    On the meta device nothing is allocated; `materialise` fills such a module later. With `seed`, the weights depend on
    it alone and the global random state is left as it was."""
    file, name = MODELS[arch.family]
    make = getattr(import_module(f"manyheads.models.{file}"), name)
    with torch.device("meta"):
        model: nn.Module = make(arch, rates)
    target = torch.device(device) if device is not None else torch.get_default_device()
    return model if target.type == "meta" else materialise(model, target, seed)


def initialise(model: nn.Module, seed: int | None = None) -> None:
    """Draw the model's initial weights."""
    if seed is None:
        model.init()
        return
    devices = sorted({p.device.index or 0 for p in model.parameters() if p.device.type == "cuda"})
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        model.init()


def materialise(model: nn.Module, device: torch.device | str, seed: int | None = None) -> nn.Module:
    """Give a module built on meta its memory, its tables and its initial weights."""
    allocate(model, device)
    initialise(model, seed)
    return model


def allocate(model: nn.Module, device: torch.device | str) -> None:
    """Give a module built on meta its memory and its tables; its weights hold whatever is in that memory."""
    model.to_empty(device=device)
    for part in model.modules():
        reset = getattr(part, "reset", None)
        if callable(reset):
            reset()


def groups(model: nn.Module) -> dict[str, str]:
    """Parameter name -> group (embedding, attention, mlp, norm, local, head), as `count` groups them."""
    found: dict[str, str] = {}

    def walk(module: nn.Module, prefix: str, group: str) -> None:
        group = getattr(module, "group", group)
        for name, _ in module.named_parameters(recurse=False):
            found[prefix + name] = group
        for name, child in module.named_children():
            walk(child, f"{prefix}{name}.", group)

    walk(model, "", "embedding")
    return found
