"""Where to listen: for each attention class, the place at which its concatenated heads can be read; for each MLP class,
its two weight matrices.

A class is known by its qualified name, so no library is imported to recognise it, and two classes called `Attention`
are told apart. Subclasses count as their bases, whether a user wrote them or `fully_shard` did."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.spec.errors import UserError, nearest

Kind = Literal["softmax", "cross-covariance", "outlook", "window", "channel", "nystrom", "pixel", "class"]
Values = tuple[str, Literal["all", "first", "last"]]

# what wrappers add to the names of the modules they wrap
WRAPPERS = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")


@dataclass(frozen=True)
class Tap:
    """Where one attention class shows its heads. Names are dotted attributes below the attention module.

    `at`: the module whose input is the concatenated heads, tokens x inner; of several names, the first that exists. An
    empty tuple means that the attention never calls its output projection; its heads are then computed again from its
    own arguments.
    `heads`: the number of heads, or the attribute that holds it.
    `values`: the projection whose output holds the values (what the attention mixes), and which columns they are: all,
    the `first` inner columns, or the `last` half of what follows inner columns of queries."""

    at: str | tuple[str, ...]
    heads: int | str
    kind: Kind = "softmax"
    values: Values | None = None


_QKV: Values = ("qkv", "last")
_TIMM = Tap("proj", "num_heads", values=_QKV)
_TIMM_NORM = replace(_TIMM, at=("norm", "proj"))  # a norm (or an identity) and a gate stand before the projection
_LLAMA = Tap("o_proj", "config.num_attention_heads", values=("v_proj", "all"))
_BERT = Tap("output.dense", "self.num_attention_heads", values=("self.value", "all"))
_OURS = Tap("out", "spec.heads", values=_QKV)
_HF_VIT = replace(_LLAMA, heads="num_attention_heads")
_CLIP = Tap("out_proj", "num_heads", values=("v_proj", "all"))

TAPS: Mapping[str, Tap] = {
    "manyheads.nn.attention.SoftmaxAttention": _OURS,
    "manyheads.nn.attention_variants.CrossCovarianceAttention": replace(_OURS, kind="cross-covariance"),
    "manyheads.nn.attention_variants.OutlookAttention": replace(_OURS, kind="outlook", values=("v", "all")),
    "manyheads.nn.attention_variants.WindowAttention": replace(_OURS, kind="window"),
    "manyheads.nn.attention_variants.ChannelAttention": replace(_OURS, kind="channel", values=("qkv", "first")),
    "manyheads.nn.nystrom.NystromAttention": replace(_OURS, kind="nystrom"),
    "manyheads.nn.attention_variants.ClassAttentionBlock": replace(_OURS, kind="class", values=None),
    "timm.layers.attention.Attention": _TIMM_NORM,
    "timm.layers.attention.AttentionRope": _TIMM_NORM,
    "timm.models.vision_transformer.Attention": _TIMM_NORM,  # where timm kept it before 1.0.17
    "timm.models.vision_transformer_relpos.RelPosAttention": _TIMM,
    "timm.models.eva.EvaAttention": _TIMM_NORM,
    "timm.models.beit.Attention": _TIMM,
    "timm.models.xcit.XCA": replace(_TIMM, kind="cross-covariance"),
    "timm.models.cait.TalkingHeadAttn": _TIMM,
    "timm.models.cait.ClassAttn": replace(_TIMM, kind="class", values=None),
    "timm.models.tnt.Attention": replace(_TIMM, values=("v", "all")),
    "timm.models.volo.Attention": _TIMM,
    "timm.models.volo.OutlookAttention": replace(_TIMM, kind="outlook", values=("v", "all")),
    "timm.models.volo.ClassAttention": replace(_TIMM, kind="class", values=None),
    "timm.models.davit.WindowAttention": replace(_TIMM, kind="window"),
    "timm.models.davit.ChannelAttention": replace(_TIMM, kind="channel", values=("qkv", "first")),
    "timm.models.davit.ChannelAttentionV2": Tap("proj", "groups", "channel", _QKV),
    "timm.models.swin_transformer.WindowAttention": replace(_TIMM, kind="window"),
    "transformers.models.gpt2.modeling_gpt2.GPT2Attention": Tap("c_proj", "num_heads", values=("c_attn", "last")),
    "transformers.models.bert.modeling_bert.BertAttention": _BERT,
    "transformers.models.roberta.modeling_roberta.RobertaAttention": _BERT,
    "transformers.models.distilbert.modeling_distilbert.DistilBertSelfAttention": Tap(
        "out_lin", "n_heads", values=("v_lin", "all")
    ),
    "transformers.models.opt.modeling_opt.OPTAttention": _CLIP,
    # queries, keys and values of one head stand side by side, so its values are no block of columns
    "transformers.models.gpt_neox.modeling_gpt_neox.GPTNeoXAttention": Tap("dense", "config.num_attention_heads"),
    "transformers.models.vit.modeling_vit.ViTAttention": _HF_VIT,
    "transformers.models.deit.modeling_deit.DeiTAttention": _HF_VIT,
    "transformers.models.dinov2.modeling_dinov2.Dinov2Attention": _HF_VIT,
    "transformers.models.dinov2_with_registers.modeling_dinov2_with_registers.Dinov2WithRegistersAttention": _HF_VIT,
    "transformers.models.clip.modeling_clip.CLIPAttention": _CLIP,
    "transformers.models.siglip.modeling_siglip.SiglipAttention": _CLIP,
    "transformers.models.siglip2.modeling_siglip2.Siglip2Attention": _CLIP,
    "transformers.models.llama.modeling_llama.LlamaAttention": _LLAMA,
    "transformers.models.mistral.modeling_mistral.MistralAttention": _LLAMA,
    "transformers.models.qwen2.modeling_qwen2.Qwen2Attention": _LLAMA,
    "transformers.models.qwen3.modeling_qwen3.Qwen3Attention": _LLAMA,
    "transformers.models.gemma.modeling_gemma.GemmaAttention": _LLAMA,
    "transformers.models.gemma2.modeling_gemma2.Gemma2Attention": _LLAMA,
    "transformers.models.gemma3.modeling_gemma3.Gemma3Attention": _LLAMA,
    "transformers.models.smollm3.modeling_smollm3.SmolLM3Attention": _LLAMA,
    "transformers.models.phi3.modeling_phi3.Phi3Attention": replace(_LLAMA, values=("qkv_proj", "last")),
    "transformers.models.nystromformer.modeling_nystromformer.NystromformerAttention": replace(_BERT, kind="nystrom"),
    "x_transformers.x_transformers.Attention": Tap("to_out", "heads", values=("to_v", "all")),
    "torch.nn.modules.activation.MultiheadAttention": Tap((), "num_heads"),
}
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
