"""Vision models of transformers as records, each from the object of its `config.json`.

The class that `architectures` names decides the head; without one it is the classifier of ViT and DeiT, and none of the
others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from manyheads.arch import families as f
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import (
    Attention,
    AttentionPooler,
    ClassAttention,
    Classify,
    Features,
    Head,
    Mlp,
    Norm,
    Patch,
    Pooler,
    Residual,
    Stage,
)

from .hf_fields import Config, activation, class_count, real, split_head_dim, whole, with_eps_and_act
from .read_hf_encoders import of_class


def _side(config: Config, name: str, default: int) -> int:
    """Pixels of a side. Two equal sides may be written as a list."""
    value = config.get(name)
    if isinstance(value, list | tuple):
        if len(value) != 2 or value[0] != value[1]:
            raise UserError(f"{name} is {list(value)}; manyheads builds models of square images and patches")
        return whole({name: value[0]}, name)
    return whole(config, name, default=default)


def _pixels(config: Config, patch: int) -> dict[str, Any]:
    """The size of images and of patches, and channels."""
    sizes = {"image": _side(config, "image_size", 224), "patch": _side(config, "patch_size", patch)}
    return sizes | {"channels": whole(config, "num_channels", default=3)}


def _own_head_dim(config: Config) -> int:
    """head_dim of a model whose configuration may state it."""
    if config.get("head_dim") is not None:
        return whole(config, "head_dim")
    return split_head_dim(config, whole(config, "hidden_size"), whole(config, "num_attention_heads"))


def _vit(config: Config, class_tokens: int = 1) -> Arch:
    width, eps = whole(config, "hidden_size"), real(config, "layer_norm_eps", 1e-12)
    norm = Norm(eps=eps)
    head: Head = Classify(class_count(config), "class", norm, distill=of_class(config, "WithTeacher"))
    if of_class(config, "Model"):
        size = whole(config, "pooler_output_size", "hidden_size")
        head = Features(norm, Pooler("class", None, size, act=activation(config, "pooler_act", "tanh")))
    arch = f.vit(
        width,
        whole(config, "num_hidden_layers"),
        whole(config, "num_attention_heads"),
        _own_head_dim(config),
        whole(config, "intermediate_size"),
        **_pixels(config, 16),
        class_tokens=class_tokens,
        qkv_bias=config.get("qkv_bias", True),
        eps=eps,
        head=head,
        family="deit" if class_tokens == 2 else "vit",
    )
    return with_eps_and_act(arch, eps, activation(config, "hidden_act", "gelu"))


def _deit(config: Config) -> Arch:
    return _vit(config, class_tokens=2)


def _layers(config: Config, embed: Patch, mlp: Mlp, norm: Norm, scaled: float | None = None, **attention: Any) -> Stage:
    """Layers with the norm before each branch."""
    dim = _own_head_dim(config) if config["model_type"].startswith("dinov2") else _split(config)
    op = Attention(whole(config, "num_attention_heads"), dim, **attention)
    layer = (Residual(op, norm, scaled=scaled), Residual(mlp, norm, scaled=scaled))
    tokens = (embed.image // embed.patch) ** 2 + embed.prefix
    return Stage(whole(config, "hidden_size"), tokens, whole(config, "num_hidden_layers"), (layer,))


def _split(config: Config) -> int:
    return split_head_dim(config, whole(config, "hidden_size"), whole(config, "num_attention_heads"))


def _dinov2(config: Config) -> Arch:
    width, norm = whole(config, "hidden_size"), Norm(eps=real(config, "layer_norm_eps", 1e-6))
    with_registers = config["model_type"] == "dinov2_with_registers"
    embed = Patch(
        **_pixels(config, 16 if with_registers else 14),
        registers=whole(config, "num_register_tokens", default=4) if with_registers else 0,
        mask_token=with_registers or bool(config.get("use_mask_token", True)),
    )
    hidden = int(width * real(config, "mlp_ratio", 4.0))
    mlp = Mlp(hidden, activation(config, "hidden_act", "gelu"))
    if config.get("use_swiglu_ffn", False):
        mlp = Mlp((int(hidden * 2 / 3) + 7) // 8 * 8, "silu", gated=True)
    scaled, bias = real(config, "layerscale_value", 1.0), config.get("qkv_bias", True)
    head: Head = Features(norm, Pooler("class"))
    if of_class(config, "ForImageClassification"):
        head = Classify(class_count(config), "class_and_patches", norm)
    stage = _layers(config, embed, mlp, norm, scaled, qkv_bias=bias)
    return Arch("vit", embed, (stage,), head, dialect="dinov2")


def _clip_image(config: Config) -> Arch:
    norm = Norm(eps=real(config, "layer_norm_eps", 1e-5))
    embed = Patch(**_pixels(config, 32), bias=False, norm=norm)
    mlp = Mlp(whole(config, "intermediate_size"), activation(config, "hidden_act", "quick_gelu"))
    size = whole(config, "projection_dim", default=512) if of_class(config, "WithProjection") else None
    head = Features(None, Pooler("class", norm, size, bias=False))
    return Arch("vit", embed, (_layers(config, embed, mlp, norm),), head, dialect="clip")


def _siglip_image(config: Config) -> Arch:
    norm = Norm(eps=real(config, "layer_norm_eps", 1e-6))
    embed = Patch(**_pixels(config, 16), class_tokens=0)
    mlp = Mlp(whole(config, "intermediate_size"), activation(config, "hidden_act", "gelu_pytorch_tanh"))
    stage = _layers(config, embed, mlp, norm)
    pooler = None
    if config.get("vision_use_head", True):
        pooler = AttentionPooler(ClassAttention(whole(config, "num_attention_heads"), _split(config)), mlp, norm)
    return Arch("vit", embed, (stage,), Features(norm, pooler), dialect="siglip")


IMAGES = "ForImageClassification"
# model type -> the function that reads it, and the endings of the classes that it reads
# fmt: off
READERS: dict[str, tuple[Callable[[Config], Arch], tuple[str, ...]]] = {
    "vit": (_vit, (IMAGES, "ViTModel")), "deit": (_deit, (IMAGES, f"{IMAGES}WithTeacher", "DeiTModel")),
    "dinov2": (_dinov2, (IMAGES, "Dinov2Model")),
    "dinov2_with_registers": (_dinov2, (IMAGES, "Dinov2WithRegistersModel")),
    "clip_vision_model": (_clip_image, ("CLIPVisionModel", "CLIPVisionModelWithProjection")),
    "siglip_vision_model": (_siglip_image, ("SiglipVisionModel",)),
}
# fmt: on
