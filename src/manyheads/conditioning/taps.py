"""Where to listen in a model: its attention modules with their taps (`tap_table`), and for each MLP class its two weight
matrices. Subclasses count as their bases, whether a user wrote them or `fully_shard` did."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.spec.errors import UserError, nearest

from .tap_table import TAPS, Tap

# what wrappers add to the names of the modules they wrap
WRAPPERS = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")


EXAMPLE = (
    'probe(model, batch, taps={"blocks.*.attn": Tap("proj", heads=8)}), where "blocks.*.attn" are the attention modules '
    'as named_modules() gives them and "proj" is the output projection inside each'
)
PIXELS = ("attn_in", "pixel_attention.op")  # TNT's inner and outer attention differ in name alone


@dataclass(frozen=True)
class Place:
    """One attention module of a model, and the module whose input is its heads (None: the heads are computed again)."""

    name: str
    module: nn.Module
    tap: Tap
    output: nn.Module | None

    @property
    def heads(self) -> int:
        """Number of heads."""
        if isinstance(self.tap.heads, int):
            return self.tap.heads
        try:
            return int(within(self.module, self.tap.heads))
        except (AttributeError, TypeError, ValueError):
            raise UserError(
                f"the tap for {self.name} takes its number of heads from {self.tap.heads!r}, and the module has no such "
                "number; write the number, or the attribute that holds it"
            ) from None


def within(module: nn.Module, path: str) -> Any:
    """The attribute at a dotted path below `module`."""
    value: Any = module
    for name in path.split("."):
        value = getattr(value, name)
    return value


def holds(module: nn.Module, path: str) -> bool:
    """Whether `module` has a submodule at a dotted path."""
    return any(name == path for name, _ in module.named_modules())


def below(module: nn.Module, part: nn.Module) -> str:
    """Dotted name of a part below `module`."""
    return next(plain(name) for name, inner in module.named_modules() if inner is part)


def qualified(cls: type) -> str:
    """Name of a class, with that of its module."""
    return f"{cls.__module__}.{cls.__qualname__}"


def plain(name: str) -> str:
    """Name of a module without the parts that wrappers add."""
    for wrapper in WRAPPERS:
        name = name.replace(wrapper, "")
    return name


def recognise(name: str, module: nn.Module) -> Tap | None:
    """The tap for a module, by its class or the nearest of its bases in the table."""
    for base in type(module).__mro__:
        if tap := TAPS.get(qualified(base)):
            return replace(tap, kind="pixel") if tap.kind == "softmax" and name.endswith(PIXELS) else tap
    return None


def find(model: nn.Module, taps: Mapping[str, Tap] | None = None) -> tuple[Place, ...]:
    """The places of `known`; a model without any is an error."""
    if not (places := known(model, taps)):
        raise UserError(unknown(model))
    return places


def known(model: nn.Module, taps: Mapping[str, Tap] | None = None) -> tuple[Place, ...]:
    """Every attention module of `model` that TAPS or `taps` knows, class attention included, in module order.

    `taps` maps names of attention modules to their taps, with `*` for any one part of a name; they go before the
    table's."""
    places, used = [], set()
    for full, module in model.named_modules():
        name = plain(full)
        own = next((pattern for pattern in taps or {} if _matches(name, pattern)), None)
        tap = recognise(name, module) if own is None else (taps or {})[own]
        if tap is None:
            continue
        used.add(own)
        places.append(Place(name, module, tap, _output(name, module, tap)))
    if idle := [p for p in taps or {} if p not in used]:
        names = [plain(name) for name, _ in model.named_modules() if name]
        raise UserError(
            f"taps={{...}} names {idle[0]!r}, and the model has no such module{nearest(idle[0], names)}; write the "
            "name of an attention module as named_modules() gives it, with * for numbers"
        )
    return tuple(places)


def _matches(name: str, pattern: str) -> bool:
    """Whether each part of a dotted name fits the same part of the pattern."""
    parts, patterns = name.split("."), pattern.split(".")
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))


def _output(name: str, module: nn.Module, tap: Tap) -> nn.Module | None:
    candidates = (tap.at,) if isinstance(tap.at, str) else tap.at
    for path in candidates:
        if holds(module, path):
            return module.get_submodule(path)
    if not candidates and qualified(nn.MultiheadAttention) in map(qualified, type(module).__mro__):
        return None
    children = ", ".join(child for child, _ in module.named_modules() if child) or "nothing"
    raise UserError(
        f"the tap for {name} ({qualified(type(module))}) listens to {candidates}, and the module has {children}; "
        f'write taps={{"{name}": Tap("name of its output projection", heads=...)}}'
    )


def unknown(model: nn.Module) -> str:
    """The error message for a model in which no attention is recognised by its class."""
    like = [(plain(name), module) for name, module in model.named_modules() if "att" in type(module).__name__.lower()]
    seen = {type(module): name for name, module in reversed(like)}
    modules = "; ".join(f"{name} is a {qualified(cls)}" for cls, name in seen.items())
    return (
        f"manyheads knows no attention in this {type(model).__name__} (its modules: "
        f"{modules or 'none has attention in its name; convolutions and state spaces are no attention'}). "
        f"Name the sites: {EXAMPLE}"
    )


