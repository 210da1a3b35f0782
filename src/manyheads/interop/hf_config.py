"""A Hugging Face `config.json` as a record, without importing transformers.

Read from the file as transformers reads it: where a model has no head_dim of its own (GPT-2, BERT, Nyströmformer), its
code divides the width by the heads, and a `head_dim` key is ignored there, so it is refused here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from manyheads.arch import families as f
from manyheads.arch.errors import UserError, nearest
from manyheads.arch.parts import (
    Act,
    Attention,
    Classify,
    Head,
    Lm,
    Masked,
    Mlp,
    Norm,
    Nystrom,
    Residual,
    Rope,
    RopeLlama3,
    Stage,
    Token,
)
from manyheads.arch.spec import Arch

Config = Mapping[str, Any]
ACTS: dict[str, Act] = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu",
                        "silu": "silu", "swish": "silu"}  # fmt: skip


def from_config(config: Config) -> Arch:
    """The record of a transformers model from its configuration."""
    kind = str(config.get("model_type", ""))
    if kind not in READERS:
        hint = nearest(kind, READERS) or f"; known: {', '.join(READERS)}"
        raise UserError(f"model_type {kind!r} is not one manyheads reads{hint}")
    return READERS[kind](config)


def _need(config: Config, *names: str) -> Any:
    for name in names:
        if config.get(name) is not None:
            return config[name]
    raise UserError(f"the configuration lacks {' (or '.join(names)}{')' * (len(names) - 1)}")


def _act(config: Config, name: str, default: str) -> Act:
    given = str(config.get(name, default))
    if given not in ACTS:
        raise UserError(f"{name} {given!r} is not one manyheads builds; known: {', '.join(ACTS)}")
    return ACTS[given]


def _split(config: Config, width: int, heads: int) -> int:
    """head_dim of a model whose code divides the width by the heads."""
    if config.get("head_dim") not in (None, width // heads):
        raise UserError(f"head_dim {config['head_dim']} is ignored by transformers' {config['model_type']}: it builds "
                        f"{width}//{heads}. Write the record as a manyheads arch.json, where head_dim counts")
    if width % heads:
        raise UserError(f"width {width} with {heads} heads: {width}/{heads} is not whole, and "
                        f"{config['model_type']} has no head_dim of its own")
    return width // heads


def _classes(config: Config) -> int:
    return len(config["id2label"]) if config.get("id2label") else int(config.get("num_labels", 2))


def _wants(config: Config, word: str) -> bool:
    return any(word in name for name in config.get("architectures") or ())


def _gpt2(config: Config) -> Arch:
    width, heads = _need(config, "n_embd", "hidden_size"), _need(config, "n_head", "num_attention_heads")
    if config.get("add_cross_attention"):
        raise UserError("GPT-2 with cross attention is not one manyheads builds")
    positions = config.get("n_positions", 1024)
    arch = f.gpt2(width, _need(config, "n_layer", "num_hidden_layers"), heads, _split(config, width, heads),
                  config.get("n_inner") or 4 * width, vocab=config.get("vocab_size", 50257), tokens=positions,
                  positions=positions, tied=config.get("tie_word_embeddings", True))
    eps = config.get("layer_norm_epsilon", 1e-5)
    return _edit(arch, eps, _act(config, "activation_function", "gelu_new"))


def _edit(arch: Arch, eps: float, act: Act) -> Arch:
    """The record with another eps in every norm of layers and head, and another activation."""

    def branch(residual: Residual) -> Residual:
        norm = None if residual.norm is None else replace(residual.norm, eps=eps)
        op = replace(residual.op, act=act) if isinstance(residual.op, Mlp) else residual.op
        return replace(residual, norm=norm, op=op)

    stages = tuple(
        replace(stage, unit=tuple(tuple(branch(r) for r in layer) for layer in stage.unit if isinstance(layer, tuple)))
        for stage in arch.stages
    )
    head = arch.head
    if isinstance(head, Classify | Lm) and head.norm is not None:
        head = replace(head, norm=replace(head.norm, eps=eps))
    return Arch(arch.family, arch.embed, stages, head)


def _reader_head(config: Config, width: int) -> Head | None:
    """BERT's pooler and classifier where the configuration is of a classifier; None: masked language modelling."""
    if not _wants(config, "SequenceClassification"):
        return None
    return Classify(_classes(config), "class", None, hidden=width, act="tanh")


