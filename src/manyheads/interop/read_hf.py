"""A Hugging Face `config.json` as a record, without importing transformers.

A key means here what it means to transformers. GPT-2, BERT and Nyströmformer have no head_dim of their own:
transformers divides the width by the heads and ignores a `head_dim` key, so a key that says otherwise is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from manyheads.arch import families as f
from manyheads.spec.arch import Arch, with_residuals
from manyheads.spec.errors import UserError, nearest
from manyheads.spec.field_checks import conforms, shown
from manyheads.spec.parts import (
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

Config = Mapping[str, Any]
ACTS: dict[str, Act] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


def from_config(config: Config) -> Arch:
    """The record of a transformers model from its configuration."""
    if not isinstance(config, Mapping):
        raise UserError(f"config is {shown(config)}; write the object of a config.json, with a model_type")
    kind = str(config.get("model_type", ""))
    if kind not in READERS:
        hint = nearest(kind, READERS) or f"; known: {', '.join(READERS)}"
        raise UserError(f"model_type {kind!r} is not one manyheads reads{hint}")
    reader, heads = READERS[kind]
    classes = config.get("architectures") or []
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        raise UserError(f"architectures is {classes!r}; write a list of class names")
    for name in classes:
        if name.endswith("ForPreTraining") and kind == "bert":
            raise UserError(_beside_the_head(config, name))
        if not name.endswith(heads):
            raise UserError(
                f"architectures names {name}; manyheads reads {', '.join('*' + h for h in heads)} of model_type {kind}"
            )
    for name, plain in UNSUPPORTED.items():
        if config.get(name, plain) not in (plain, None):
            raise UserError(
                f"manyheads does not build models with {name} {config[name]!r}; only {plain!r} is supported"
            )
    return reader(config)


def _whole(config: Config, *names: str, default: int | None = None) -> int:
    """The whole number under the first of `names` that the configuration has; an error without one and a default."""
    for name in names:
        value = config.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UserError(f"{name} is {value!r}; write a whole number from 1 up")
        return value
    if default is None:
        raise UserError(f"the configuration lacks {' (or '.join(names)}{')' * (len(names) - 1)}")
    return default


def _real(config: Config, name: str, default: float) -> float:
    value = config.get(name, default)
    if not conforms(value, float):
        raise UserError(f"{name} is {shown(value)}; write a number")
    return float(value)


def _act(config: Config, name: str, default: str) -> Act:
    act = str(config.get(name, default))
    if act not in ACTS:
        raise UserError(f"manyheads has no {name} {act!r}; known: {', '.join(ACTS)}")
    return ACTS[act]


def _split(config: Config, width: int, heads: int) -> int:
    """head_dim of a model whose code divides the width by the heads."""
    if config.get("head_dim") not in (None, width // heads):
        raise UserError(
            f"transformers' {config['model_type']} ignores head_dim {config['head_dim']} and builds "
            f"{width}//{heads}. Write a manyheads arch.json, where head_dim counts"
        )
    if width % heads:
        raise UserError(
            f"width {width} with {heads} heads: {width}/{heads} is not whole, and "
            f"{config['model_type']} has no head_dim of its own"
        )
    return width // heads


def _classes(config: Config) -> int:
    labels = config.get("id2label")
    if labels is not None and not isinstance(labels, Mapping):
        raise UserError(f"id2label is {labels!r}; write a mapping from number to label")
    return len(labels) if labels else _whole(config, "num_labels", default=2)


def _classifies(config: Config) -> bool:
    return any("SequenceClassification" in name for name in config.get("architectures") or ())


def _gpt2(config: Config) -> Arch:
    width, heads = _whole(config, "n_embd", "hidden_size"), _whole(config, "n_head", "num_attention_heads")
    positions = _whole(config, "n_positions", "max_position_embeddings", default=1024)
    arch = f.gpt2(
        width,
        _whole(config, "n_layer", "num_hidden_layers"),
        heads,
        _split(config, width, heads),
        _whole(config, "n_inner", default=4 * width),
        vocab=_whole(config, "vocab_size", default=50257),
        tokens=positions,
        positions=positions,
        tied=config.get("tie_word_embeddings", True),
    )
    eps = _real(config, "layer_norm_epsilon", 1e-5)
    return _with_eps_and_act(arch, eps, _act(config, "activation_function", "gelu_new"))


def _with_eps_and_act(arch: Arch, eps: float, act: Act) -> Arch:
    """`arch` with another eps in every norm of layers and head, and another activation in its MLPs."""

    def branch(residual: Residual) -> Residual:
        norm = None if residual.norm is None else replace(residual.norm, eps=eps)
        op = replace(residual.op, act=act) if isinstance(residual.op, Mlp) else residual.op
        return replace(residual, norm=norm, op=op)

    head = arch.head
    if isinstance(head, Classify | Lm) and head.norm is not None:
        head = replace(head, norm=replace(head.norm, eps=eps))
    return replace(with_residuals(arch, branch), head=head)


def _bert_head(config: Config, width: int) -> Head | None:
    """BERT's pooler and classifier, or None for masked language modelling."""
    if not _classifies(config):
        return None
    return Classify(_classes(config), "class", None, hidden=width, act="tanh")


