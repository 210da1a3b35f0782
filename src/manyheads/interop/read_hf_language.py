"""Language models of transformers that continue a text as records, each from the object of its `config.json`.

GPT-2 has no head_dim of its own: transformers divides the width by the heads and ignores a `head_dim` key, so a key that
says otherwise is refused. Encoders of text are read in `read_hf_encoders`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from manyheads.arch import families as f
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Rope, RopeLlama3

from .hf_fields import Config, activation, real, split_head_dim, whole, with_eps_and_act


def _gpt2(config: Config) -> Arch:
    width, heads = whole(config, "n_embd", "hidden_size"), whole(config, "n_head", "num_attention_heads")
    positions = whole(config, "n_positions", "max_position_embeddings", default=1024)
    arch = f.gpt2(
        width,
        whole(config, "n_layer", "num_hidden_layers"),
        heads,
        split_head_dim(config, width, heads),
        whole(config, "n_inner", default=4 * width),
        vocab=whole(config, "vocab_size", default=50257),
        tokens=positions,
        positions=positions,
        tied=config.get("tie_word_embeddings", True),
    )
    eps = real(config, "layer_norm_epsilon", 1e-5)
    return with_eps_and_act(arch, eps, activation(config, "activation_function", "gelu_new"))


def _llama(config: Config) -> Arch:
    width, heads = whole(config, "hidden_size"), whole(config, "num_attention_heads")
    kind = config["model_type"]
    windowed = config.get("use_sliding_window", kind == "mistral") and config.get("sliding_window") is not None
    if windowed:
        raise UserError("manyheads does not build sliding-window attention; set sliding_window to null")
    if activation(config, "hidden_act", "silu") != "silu":
        raise UserError(f"manyheads does not build a gated MLP with hidden_act {config['hidden_act']!r}; only 'silu'")
    kv = whole(config, "num_key_value_heads", default=heads)
    usual = 128 if kind == "qwen3" else None  # transformers' default, where the file has no head_dim
    dim = (
        whole(config, "head_dim", default=usual)
        if usual or config.get("head_dim")
        else split_head_dim(config, width, heads)
    )
    return f.llama(
        width,
        whole(config, "num_hidden_layers"),
        heads,
        dim,
        whole(config, "intermediate_size"),
        kv_heads=None if kv == heads else kv,
        vocab=whole(config, "vocab_size"),
        tokens=whole(config, "max_position_embeddings", default=2048),
        rope=_rope(config),
        tied=config.get("tie_word_embeddings", False),
        qk_norm=kind == "qwen3",
        qkv_bias=kind == "qwen2" or bool(config.get("attention_bias", False)),
        out_bias=kind != "qwen2" and bool(config.get("attention_bias", False)),
        eps=real(config, "rms_norm_eps", 1e-6),
    )


def _rope(config: Config) -> Rope | RopeLlama3:
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(scaling, Mapping):
        raise UserError(f"rope_parameters is {scaling!r}; write a mapping with rope_type and rope_theta")
    theta = real(scaling, "rope_theta", real(config, "rope_theta", 10_000.0))
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default":
        return Rope(theta)
    if kind == "llama3":
        return RopeLlama3(
            theta,
            real(scaling, "factor", 8.0),
            real(scaling, "low_freq_factor", 1.0),
            real(scaling, "high_freq_factor", 4.0),
            whole(scaling, "original_max_position_embeddings"),
        )
    raise UserError(f"manyheads has no rope_type {kind!r}; known: default, llama3")


CAUSAL = ("ForCausalLM", "LMHeadModel")
# model type -> the function that reads it, and the endings of the classes that it reads
# fmt: off
READERS: dict[str, tuple[Callable[[Config], Arch], tuple[str, ...]]] = {
    "gpt2": (_gpt2, CAUSAL), "llama": (_llama, CAUSAL), "mistral": (_llama, CAUSAL), "qwen2": (_llama, CAUSAL),
    "qwen3": (_llama, CAUSAL),
}
# fmt: on
