"""Decoders of transformers as records, each from the object of its `config.json`.

Those with rotary positions are read by one function from what `hf_decoder_kinds` says of their type; those with learned
positions are close to GPT-2, and each has a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from manyheads.arch.decoders import staged
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Attention, Layer, Lm, Mlp, Norm, Residual, Rope, RopeLlama3, Softmax, Token

from .hf_decoder_kinds import KINDS, Kind, Setting
from .hf_fields import Config, activation, flag, layer_count, real, split_head_dim, whole

SLIDING, FULL = "sliding_attention", "full_attention"
# keys that change what a type computes, and the only value that a record can say
# fmt: off
UNSAID: dict[str, tuple[Any, ...]] = {
    "use_bidirectional_attention": (None, False), "clip_qkv": (None,), "use_qk_norm": (None, False),
}
# fmt: on


def _rotary(config: Config) -> Arch:
    name = str(config["model_type"])
    kind = KINDS[name]
    for key, said in UNSAID.items():
        if config.get(key) not in said:
            raise UserError(
                f"manyheads does not build models with {key} {config[key]!r}; only {said[-1]!r} is supported"
            )
    if name == "stablelm" and config.get("qk_layernorm"):
        raise UserError(
            "manyheads does not build a norm of its own for each head; only qk_layernorm false is supported"
        )
    width, heads = whole(config, "hidden_size"), whole(config, "num_attention_heads")
    kv, dim = whole(config, "num_key_value_heads", default=heads), _head_dim(config, kind, width, heads)
    if name in ("helium", "stablelm") and heads * dim != width:
        raise UserError(
            f"transformers' {name} needs heads x head_dim = hidden_size, and {heads} x {dim} is not {width}"
        )
    depth, tokens = layer_count(config, "num_hidden_layers"), whole(config, "max_position_embeddings", default=2048)
    norm = Norm(kind.norm, real(config, *kind.eps))  # type: ignore[arg-type]
    mlp = Mlp(
        whole(config, "intermediate_size", default=4 * width if not kind.gated else None),
        _activation(config, kind),
        kind.gated,
        _setting(config, kind.mlp_bias),
    )
    windows = _windows(config, kind, depth)
    scale = _scale(config, name, dim)
    cap = _cap(config, "attn_logit_softcapping") if name in ("gemma2", "vaultgemma") else None
    every = []
    for i, window in enumerate(windows):
        rope = None if _bare(config, kind, i, window) else _rope(config, kind, SLIDING if window else FULL)
        attention = Attention(
            heads,
            dim,
            None if kv == heads else kv,
            _setting(config, kind.qkv_bias),
            _setting(config, kind.out_bias),
            norm if _setting(config, kind.qk_norm) else None,
            mix=Softmax(True, rope, window, scale, cap),
            qk_norm_over=kind.qk_norm_over,
        )
        every.append(_layer(config, kind, attention, mlp, norm))
    head = Lm(
        flag(config, "tie_word_embeddings", kind.tied),
        kind.head_bias,
        norm,
        _logit_scale(config, name),
        _logit_cap(config, name),
    )
    embed = Token(whole(config, "vocab_size"), scale=_embed_scale(config, kind, width))
    return Arch(kind.family, embed, staged(width, tokens, every), head)


def _layer(config: Config, kind: Kind, attention: Attention, mlp: Mlp, norm: Norm) -> Layer:
    before = None if kind.norms == "after" else norm
    after = None if kind.norms == "before" or config.get("use_post_norm") is False else norm
    reads = kind.reads
    if config["model_type"] == "gpt_neox" and not flag(config, "use_parallel_residual", True):
        reads = "stream"
    if config["model_type"] == "stablelm" and flag(config, "use_parallel_residual", False):
        reads = "normed"
    times = real(config, "residual_multiplier", 1.0) if config["model_type"] in MULTIPLIED else 1.0
    return (
        Residual(attention, before, after=after, times=times),
        Residual(mlp, None if reads == "normed" else before, after=after, times=times, reads=reads),
    )


MULTIPLIED = ("granite", "hyperclovax")


def _setting(config: Config, setting: Setting) -> bool:
    return setting if isinstance(setting, bool) else flag(config, *setting)


def _activation(config: Config, kind: Kind) -> Any:
    key, default = kind.act
    if kind.family == "gemma" and config.get(key) in (None, "gelu") and key == "hidden_act":
        return "gelu_tanh"  # what transformers takes the first configurations of Gemma to mean
    return activation(config, key, default)


def _head_dim(config: Config, kind: Kind, width: int, heads: int) -> int:
    if kind.heads_split:
        return split_head_dim(config, width, heads)
    if config.get("head_dim") is not None:
        return whole(config, "head_dim")
    return kind.head_dim or split_head_dim(config, width, heads)


# ------------------------------------------------------------------------------------------------- numbers that multiply
def _scale(config: Config, name: str, dim: int) -> float | None:
    """What multiplies scores, or None for the usual 1 / sqrt(head_dim)."""
    if name in ("gemma2", "gemma3_text", "vaultgemma"):
        number = real(config, "query_pre_attn_scalar", 256.0)
        return None if number == dim else number**-0.5
    if name == "hyperclovax" and config.get("attention_multiplier") is None:
        return None
    scale = real(config, "attention_multiplier", 1.0) if name in MULTIPLIED else dim**-0.5
    return None if scale == dim**-0.5 else scale


def _embed_scale(config: Config, kind: Kind, width: int) -> float:
    if kind.family == "gemma":
        return width**0.5
    return real(config, "embedding_multiplier", 1.0) if config["model_type"] in MULTIPLIED else 1.0


def _logit_scale(config: Config, name: str) -> float:
    match name:
        case "granite":
            return 1.0 / real(config, "logits_scaling", 1.0)
        case "hyperclovax":
            return real(config, "logits_scaling", 1.0)
        case "cohere" | "cohere2":
            return real(config, "logit_scale", 0.0625)
    return 1.0


def _logit_cap(config: Config, name: str) -> float | None:
    return _cap(config, "final_logit_softcapping") if name in ("gemma2", "gemma3_text", "vaultgemma") else None


def _cap(config: Config, key: str) -> float | None:
    usual = {"final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0}
    if (key in config and config[key] is None) or (key not in config and config["model_type"] == "gemma3_text"):
        return None
    return real(config, key, usual[key])


# ---------------------------------------------------------------------------------------------------- layer by layer
def _windows(config: Config, kind: Kind, depth: int) -> list[int | None]:
    """The window of each layer, None where a layer sees all tokens before."""
    size = None if config.get("sliding_window") in (None, False) else whole(config, "sliding_window")
    if not kind.pattern:
        return [None] * depth
    if kind.pattern in ("qwen", "listed") and "use_sliding_window" in config and not config["use_sliding_window"]:
        return [None] * depth
    if config["model_type"] in ("qwen2", "qwen3", "smollm3") and not config.get("use_sliding_window"):
        return [None] * depth
    if size is None and "sliding_window" not in config:
        size = {"cwm": 8192, "ministral": 4096, "mistral": 4096}.get(config["model_type"]) or (
            4096 if isinstance(kind.pattern, int) else None
        )
    types = _layer_types(config, kind, depth)
    return [size if of == SLIDING else None for of in types]


def _layer_types(config: Config, kind: Kind, depth: int) -> list[str]:
    types, pattern = config.get("layer_types"), kind.pattern
    if pattern == "every" and config["model_type"] != "ministral":
        return [SLIDING] * depth
    if types is not None:
        if not isinstance(types, list) or len(types) < depth or not set(types) <= {SLIDING, FULL}:
            raise UserError(
                f"layer_types is {str(types)[:80]}; write {SLIDING!r} or {FULL!r} for each of {depth} layers"
            )
        return types[:depth]
    match pattern:
        case "every":
            return [SLIDING] * depth
        case "qwen":
            first = config.get("max_window_layers", 28)
            return [
                SLIDING if i >= whole({"max_window_layers": first}, "max_window_layers") else FULL for i in range(depth)
            ]
        case "listed" if config["model_type"] == "cwm":
            return [SLIDING if i % 4 else FULL for i in range(depth)]
        case "listed":
            return [SLIDING if _bare(config, kind, i, None) else FULL for i in range(depth)]
    every = whole(config, "sliding_window_pattern", "_sliding_window_pattern", default=int(pattern))
    return [SLIDING if (i + 1) % every else FULL for i in range(depth)]


def _bare(config: Config, kind: Kind, layer: int, window: int | None) -> bool:
    """Whether a layer has no rotary positions."""
    match kind.bare:
        case "windowless":  # EXAONE 4 without windows at all has them everywhere
            everywhere = config["model_type"] == "exaone4" and config.get("sliding_window", 4096) is None
            return window is None and not everywhere
        case "smollm3":
            listed = config.get("no_rope_layers")
            if listed is None:
                return (layer + 1) % whole(config, "no_rope_layer_interval", default=4) == 0
            if not isinstance(listed, list) or len(listed) <= layer:
                raise UserError(f"no_rope_layers is {str(listed)[:80]}; write 1 or 0 for each layer")
            return not listed[layer]
    return False


def _rope(config: Config, kind: Kind, of: str) -> Rope | RopeLlama3:
    """The rotary positions of a layer; of some types, those with a window have their own."""
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(scaling, Mapping):
        raise UserError(f"rope_parameters is {scaling!r}; write a mapping with rope_type and rope_theta")
    theta, share = _theta(config, kind, of), 1.0
    if isinstance(scaling.get(of), Mapping):
        scaling = scaling[of]
    elif config["model_type"] in LOCAL and of == SLIDING and "rope_theta" not in scaling:
        scaling = {}
    theta = real(scaling, "rope_theta", theta)
    stated = scaling.get("partial_rotary_factor", config.get("partial_rotary_factor", config.get("rotary_pct")))
    if kind.share is not None:
        share = real({"partial_rotary_factor": kind.share if stated is None else stated}, "partial_rotary_factor", 1.0)
    elif stated not in (None, 1, 1.0):
        raise UserError(
            f"manyheads does not build {config['model_type']} with partial_rotary_factor {stated!r}; only 1.0"
        )
    name = scaling.get("rope_type", scaling.get("type", "default"))
    match name:
        case "default" | None:
            return Rope(theta, share)
        case "linear":
            return Rope(theta, share, real(scaling, "factor", 1.0))
        case "llama3" if share == 1.0:
            return RopeLlama3(
                theta,
                real(scaling, "factor", 8.0),
                real(scaling, "low_freq_factor", 1.0),
                real(scaling, "high_freq_factor", 4.0),
                whole(scaling, "original_max_position_embeddings"),
            )
    raise UserError(f"manyheads has no rope_type {name!r}; known: default, linear, llama3")


LOCAL = ("gemma3_text", "olmo3")  # types whose layers with a window are not stretched


def _theta(config: Config, kind: Kind, of: str) -> float:
    """The base where `rope_parameters` has none."""
    if config["model_type"] == "gemma3_text":
        key, usual = ("rope_local_base_freq", 10_000.0) if of == SLIDING else ("rope_theta", 1_000_000.0)
        return real(config, key, usual)
    return real(config, "rope_theta", real(config, "rotary_emb_base", kind.theta))


# -------------------------------------------------------------------------------------------------- learned positions
def _learned(
    config: Config,
    width: int,
    every: Sequence[Layer],
    *,
    tokens: int,
    first: int = 0,
    scale: float = 1.0,
    tied: bool = True,
) -> Arch:
    """A decoder like OPT: learned positions, a norm before the head unless norms stand after attention and MLP."""
    branch = every[0][0]
    head = Lm(flag(config, "tie_word_embeddings", tied), norm=branch.norm if branch.place == "pre" else None)
    embed = Token(whole(config, "vocab_size"), tokens + first, first=first, scale=scale)
    return Arch("opt", embed, staged(width, tokens, every), head)


def _opt(config: Config) -> Arch:
    width, heads = whole(config, "hidden_size"), whole(config, "num_attention_heads")
    inner = whole(config, "word_embed_proj_dim", default=width)
    if inner != width:
        raise UserError(f"manyheads has no projection from vectors of {inner} to a width of {width}")
    if config.get("_remove_final_layer_norm"):
        raise UserError("manyheads does not build OPT with _remove_final_layer_norm")
    bias, place = flag(config, "enable_bias", True), "pre" if flag(config, "do_layer_norm_before", True) else "post"
    norm = Norm("layer" if flag(config, "layer_norm_elementwise_affine", True) else "layer_plain", 1e-5)
    dim = split_head_dim(config, width, heads)
    attention = Attention(heads, dim, qkv_bias=bias, out_bias=bias, mix=Softmax(True))
    mlp = Mlp(whole(config, "ffn_dim", default=4 * width), activation(config, "activation_function", "relu"), bias=bias)
    layer = Residual(attention, norm, place), Residual(mlp, norm, place)  # type: ignore[arg-type]
    tokens = whole(config, "max_position_embeddings", default=2048)
    return _learned(config, width, [layer] * layer_count(config, "num_hidden_layers"), tokens=tokens, first=2)


def _biogpt(config: Config) -> Arch:
    width, heads = whole(config, "hidden_size"), whole(config, "num_attention_heads")
    norm = Norm(eps=1e-5)
    mlp = Mlp(whole(config, "intermediate_size"), activation(config, "hidden_act", "gelu"))
    attention = Attention(heads, split_head_dim(config, width, heads), mix=Softmax(True))
    layer = Residual(attention, norm), Residual(mlp, norm)
    tokens = whole(config, "max_position_embeddings", default=1024)
    scale = width**0.5 if flag(config, "scale_embedding", True) else 1.0
    every: list[Layer] = [layer] * layer_count(config, "num_hidden_layers")
    return _learned(config, width, every, tokens=tokens, first=2, scale=scale)


def _gpt_neo(config: Config) -> Arch:
    width, heads = whole(config, "hidden_size"), whole(config, "num_heads", "num_attention_heads")
    depth, window = layer_count(config, "num_layers", "num_hidden_layers"), whole(config, "window_size", default=256)
    norm, act = (
        Norm(eps=real(config, "layer_norm_epsilon", 1e-5)),
        activation(config, "activation_function", "gelu_new"),
    )
    kinds = config.get("attention_layers")
    if kinds is None:
        kinds = [("global", "local")[i % 2] for i in range(depth)]
    if not isinstance(kinds, list) or len(kinds) < depth or not set(kinds) <= {"global", "local"}:
        raise UserError(f"attention_layers is {str(kinds)[:80]}; write 'global' or 'local' for each of {depth} layers")
    every: list[Layer] = []
    for of in kinds[:depth]:
        mix = Softmax(True, window=window if of == "local" else None, scale=1.0)
        attention = Attention(heads, split_head_dim(config, width, heads), qkv_bias=False, mix=mix)
        every.append(
            (Residual(attention, norm), Residual(Mlp(whole(config, "intermediate_size", default=4 * width), act), norm))
        )
    return _learned(config, width, every, tokens=whole(config, "max_position_embeddings", default=2048))


def _gpt_bigcode(config: Config) -> Arch:
    width, heads = whole(config, "n_embd", "hidden_size"), whole(config, "n_head", "num_attention_heads")
    norm = Norm(eps=real(config, "layer_norm_epsilon", 1e-5))
    mix = Softmax(True, scale=None if flag(config, "scale_attn_weights", True) else 1.0)
    kv = 1 if flag(config, "multi_query", True) and heads > 1 else None
    if kv is None and heads > 1:
        raise UserError("manyheads reads gpt_bigcode with multi_query true only")
    attention = Attention(heads, split_head_dim(config, width, heads), kv, mix=mix)
    act = activation(config, "activation_function", "gelu_pytorch_tanh")
    layer = Residual(attention, norm), Residual(Mlp(whole(config, "n_inner", default=4 * width), act), norm)
    tokens = whole(config, "n_positions", "max_position_embeddings", default=1024)
    return _learned(config, width, [layer] * layer_count(config, "n_layer", "num_hidden_layers"), tokens=tokens)


def _gptj(config: Config) -> Arch:
    width, heads = whole(config, "n_embd", "hidden_size"), whole(config, "n_head", "num_attention_heads")
    norm, dim = Norm(eps=real(config, "layer_norm_epsilon", 1e-5)), split_head_dim(config, width, heads)
    turns = dim if config.get("rotary_dim", 64) is None else whole(config, "rotary_dim", default=64)
    if turns > dim or turns % 2:
        raise UserError(f"rotary_dim is {turns}; write an even number up to the head_dim {dim}")
    mix = Softmax(True, Rope(share=turns / dim))
    act = activation(config, "activation_function", "gelu_new")
    mlp = Mlp(whole(config, "n_inner", default=4 * width), act)
    layer = Residual(Attention(heads, dim, None, False, False, mix=mix), norm), Residual(mlp, None, reads="normed")
    tokens = whole(config, "n_positions", "max_position_embeddings", default=2048)
    stages = staged(width, tokens, [layer] * layer_count(config, "n_layer", "num_hidden_layers"))
    head = Lm(flag(config, "tie_word_embeddings", False), True, norm)
    return Arch("gpt_neox", Token(whole(config, "vocab_size", default=50400)), stages, head)


CAUSAL = ("ForCausalLM", "LMHeadModel")
# model type -> the function that reads it, and the endings of the classes that it reads
READERS: dict[str, tuple[Callable[[Config], Arch], tuple[str, ...]]] = dict.fromkeys(KINDS, (_rotary, CAUSAL)) | {
    "biogpt": (_biogpt, CAUSAL),
    "gpt_bigcode": (_gpt_bigcode, CAUSAL),
    "gpt_neo": (_gpt_neo, CAUSAL),
    "gptj": (_gptj, CAUSAL),
    "opt": (_opt, CAUSAL),
}
