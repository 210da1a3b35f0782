"""A record as the name and the configuration of a class of transformers: its encoders of text and of images.

What a configuration cannot say is found when it is read back, and is not checked here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import (
    Act,
    Attention,
    AttentionPooler,
    Classify,
    Features,
    Masked,
    Mlp,
    Norm,
    Patch,
    Pooler,
    Residual,
    Token,
)

ACTS: dict[Act, str] = {
    "gelu": "gelu",
    "gelu_tanh": "gelu_new",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
    "silu": "silu",
    "tanh": "tanh",
}
Settings = tuple[str, dict[str, Any]]  # the class's name, and its configuration
STILL = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)


def sizes_of(arch: Arch) -> tuple[dict[str, Any], Attention, Mlp, Norm]:
    """What all of them call alike, and the parts of the first layer."""
    stage = arch.stages[0]
    attention, mlp = stage.unit[0][0], stage.unit[0][1]  # type: ignore[index]
    assert isinstance(attention.op, Attention)
    assert isinstance(mlp.op, Mlp)
    assert attention.norm is not None
    sizes = {
        "hidden_size": stage.width,
        "num_hidden_layers": sum(stage.depth for stage in arch.stages),
        "num_attention_heads": attention.op.heads,
        "intermediate_size": mlp.op.mlp_dim,
    }
    return sizes, attention.op, mlp.op, attention.norm


def _numbers(arch: Arch) -> dict[str, Any]:
    """Sizes, activation and eps under the names that most encoders have."""
    sizes, _, mlp, norm = sizes_of(arch)
    settings = sizes | {"hidden_act": ACTS[mlp.act], "layer_norm_eps": norm.eps}
    return settings | ({"num_labels": arch.head.classes} if isinstance(arch.head, Classify) else {})


def _words(arch: Arch) -> dict[str, Any]:
    assert isinstance(arch.embed, Token)
    return {"vocab_size": arch.embed.vocab, "max_position_embeddings": arch.embed.positions}


def _class(arch: Arch, name: str) -> str:
    """The class of a text encoder, by the kind of its head."""
    if isinstance(arch.head, Features):
        return f"{name}Model"
    return f"{name}ForMaskedLM" if isinstance(arch.head, Masked) else f"{name}ForSequenceClassification"


def _bert(arch: Arch) -> Settings:
    assert isinstance(arch.embed, Token)
    return _class(arch, "Bert"), _numbers(arch) | STILL | _words(arch) | {"type_vocab_size": arch.embed.types}


def _electra(arch: Arch) -> Settings:
    settings = _bert(arch)[1]
    return _class(arch, "Electra"), settings | {"embedding_size": settings["hidden_size"]}


def _roberta(arch: Arch) -> Settings:
    assert isinstance(arch.embed, Token)
    return _class(arch, "Roberta"), _bert(arch)[1] | {"pad_token_id": arch.embed.first - 1}


def _distilbert(arch: Arch) -> Settings:
    numbers = _numbers(arch)
    names = {"hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads"}
    names |= {"intermediate_size": "hidden_dim", "hidden_act": "activation", "num_labels": "num_labels"}
    settings = {theirs: numbers[ours] for ours, theirs in names.items() if ours in numbers}
    rates = dict.fromkeys(("dropout", "attention_dropout", "seq_classif_dropout"), 0.0)
    return _class(arch, "DistilBert"), settings | rates | _words(arch)


def _pooler(arch: Arch) -> Pooler:
    """The pooler of a model without a head, or an empty one."""
    head = arch.head
    return head.pooler if isinstance(head, Features) and isinstance(head.pooler, Pooler) else Pooler()


def _clip_text(arch: Arch) -> Settings:
    size = _pooler(arch).out
    settings = _numbers(arch) | _words(arch) | {"projection_dim": size or 512}
    end = {"eos_token_id": settings["vocab_size"] - 1}
    return "CLIPTextModelWithProjection" if size else "CLIPTextModel", settings | end


def _siglip_text(arch: Arch) -> Settings:
    return "SiglipTextModel", _numbers(arch) | _words(arch) | {"projection_size": _pooler(arch).out}


def _pixels(arch: Arch) -> dict[str, Any]:
    if not isinstance(arch.embed, Patch):
        raise UserError(f"a {arch.family} model whose images enter by {type(arch.embed).__name__} has no class there")
    return {"image_size": arch.embed.image, "patch_size": arch.embed.patch, "num_channels": arch.embed.channels}


def _vit(arch: Arch, name: str = "ViT") -> Settings:
    _, attention, _, _ = sizes_of(arch)
    own = {"qkv_bias": attention.qkv_bias, "head_dim": attention.head_dim}
    settings = _numbers(arch) | STILL | _pixels(arch) | own
    if isinstance(arch.head, Features):
        pooler = _pooler(arch)
        further = {"pooler_output_size": pooler.out, "pooler_act": ACTS[pooler.act or "tanh"]}
        return f"{name}Model", settings | further
    teacher = "WithTeacher" if isinstance(arch.head, Classify) and arch.head.distill else ""
    return f"{name}ForImageClassification{teacher}", settings


def _deit(arch: Arch) -> Settings:
    return _vit(arch, "DeiT")


def _dinov2(arch: Arch) -> Settings:
    name, settings = _vit(arch, "Dinov2")
    assert isinstance(arch.embed, Patch)
    _, _, mlp, _ = sizes_of(arch)
    first = arch.stages[0].unit[0][0]  # type: ignore[index]
    assert isinstance(first, Residual)
    hidden = 3 * mlp.mlp_dim // 2 if mlp.gated else mlp.mlp_dim
    settings |= {"layerscale_value": first.scaled, "use_swiglu_ffn": mlp.gated}
    settings |= {"mlp_ratio": _ratio(hidden, settings["hidden_size"]), "use_mask_token": arch.embed.mask_token}
    dropped = ("intermediate_size", "pooler_output_size", "pooler_act", *["hidden_act"] * mlp.gated)
    settings = {key: value for key, value in settings.items() if key not in dropped}
    if arch.embed.registers:
        del settings["use_mask_token"]
        settings["num_register_tokens"] = arch.embed.registers
        name = name.replace("Dinov2", "Dinov2WithRegisters")
    return name, settings


def _ratio(hidden: int, width: int) -> int:
    """The whole number of widths that the MLP's hidden size is; transformers' DINOv2 has whole ones alone."""
    return max(1, round(hidden / width))


def _clip_image(arch: Arch) -> Settings:
    size = _pooler(arch).out
    settings = _numbers(arch) | _pixels(arch) | {"projection_dim": size or 512}
    return "CLIPVisionModelWithProjection" if size else "CLIPVisionModel", settings


def _siglip_image(arch: Arch) -> Settings:
    head = arch.head
    pooled = isinstance(head, Features) and isinstance(head.pooler, AttentionPooler)
    return "SiglipVisionModel", _numbers(arch) | _pixels(arch) | {"vision_use_head": pooled}


# as STOCK in `hf_stock`
ENCODERS: dict[tuple[str, str], tuple[Callable[[Arch], Settings], ...]] = {
    ("bert", ""): (_bert, _distilbert, _electra),
    ("bert", "roberta"): (_roberta,),
    ("bert", "clip"): (_clip_text,),
    ("bert", "siglip"): (_siglip_text,),
    ("vit", ""): (_vit,),
    ("vit", "dinov2"): (_dinov2,),
    ("vit", "clip"): (_clip_image,),
    ("vit", "siglip"): (_siglip_image,),
    ("deit", ""): (_deit,),
}