def _beside_the_head(config: Config, name: str) -> str:
    """Why BERT's class for pre-training is not read."""
    width = _whole(config, "hidden_size")
    count = width * width + width + 2 * width + 2
    return (
        f"{name} has a pooler and a next-sentence head beside the masked-language head, {count:,} parameters that no "
        'record holds; write BertForMaskedLM under "architectures" to read the model without them'
    )


def _bert(config: Config) -> Arch:
    width, heads = _whole(config, "hidden_size"), _whole(config, "num_attention_heads")
    positions, eps = _whole(config, "max_position_embeddings", default=512), _real(config, "layer_norm_eps", 1e-12)
    if not config.get("tie_word_embeddings", True):
        raise UserError("manyheads builds BERT with a tied head only; set tie_word_embeddings to true")
    arch = f.bert(
        width,
        _whole(config, "num_hidden_layers"),
        heads,
        _split(config, width, heads),
        _whole(config, "intermediate_size"),
        vocab=_whole(config, "vocab_size", default=30522),
        tokens=positions,
        positions=positions,
        types=_whole(config, "type_vocab_size", default=2),
        eps=eps,
        head=_bert_head(config, width),
    )
    return _with_eps_and_act(arch, eps, _act(config, "hidden_act", "gelu"))


def _vit(config: Config) -> Arch:
    width, heads = _whole(config, "hidden_size"), _whole(config, "num_attention_heads")
    dim = _whole(config, "head_dim") if config.get("head_dim") is not None else _split(config, width, heads)
    arch = f.vit(
        width,
        _whole(config, "num_hidden_layers"),
        heads,
        dim,
        _whole(config, "intermediate_size"),
        image=_whole(config, "image_size", default=224),
        patch=_whole(config, "patch_size", default=16),
        channels=_whole(config, "num_channels", default=3),
        classes=_classes(config),
        qkv_bias=config.get("qkv_bias", True),
    )
    return _with_eps_and_act(arch, _real(config, "layer_norm_eps", 1e-12), _act(config, "hidden_act", "gelu"))


