"""A model of ours as one of transformers' own, such as GPT-2, Llama, BERT or ViT, where one of these can express its
record. The configurations of encoders are in `hf_stock_encoders`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from torch import nn

from manyheads.models.resize import difference
from manyheads.models.twins.hf_types import MAPS
from manyheads.models.twins.tensors import back
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Rope, RopeLlama3, Softmax, Token

from .hf_config import transformers
from .hf_stock_encoders import ACTS, ENCODERS, Settings, sizes_of
from .read_hf import from_config


def stock_model(model: nn.Module) -> Any:
    """The model as an object of transformers' own class, with the same weights. The configuration is read back: a record
    that it does not say exactly is refused with the first difference."""
    arch = model.arch
    assert isinstance(arch, Arch)
    if (arch.family, arch.dialect) not in STOCK:
        families = ", ".join(dict.fromkeys(family for family, _ in STOCK))
        named = repr(arch.family) + (f" in dialect {arch.dialect!r}" if arch.dialect else "")
        raise UserError(
            f"transformers has no class for family {named}; those it has are of {families}. Leave stock out: the folder "
            "then loads after import manyheads.interop.hf"
        )
    faults = []
    for configure in STOCK[arch.family, arch.dialect]:
        name, settings = configure(arch)
        kind = getattr(transformers, name)
        fault, config = _said(arch, kind, settings)
        if not fault:
            return _twin(model, arch, kind, config)
        faults.append(
            f"{name} cannot express this model: {fault}. Leave stock out: the folder then loads after import "
            "manyheads.interop.hf"
        )
    raise UserError(faults[0])


def _said(arch: Arch, kind: Any, settings: dict[str, Any]) -> tuple[str, Any]:
    """Why a configuration of these settings does not say the record, or nothing; and the configuration."""
    try:
        config = kind.config_class(**settings)
        said = from_config(config.to_dict() | {"architectures": [kind.__name__]})
    except UserError as error:
        return str(error), None
    except Exception as error:  # transformers refuses heads that do not divide the width by errors of several classes
        return str(error).strip().splitlines()[-1].strip(), None
    return difference(arch, said, sides=("in this record", f"in every {kind.__name__} of its sizes")), config


def _twin(model: nn.Module, arch: Arch, kind: Any, config: Any) -> Any:
    """An object of transformers' class with the model's weights."""
    maps = MAPS[config.model_type]
    state = back(maps.entries(arch), model.state_dict())
    state |= {again: state[source] for again, source in maps.tied(arch).items()}
    twin = kind(config).to(next(model.parameters()).dtype)
    twin.load_state_dict(state, strict=True)
    return twin.eval()


def _gpt2(arch: Arch) -> Settings:
    sizes, _, mlp, norm = sizes_of(arch)
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
    sizes, attention, _, norm = sizes_of(arch)
    assert isinstance(arch.embed, Token)
    assert isinstance(attention.mix, Softmax)
    name = "Llama"
    if attention.qk_norm is not None:
        name = "Qwen3"
    elif attention.qkv_bias and not attention.out_bias:
        name = "Qwen2"
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
    if name != "Qwen2":
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


# (family, dialect) -> its class and configuration, or several, of which the first that says the record is taken
STOCK: dict[tuple[str, str], tuple[Callable[[Arch], Settings], ...]] = {
    ("gpt2", ""): (_gpt2,),
    ("gpt2", "stories"): (_gpt2,),
    ("llama", ""): (_llama,),
} | ENCODERS
