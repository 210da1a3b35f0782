"""`build(arch)`: any record of the zoo, of the paper or of a redesign becomes a module, with its initial weights."""

from __future__ import annotations

from importlib import import_module

import torch
from torch import Tensor, nn

from manyheads.arch.count import params
from manyheads.nn import Part
from manyheads.nn.heads import LatentPooler, LmHead, MaskedHead
from manyheads.nn.positions import PositionTable
from manyheads.nn.residual import NORMS, Branch, UnitNorm
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError, first_line
from manyheads.spec.field_checks import between
from manyheads.spec.recipe import Rates

# Family -> (file, class). The file is imported when the family is asked for, so that one model costs one import.
# This table is the only registration that a new family needs in this room.
MODELS: dict[str, tuple[str, str]] = {
    "vit": ("vit", "ViT"),
    "deit": ("vit", "ViT"),
    "xcit": ("xcit", "XCiT"),
    "tnt": ("tnt", "TNT"),
    "volo": ("volo", "VOLO"),
    "davit": ("davit", "DaViT"),
    "crammed_bert": ("bert", "CrammedBert"),
    "bert": ("bert", "Bert"),
    "gpt2": ("gpt2", "GPT2"),
    "llama": ("llama", "Llama"),
    "gemma": ("llama", "Llama"),
    "gpt_neox": ("llama", "Llama"),
    "opt": ("gpt2", "OPT"),
    "nystromformer": ("nystromformer", "Nystromformer"),
    "nearest_neighbor": ("nearest_neighbor", "NearestNeighborEncoder"),
    "stack": ("nearest_neighbor", "NearestNeighborEncoder"),  # the layers read off a user's own module
}


MOST_PARAMETERS, MOST_LAYERS = 10**14, 100_000


def model_class(arch: Arch) -> type[nn.Module]:
    """The class of the family's models; called with (arch, rates), it makes a module whose weights are not drawn."""
    file, name = MODELS[arch.family]
    return getattr(import_module(f"manyheads.models.{file}"), name)


def build(
    arch: Arch, rates: Rates = Rates(), *, device: torch.device | str | None = None, seed: int | None = None
) -> nn.Module:
    """The module that `arch` describes, initialised as its family's original.

    On the meta device nothing is allocated; `materialise` fills such a module later. With `seed`, the weights depend on
    it alone and the global random state is left as it was."""
    _check_size(arch)
    if seed is not None:
        between("seed", seed, 0, 2**63 - 1, whole=True)
    with torch.device("meta"):
        model = model_class(arch)(arch, rates)
    target = torch.device(device) if device is not None else torch.get_default_device()
    return model if target.type == "meta" else materialise(model, target, seed)


def _check_size(arch: Arch) -> None:
    """Refuse a model that no machine holds, before PyTorch meets a size that it cannot count."""
    count, depth = params(arch).total, sum(stage.depth for stage in arch.stages)
    if count > MOST_PARAMETERS or depth > MOST_LAYERS:
        raise UserError(
            f"the model has {count:.1e} parameters in {depth:,} layers; models of up to {MOST_PARAMETERS:.0e} parameters "
            f"and {MOST_LAYERS:,} layers are built"
        )


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
    try:
        model.to_empty(device=device)
    except RuntimeError as error:
        size = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
        raise UserError(f"{device} has no room for the model's {size / 1e9:.1f} GB ({first_line(error)})") from None
    for part in model.modules():
        if isinstance(part, PositionTable):
            part.reset()


def groups(model: nn.Module) -> dict[str, str]:
    """Parameter name -> group (embedding, attention, mlp, norm, local, head), as `count` groups them."""
    result: dict[str, str] = {}

    def walk(module: nn.Module, prefix: str, group: str) -> None:
        if isinstance(module, NORMS):
            group = "norm"
        elif isinstance(module, Part):
            group = module.group
        for name, _ in module.named_parameters(recurse=False):
            result[prefix + name] = group
        for name, child in module.named_children():
            walk(child, f"{prefix}{name}.", group)

    walk(model, "", "embedding")
    return result


def truncated(tensor: Tensor, std: float) -> None:
    """Normal, cut at +-2 (not 2 std): what timm's trunc_normal_ does."""
    nn.init.trunc_normal_(tensor, std=std, a=-2.0, b=2.0)


def linears(module: nn.Module, std: float, *, cut: bool = True) -> None:
    """Every linear map N(0, std), truncated with `cut`; biases 0; norms at weight 1, bias 0; layer scales at their
    initial value; convolutions as PyTorch makes them."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            if cut:
                truncated(part.weight, std)
            else:
                nn.init.normal_(part.weight, std=std)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif isinstance(part, nn.LayerNorm | nn.RMSNorm | nn.BatchNorm2d | nn.Conv1d | nn.Conv2d):
            part.reset_parameters()
        elif isinstance(part, Branch) and part.scale is not None:
            nn.init.constant_(part.scale, part.spec.scaled)
        elif isinstance(part, UnitNorm):
            nn.init.ones_(part.scale)
        elif isinstance(part, LatentPooler):
            nn.init.normal_(part.latent, std=part.latent.numel() ** -0.5)


@torch.no_grad()
def embeddings(module: nn.Module, std: float) -> None:
    """Every embedding table and vocabulary matrix N(0, std); the bias over the vocabulary 0."""
    for part in module.modules():
        if isinstance(part, nn.Embedding) or (isinstance(part, LmHead) and part.weight is not None):
            nn.init.normal_(part.weight, std=std)
        if isinstance(part, LmHead | MaskedHead) and part.bias is not None:
            nn.init.zeros_(part.bias)
