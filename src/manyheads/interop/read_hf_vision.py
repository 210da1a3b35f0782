"""Vision models of transformers as records, each from the object of its `config.json`."""

from __future__ import annotations

from collections.abc import Callable

from manyheads.arch import families as f
from manyheads.spec.arch import Arch

from .hf_fields import Config, activation, class_count, real, split_head_dim, whole, with_eps_and_act


def _vit(config: Config) -> Arch:
    width, heads = whole(config, "hidden_size"), whole(config, "num_attention_heads")
    dim = whole(config, "head_dim") if config.get("head_dim") is not None else split_head_dim(config, width, heads)
    arch = f.vit(
        width,
        whole(config, "num_hidden_layers"),
        heads,
        dim,
        whole(config, "intermediate_size"),
        image=whole(config, "image_size", default=224),
        patch=whole(config, "patch_size", default=16),
        channels=whole(config, "num_channels", default=3),
        classes=class_count(config),
        qkv_bias=config.get("qkv_bias", True),
    )
    return with_eps_and_act(arch, real(config, "layer_norm_eps", 1e-12), activation(config, "hidden_act", "gelu"))


# model type -> the function that reads it, and the endings of the classes that it reads
READERS: dict[str, tuple[Callable[[Config], Arch], tuple[str, ...]]] = {"vit": (_vit, ("ForImageClassification",))}