def _llama(config: Config) -> Arch:
    width, heads = _whole(config, "hidden_size"), _whole(config, "num_attention_heads")
    kind = config["model_type"]
    windowed = config.get("use_sliding_window", kind == "mistral") and config.get("sliding_window") is not None
    if windowed:
        raise UserError("manyheads does not build sliding-window attention; set sliding_window to null")
    if _act(config, "hidden_act", "silu") != "silu":
        raise UserError(f"manyheads does not build a gated MLP with hidden_act {config['hidden_act']!r}; only 'silu'")
    kv = _whole(config, "num_key_value_heads", default=heads)
    usual = 128 if kind == "qwen3" else None  # transformers' default, where the file has no head_dim
    dim = _whole(config, "head_dim", default=usual) if usual or config.get("head_dim") else _split(config, width, heads)
    return f.llama(
        width,
        _whole(config, "num_hidden_layers"),
        heads,
        dim,
        _whole(config, "intermediate_size"),
        kv_heads=None if kv == heads else kv,
        vocab=_whole(config, "vocab_size"),
        tokens=_whole(config, "max_position_embeddings", default=2048),
        rope=_rope(config),
        tied=config.get("tie_word_embeddings", False),
        qk_norm=kind == "qwen3",
        qkv_bias=kind == "qwen2" or bool(config.get("attention_bias", False)),
        out_bias=kind != "qwen2" and bool(config.get("attention_bias", False)),
        eps=_real(config, "rms_norm_eps", 1e-6),
    )


def _rope(config: Config) -> Rope | RopeLlama3:
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(scaling, Mapping):
        raise UserError(f"rope_parameters is {scaling!r}; write a mapping with rope_type and rope_theta")
    theta = _real(scaling, "rope_theta", _real(config, "rope_theta", 10_000.0))
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default":
        return Rope(theta)
    if kind == "llama3":
        return RopeLlama3(
            theta,
            _real(scaling, "factor", 8.0),
            _real(scaling, "low_freq_factor", 1.0),
            _real(scaling, "high_freq_factor", 4.0),
            _whole(scaling, "original_max_position_embeddings"),
        )
    raise UserError(f"manyheads has no rope_type {kind!r}; known: default, llama3")


def _nystromformer(config: Config) -> Arch:
    width, heads = _whole(config, "hidden_size"), _whole(config, "num_attention_heads")
    tokens, eps = _whole(config, "max_position_embeddings", default=510), _real(config, "layer_norm_eps", 1e-5)
    norm, act = Norm(eps=eps), _act(config, "hidden_act", "gelu_new")
    conv = 0 if config.get("conv_kernel_size", 65) is None else _whole(config, "conv_kernel_size", default=65)
    mix = Nystrom(_whole(config, "num_landmarks", default=64), conv=conv)
    layer = (
        Residual(Attention(heads, _split(config, width, heads), mix=mix), norm, "post"),
        Residual(Mlp(_whole(config, "intermediate_size"), act), norm, "post"),
    )
    head: Head = Masked(bias=True, transform=True)
    if _classifies(config):
        head = Classify(_classes(config), "class", None, hidden=width, act=act)
    # the position table has two more rows than positions, because position ids start at 2, as in RoBERTa
    embed = Token(
        _whole(config, "vocab_size", default=30000),
        tokens + 2,
        types=_whole(config, "type_vocab_size", default=2),
        norm=norm,
    )
    stage = Stage(width, tokens, _whole(config, "num_hidden_layers"), (layer,))
    return Arch("nystromformer", embed, (stage,), head)


# keys for which a record has no field, and the only value that is supported
# fmt: off
UNSUPPORTED: dict[str, Any] = {
    "mlp_bias": False, "partial_rotary_factor": 1.0, "is_decoder": False, "add_cross_attention": False,
    "scale_attn_by_inverse_layer_idx": False, "position_embedding_type": "absolute",
}
# fmt: on
CAUSAL, READS = ("ForCausalLM", "LMHeadModel"), ("ForMaskedLM", "ForSequenceClassification")
# model type -> the function that reads it, and the endings of the classes that it reads
# fmt: off
READERS: dict[str, tuple[Callable[[Config], Arch], tuple[str, ...]]] = {
    "gpt2": (_gpt2, CAUSAL), "llama": (_llama, CAUSAL), "mistral": (_llama, CAUSAL), "qwen2": (_llama, CAUSAL),
    "qwen3": (_llama, CAUSAL), "bert": (_bert, READS), "nystromformer": (_nystromformer, READS),
    "vit": (_vit, ("ForImageClassification",)),
}
# fmt: on