# class -> its first matrices (gate and value, where they are two) and its second, as dotted names below it
_DENSE = (("intermediate.dense",), "output.dense")
_FC = (("fc1",), "fc2")
_GATED = (("gate_proj", "up_proj"), "down_proj")
MLPS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "manyheads.nn.residual.MlpBlock": (("inp",), "out"),
    "timm.layers.mlp.Mlp": _FC,
    "timm.layers.mlp.GluMlp": _FC,
    "timm.layers.mlp.SwiGLU": (("fc1_g", "fc1_x"), "fc2"),
    "transformers.models.gpt2.modeling_gpt2.GPT2MLP": (("c_fc",), "c_proj"),
    "transformers.models.bert.modeling_bert.BertLayer": _DENSE,
    "transformers.models.roberta.modeling_roberta.RobertaLayer": _DENSE,
    "transformers.models.nystromformer.modeling_nystromformer.NystromformerLayer": _DENSE,
    "transformers.models.distilbert.modeling_distilbert.FFN": (("lin1",), "lin2"),
    "transformers.models.opt.modeling_opt.OPTDecoderLayer": _FC,
    "transformers.models.gpt_neox.modeling_gpt_neox.GPTNeoXMLP": (("dense_h_to_4h",), "dense_4h_to_h"),
    "transformers.models.vit.modeling_vit.ViTMLP": _FC,
    "transformers.models.deit.modeling_deit.DeiTMLP": _FC,
    "transformers.models.dinov2.modeling_dinov2.Dinov2MLP": _FC,
    "transformers.models.dinov2.modeling_dinov2.Dinov2SwiGLUFFN": _GATED,
    "transformers.models.dinov2_with_registers.modeling_dinov2_with_registers.Dinov2WithRegistersMLP": _FC,
    "transformers.models.dinov2_with_registers.modeling_dinov2_with_registers.Dinov2WithRegistersSwiGLUFFN": _GATED,
    "transformers.models.clip.modeling_clip.CLIPMLP": _FC,
    "transformers.models.siglip.modeling_siglip.SiglipMLP": _FC,
    "transformers.models.siglip2.modeling_siglip2.Siglip2MLP": _FC,
    "transformers.models.llama.modeling_llama.LlamaMLP": _GATED,
    "transformers.models.mistral.modeling_mistral.MistralMLP": _GATED,
    "transformers.models.qwen2.modeling_qwen2.Qwen2MLP": _GATED,
    "transformers.models.qwen3.modeling_qwen3.Qwen3MLP": _GATED,
    "transformers.models.gemma.modeling_gemma.GemmaMLP": _GATED,
    "transformers.models.gemma2.modeling_gemma2.Gemma2MLP": _GATED,
    "transformers.models.gemma3.modeling_gemma3.Gemma3MLP": _GATED,
    "transformers.models.smollm3.modeling_smollm3.SmolLM3MLP": _GATED,
    "transformers.models.phi3.modeling_phi3.Phi3MLP": (("gate_up_proj",), "down_proj"),
    "torch.nn.modules.transformer.TransformerEncoderLayer": (("linear1",), "linear2"),
    "torch.nn.modules.transformer.TransformerDecoderLayer": (("linear1",), "linear2"),
    "torchvision.models.vision_transformer.MLPBlock": (("0",), "3"),
}


@dataclass(frozen=True, eq=False)
class MlpMatrices:
    """The two matrices of an MLP. `firsts` side by side are the first; the input of `second` is the hidden
    activation."""

    firsts: tuple[nn.Module, ...]
    second: nn.Module

    def weights(self) -> tuple[Float[Tensor, "first_rows first_columns"], Float[Tensor, "second_rows second_columns"]]:
        """Both matrices, gathered where they are sharded. They may be transposed, which leaves kappa as it is."""
        first, second = [_whole(part) for part in self.firsts], _whole(self.second)
        return torch.cat(first) if len(first) > 1 else first[0], second


def _whole(module: nn.Module) -> Tensor:
    weight = module.weight
    assert isinstance(weight, Tensor)
    shards = sys.modules.get("torch.distributed.tensor")
    if shards is not None and isinstance(weight, shards.DTensor):
        weight = weight.full_tensor()
    return weight.detach()


def find_mlps(model: nn.Module) -> tuple[MlpMatrices, ...]:
    """Every MLP of the model that MLPS knows."""
    mlps = []
    for module in model.modules():
        names = next((MLPS[name] for base in type(module).__mro__ if (name := qualified(base)) in MLPS), None)
        if names is not None:
            firsts, second = names
            mlps.append(
                MlpMatrices(tuple(module.get_submodule(first) for first in firsts), module.get_submodule(second))
            )
    return tuple(mlps)
