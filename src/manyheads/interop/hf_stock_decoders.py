"""Decoders of ours as configurations of transformers' own classes: `hf_decoder_kinds`, the other way round.

What a type cannot say is left out here; `hf_stock` reads each configuration back and takes the first that says the
whole record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from manyheads.spec.arch import Arch, layers
from manyheads.spec.errors import optional
from manyheads.spec.parts import Attention, Layer, Lm, Mlp, Norm, Rope, RopeLlama3, Softmax, Token

from .hf_decoder_kinds import KINDS, Kind
from .hf_stock_encoders import ACTS, Settings
from .read_hf_decoders import FULL, LOCAL, MULTIPLIED, SLIDING

names: Any = optional("transformers.models.auto.modeling_auto", "manyheads[hf]")
FIRST = ("llama", "qwen2", "qwen3", "mistral")  # of the types that say the same, those that most people know
GEMMAS = ("gemma2", "gemma3_text", "vaultgemma")
UNSET = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))


def _rotary(arch: Arch, kind: str) -> Settings:
    """The class and the configuration of a decoder with rotary positions."""
    of, every = KINDS[kind], [layer for stage in arch.stages for _ in range(stage.depth) for layer in layers(stage)]
    (attention, mlp), embed, head = every[0], arch.embed, arch.head
    op, hidden, mix = attention.op, mlp.op, list(map(_mix, every))
    assert isinstance(op, Attention)
    assert isinstance(hidden, Mlp)
    assert isinstance(embed, Token)
    assert isinstance(head, Lm)
    norm = attention.norm or attention.after or Norm()
    settings: dict[str, Any] = UNSET | {
        "hidden_size": arch.stages[0].width,
        "num_hidden_layers": len(every),
        "num_attention_heads": op.heads,
        "num_key_value_heads": op.kv_heads or op.heads,
        "head_dim": op.head_dim,
        "intermediate_size": hidden.mlp_dim,
        "vocab_size": embed.vocab,
        "max_position_embeddings": arch.stages[0].tokens,
        "tie_word_embeddings": head.tied,
        of.act[0]: ACTS[hidden.act],
        "rope_parameters": _rope_parameters(mix, kind, of),
    }
    biases = ((of.qkv_bias, op.qkv_bias), (of.out_bias, op.out_bias), (of.mlp_bias, hidden.bias))
    for setting, value in (*biases, (of.qk_norm, op.qk_norm is not None)):
        if isinstance(setting, tuple):
            settings[setting[0]] = value
    if of.eps[0]:
        settings[of.eps[0]] = norm.eps
    if of.pattern:
        settings |= _windows(mix, kind, of)
    if kind in ("gpt_neox", "stablelm"):
        settings["use_parallel_residual"] = mlp.reads != "stream"
    if kind in ("cohere", "cohere2"):
        settings["logit_scale"] = head.scale
    if kind in MULTIPLIED:
        scale = op.head_dim**-0.5 if mix[0].scale is None else mix[0].scale
        settings |= {"embedding_multiplier": embed.scale, "residual_multiplier": attention.times}
        settings |= {"attention_multiplier": scale, "use_post_norm": attention.after is not None}
        settings["logits_scaling"] = 1.0 / head.scale if kind == "granite" else head.scale
    if kind in GEMMAS:
        scale = mix[0].scale
        settings["query_pre_attn_scalar"] = op.head_dim if scale is None else round(scale**-2)
        settings |= {"attn_logit_softcapping": mix[0].cap, "final_logit_softcapping": head.cap}
    return names.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind], settings


def _mix(layer: Layer) -> Softmax:
    op = layer[0].op
    assert isinstance(op, Attention)
    assert isinstance(op.mix, Softmax)
    return op.mix


def _windows(mix: list[Softmax], kind: str, of: Kind) -> dict[str, Any]:
    sizes = [one.window for one in mix]
    settings: dict[str, Any] = {"sliding_window": next((size for size in sizes if size is not None), None)}
    if of.pattern != "every" or kind == "ministral":
        settings["layer_types"] = [FULL if size is None else SLIDING for size in sizes]
    if of.pattern == "qwen" or kind == "smollm3":
        settings["use_sliding_window"] = any(sizes)
    if kind == "smollm3":
        settings["no_rope_layers"] = [int(one.rope is not None) for one in mix]
    return settings


def _rope_parameters(mix: list[Softmax], kind: str, of: Kind) -> dict[str, Any]:
    ropes = {SLIDING if one.window else FULL: _rope(one.rope, of) for one in mix if one.rope is not None}
    usual = next(iter(ropes.values()), _rope(Rope(), of))
    return {part: ropes.get(part, usual) for part in (SLIDING, FULL)} if kind in LOCAL else usual


def _rope(rope: Rope | RopeLlama3, of: Kind) -> dict[str, Any]:
    share = {} if of.share is None else {"partial_rotary_factor": getattr(rope, "share", 1.0)}
    if isinstance(rope, Rope):
        stretched = {"rope_type": "default"} if rope.stretch == 1.0 else {"rope_type": "linear", "factor": rope.stretch}
        return stretched | {"rope_theta": rope.theta} | share
    numbers = asdict(rope)
    theirs = {"theta": "rope_theta", "factor": "factor", "low": "low_freq_factor", "high": "high_freq_factor"}
    theirs["trained"] = "original_max_position_embeddings"
    return {"rope_type": "llama3"} | {its: numbers[ours] for ours, its in theirs.items()} | share


def _opt(arch: Arch) -> Settings:
    (attention, mlp), embed = next(layers(arch.stages[0])), arch.embed
    op, hidden = attention.op, mlp.op
    assert isinstance(op, Attention)
    assert isinstance(hidden, Mlp)
    assert isinstance(embed, Token)
    return "OPTForCausalLM", UNSET | {
        "hidden_size": arch.stages[0].width,
        "num_hidden_layers": sum(stage.depth * len(stage.unit) for stage in arch.stages),
        "num_attention_heads": op.heads,
        "ffn_dim": hidden.mlp_dim,
        "vocab_size": embed.vocab,
        "max_position_embeddings": embed.places,
        "activation_function": ACTS[hidden.act],
        "do_layer_norm_before": attention.place == "pre",
        "enable_bias": op.qkv_bias,
        "layer_norm_elementwise_affine": attention.norm is not None and attention.norm.kind == "layer",
        "tie_word_embeddings": getattr(arch.head, "tied", True),
        **dict.fromkeys(("dropout", "attention_dropout", "layerdrop"), 0.0),
    }


def _of(family: str) -> tuple[Callable[[Arch], Settings], ...]:
    order = [*FIRST, *KINDS]
    kinds = sorted((kind for kind, of in KINDS.items() if of.family == family), key=order.index)
    return tuple(partial(_rotary, kind=kind) for kind in kinds)


DECODERS: dict[tuple[str, str], tuple[Callable[[Arch], Settings], ...]] = {
    ("llama", ""): _of("llama"),
    ("gemma", ""): _of("gemma"),
    ("gpt_neox", ""): _of("gpt_neox"),
    ("opt", ""): (_opt,),
}
