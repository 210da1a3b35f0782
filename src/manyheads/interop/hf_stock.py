"""A model of ours as transformers' own GPT-2, Llama, Qwen, BERT or ViT, where one of these can express its record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from torch import nn

from manyheads.models.resize import difference
from manyheads.models.twins import hf_maps
from manyheads.models.twins.tensors import TwinTensor, back
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Act, Attention, Classify, Masked, Mlp, Norm, Patch, Rope, RopeLlama3, Softmax, Token

from .hf_config import transformers
from .read_hf import from_config

ACTS: dict[Act, str] = {
    "gelu": "gelu",
    "gelu_tanh": "gelu_new",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
    "silu": "silu",
    "tanh": "tanh",
}
Settings = tuple[str, dict[str, Any]]  # the class's name, and its configuration
Map = Callable[[Arch], list[TwinTensor]]


def stock_model(model: nn.Module) -> Any:
    """The model as an object of transformers' own class, with the same weights. The configuration is read back: a record
    that it does not say exactly is refused with the first difference."""
    arch = model.arch
    assert isinstance(arch, Arch)
    if arch.family not in STOCK:
        raise UserError(
            f"transformers has no class for family {arch.family!r}; those it has are of {', '.join(STOCK)}. Leave stock "
            "out: the folder then loads after import manyheads.interop.hf"
        )
    configure, entries, tied = STOCK[arch.family]
    name, settings = configure(arch)
    kind = getattr(transformers, name)
    config = kind.config_class(**settings)
    said = from_config(config.to_dict() | {"architectures": [name]})
    fault = difference(arch, said, sides=("in this record", f"in every {name} of its sizes"))
    if fault:
        raise UserError(
            f"{name} cannot express this model: {fault}. Leave stock out: the folder then loads after import "
            "manyheads.interop.hf"
        )
    state = back(entries(arch), model.state_dict())
    state |= {again: state[source] for again, source in tied(arch).items()}
    twin = kind(config).to(next(model.parameters()).dtype)
    twin.load_state_dict(state, strict=True)
    return twin.eval()


def _sizes(arch: Arch) -> tuple[dict[str, Any], Attention, Mlp, Norm]:
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


def _gpt2(arch: Arch) -> Settings:
    sizes, _, mlp, norm = _sizes(arch)
    assert isinstance(arch.embed, Token)
    return "GPT2LMHeadModel", {
        "n_embd": sizes["hidden_size"],
        "n_layer": sizes["num_hidden_layers"],
        "n_head": sizes["num_attention_heads"],
        "n_inner": mlp.mlp_dim,
        "vocab_size": arch.embed.vocab,
        "n_positions": arch.embed.positions,
        "activation_function": ACTS[mlp.act],
        "layer_norm_epsilon": norm.eps,
        "tie_word_embeddings": getattr(arch.head, "tied", True),
        **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0),
        **dict.fromkeys(("bos_token_id", "eos_token_id")),
    }


def _llama(arch: Arch) -> Settings:
    sizes, attention, _, norm = _sizes(arch)
    assert isinstance(arch.embed, Token)
    assert isinstance(attention.mix, Softmax)
    name = "Llama"
    if attention.qk_norm is not None:
        name = "Qwen3"
    elif attention.qkv_bias and not attention.out_bias:
        name = "Qwen2"
    elif arch.stages[0].width % attention.heads and not attention.qkv_bias:
        name = (
            "Mistral"  # the same model; its configuration does not ask that the heads divide the width, as Llama's does
        )
    settings = sizes | {
        "num_key_value_heads": attention.kv_heads or attention.heads,
        "head_dim": attention.head_dim,
        "vocab_size": arch.embed.vocab,
        "max_position_embeddings": arch.stages[0].tokens,
        "rms_norm_eps": norm.eps,
        "tie_word_embeddings": getattr(arch.head, "tied", True),
        "rope_parameters": _rope(attention.mix.rope),
        **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id")),
    }
    if name == "Mistral":
        settings["sliding_window"] = None
    elif name != "Qwen2":
        settings["attention_bias"] = attention.qkv_bias
    return f"{name}ForCausalLM", settings


def _rope(rope: Rope | RopeLlama3 | None) -> dict[str, Any]:
    assert rope is not None, "a Llama has rotary positions"
    if isinstance(rope, Rope):
        return {"rope_type": "default", "rope_theta": rope.theta}
    numbers = asdict(rope)
    names = {"theta": "rope_theta", "factor": "factor", "low": "low_freq_factor", "high": "high_freq_factor"}
    names["trained"] = "original_max_position_embeddings"
    return {"rope_type": "llama3"} | {theirs: numbers[ours] for ours, theirs in names.items()}


def _encoder(arch: Arch) -> dict[str, Any]:
    sizes, _, mlp, norm = _sizes(arch)
    rates = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)
    settings = sizes | rates | {"hidden_act": ACTS[mlp.act], "layer_norm_eps": norm.eps}
    return settings | ({"num_labels": arch.head.classes} if isinstance(arch.head, Classify) else {})


def _bert(arch: Arch) -> Settings:
    assert isinstance(arch.embed, Token)
    name = "BertForMaskedLM" if isinstance(arch.head, Masked) else "BertForSequenceClassification"
    return name, _encoder(arch) | {
        "vocab_size": arch.embed.vocab,
        "max_position_embeddings": arch.embed.positions,
        "type_vocab_size": arch.embed.types,
    }


def _vit(arch: Arch) -> Settings:
    assert isinstance(arch.embed, Patch)
    _, attention, _, _ = _sizes(arch)
    return "ViTForImageClassification", _encoder(arch) | {
        "image_size": arch.embed.image,
        "patch_size": arch.embed.patch,
        "num_channels": arch.embed.channels,
        "qkv_bias": attention.qkv_bias,
        "head_dim": attention.head_dim,
    }


def _untied(arch: Arch) -> Mapping[str, str]:
    return {}


# family -> its class and configuration, the map of its tensors, the names there that show a tensor once more
STOCK: dict[str, tuple[Callable[[Arch], Settings], Map, Callable[[Arch], Mapping[str, str]]]] = {
    "gpt2": (_gpt2, hf_maps.gpt2, hf_maps.tied_gpt2),
    "llama": (_llama, hf_maps.llama, hf_maps.tied_llama),
    "bert": (_bert, hf_maps.bert, hf_maps.tied_bert),
    "vit": (_vit, hf_maps.vit, _untied),
}