def _bert(config: Config) -> Arch:
    width, heads = _need(config, "hidden_size"), _need(config, "num_attention_heads")
    positions, eps = config.get("max_position_embeddings", 512), config.get("layer_norm_eps", 1e-12)
    arch = f.bert(width, _need(config, "num_hidden_layers"), heads, _split(config, width, heads),
                  _need(config, "intermediate_size"), vocab=config.get("vocab_size", 30522), tokens=positions,
                  positions=positions, types=config.get("type_vocab_size", 2), eps=eps, head=_reader_head(config, width))
    return _edit(arch, eps, _act(config, "hidden_act", "gelu"))


def _vit(config: Config) -> Arch:
    width, heads = _need(config, "hidden_size"), _need(config, "num_attention_heads")
    dim = config.get("head_dim") or _split(config, width, heads)
    arch = f.vit(width, _need(config, "num_hidden_layers"), heads, dim, _need(config, "intermediate_size"),
                 image=config.get("image_size", 224), patch=config.get("patch_size", 16),
                 channels=config.get("num_channels", 3), classes=_classes(config), qkv_bias=config.get("qkv_bias", True))
    return _edit(arch, config.get("layer_norm_eps", 1e-12), _act(config, "hidden_act", "gelu"))


def _llama(config: Config) -> Arch:
    width, heads = _need(config, "hidden_size"), _need(config, "num_attention_heads")
    if config.get("use_sliding_window"):
        raise UserError("sliding-window attention is not one manyheads builds; set use_sliding_window to false")
    kv = config.get("num_key_value_heads") or heads
    kind = config["model_type"]
    arch = f.llama(
        width, _need(config, "num_hidden_layers"), heads, config.get("head_dim") or _split(config, width, heads),
        _need(config, "intermediate_size"), kv_heads=None if kv == heads else kv, vocab=_need(config, "vocab_size"),
        tokens=config.get("max_position_embeddings", 2048), rope=_rope(config),
        tied=config.get("tie_word_embeddings", False), qk_norm=kind == "qwen3",
        qkv_bias=kind == "qwen2" or bool(config.get("attention_bias", False)),
        out_bias=kind != "qwen2" and bool(config.get("attention_bias", False)), eps=config.get("rms_norm_eps", 1e-6),
    )  # fmt: skip
    return arch


def _rope(config: Config) -> Rope | RopeLlama3:
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = float(scaling.get("rope_theta") or config.get("rope_theta") or 10_000.0)
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default":
        return Rope(theta)
    if kind == "llama3":
        return RopeLlama3(theta, float(scaling["factor"]), float(scaling["low_freq_factor"]),
                          float(scaling["high_freq_factor"]), int(scaling["original_max_position_embeddings"]))
    raise UserError(f"rope_type {kind!r} is not one manyheads builds; known: default, llama3")


def _nystromformer(config: Config) -> Arch:
    width, heads = _need(config, "hidden_size"), _need(config, "num_attention_heads")
    tokens, eps = config.get("max_position_embeddings", 510), config.get("layer_norm_eps", 1e-5)
    norm, act = Norm(eps=eps), _act(config, "hidden_act", "gelu_new")
    mix = Nystrom(config.get("num_landmarks", 64), conv=config.get("conv_kernel_size") or 0)
    layer = (
        Residual(Attention(heads, _split(config, width, heads), mix=mix), norm, "post"),
        Residual(Mlp(_need(config, "intermediate_size"), act), norm, "post"),
    )
    head: Head = Masked(bias=True, transform=True)
    if _wants(config, "SequenceClassification"):
        head = Classify(_classes(config), "class", None, hidden=width, act=act)
    # its position table has two rows more than positions: ids start at 2, as in RoBERTa
    embed = Token(config.get("vocab_size", 30000), tokens + 2, types=config.get("type_vocab_size", 2), norm=norm)
    stage = Stage(width, tokens, _need(config, "num_hidden_layers"), (layer,))
    return Arch("nystromformer", embed, (stage,), head)


READERS: dict[str, Callable[[Config], Arch]] = {
    "gpt2": _gpt2, "bert": _bert, "vit": _vit, "llama": _llama, "mistral": _llama, "qwen2": _llama, "qwen3": _llama,
    "nystromformer": _nystromformer,
}  # fmt: skip
