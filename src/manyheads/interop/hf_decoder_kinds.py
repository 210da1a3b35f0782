"""How transformers builds each type of decoder with rotary positions: what is fixed by the type, and what its
configuration says under which key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Setting = bool | tuple[str, bool]  # fixed by the type, or a key of the configuration and its default
Pattern = Literal["", "every", "qwen", "listed"] | int
ATTENTION_BIAS: Setting = ("attention_bias", False)
MLP_BIAS: Setting = ("mlp_bias", False)


@dataclass(frozen=True)
class Kind:
    """One model type.

    `pattern` says which layers have a window: none, `every` one, those that Qwen's keys say, those that are listed
    (`layer_types`) and no others, or all but every so many-th. `bare` layers have no rotary positions: those without a
    window, or those that SmolLM3's keys name. `norms` stand before attention and MLP, after, or around them. `reads` is
    where the MLP reads (`Residual.reads`). `share` and `theta` are what a configuration without these keys means."""

    family: str = "llama"
    norm: str = "rms"
    eps: tuple[str, float] = ("rms_norm_eps", 1e-6)
    act: tuple[str, str] = ("hidden_act", "silu")
    gated: bool = True
    qkv_bias: Setting = ATTENTION_BIAS
    out_bias: Setting = ATTENTION_BIAS
    mlp_bias: Setting = False
    head_bias: bool = False
    tied: bool = False
    heads_split: bool = False
    head_dim: int | None = None
    qk_norm: Setting = False
    qk_norm_over: Literal["head", "inner"] = "head"
    norms: Literal["before", "after", "around"] = "before"
    reads: Literal["stream", "layer", "normed"] = "stream"
    pattern: Pattern = ""
    bare: Literal["", "windowless", "smollm3"] = ""
    share: float | None = None
    theta: float = 10_000.0


GEMMA = Kind(
    "gemma", "rms_plus_one", act=("hidden_act", "gelu_pytorch_tanh"), tied=True, head_dim=256, qkv_bias=ATTENTION_BIAS
)
NEOX = Kind(
    "gpt_neox",
    "layer",
    eps=("layer_norm_eps", 1e-5),
    act=("hidden_act", "gelu"),
    gated=False,
    qkv_bias=("attention_bias", True),
    out_bias=("attention_bias", True),
    mlp_bias=True,
    heads_split=True,
    reads="layer",
    share=0.25,
)
COHERE = Kind("gpt_neox", "layer_no_bias", eps=("layer_norm_eps", 1e-5), tied=True, reads="normed")
GLM = Kind(eps=("rms_norm_eps", 1.5625e-7), qkv_bias=("attention_bias", True), out_bias=False, head_dim=128, share=0.5)
GRANITE = Kind(mlp_bias=MLP_BIAS)
OLMO2 = Kind(eps=("rms_norm_eps", 1e-5), qk_norm=True, qk_norm_over="inner", norms="after")
MISTRAL = Kind(qkv_bias=False, out_bias=False, pattern="every")
# fmt: off
KINDS: dict[str, Kind] = {
    "arcee": Kind(eps=("rms_norm_eps", 1e-5), act=("hidden_act", "relu2"), gated=False, mlp_bias=MLP_BIAS),
    "cohere": COHERE,
    "cohere2": Kind("gpt_neox", "layer_no_bias", eps=("layer_norm_eps", 1e-5), tied=True, reads="normed", pattern=4,
                    bare="windowless"),
    "cwm": Kind(eps=("rms_norm_eps", 1e-5), qkv_bias=False, out_bias=False, head_dim=128, pattern="listed", theta=1e6),
    "ernie4_5": Kind(eps=("rms_norm_eps", 1e-5), qkv_bias=("use_bias", False), out_bias=("use_bias", False),
                     mlp_bias=("use_bias", False), tied=True, theta=5e5),
    "exaone4": Kind(eps=("rms_norm_eps", 1e-5), qkv_bias=False, out_bias=False, qk_norm=True, norms="after", pattern=4,
                    bare="windowless"),
    "gemma": GEMMA,
    "gemma2": Kind("gemma", "rms_plus_one", act=("hidden_activation", "gelu_pytorch_tanh"), tied=True, head_dim=256,
                   norms="around", pattern=2),
    "gemma3_text": Kind("gemma", "rms_plus_one", act=("hidden_activation", "gelu_pytorch_tanh"), tied=True,
                        head_dim=256, qk_norm=True, norms="around", pattern=6),
    "glm": GLM,
    "glm4": Kind(eps=GLM.eps, qkv_bias=("attention_bias", True), out_bias=False, head_dim=128, share=0.5,
                 norms="around"),
    "gpt_neox": NEOX,
    "granite": GRANITE,
    "helium": Kind(eps=("rms_norm_eps", 1e-8), out_bias=False, head_dim=128, theta=1e5),
    "hyperclovax": Kind(mlp_bias=MLP_BIAS, norms="around"),
    "jais2": Kind(norm="layer", eps=("layer_norm_eps", 1e-5), act=("hidden_act", "relu2"), gated=False,
                  qkv_bias=("attention_bias", True), out_bias=("attention_bias", True), mlp_bias=("mlp_bias", True)),
    "llama": Kind(mlp_bias=MLP_BIAS),
    "ministral": MISTRAL,
    "mistral": MISTRAL,
    "nemotron": Kind("gpt_neox", "layer_plus_one", eps=("norm_eps", 1e-5), act=("hidden_act", "relu2"), gated=False,
                     mlp_bias=MLP_BIAS, share=0.5),
    "olmo": Kind(norm="layer_plain", eps=("", 1e-5)),
    "olmo2": OLMO2,
    "olmo3": Kind(eps=("rms_norm_eps", 1e-5), qk_norm=True, qk_norm_over="inner", norms="after", pattern=4, theta=5e5),
    "persimmon": Kind("gpt_neox", "layer", eps=("layer_norm_eps", 1e-5), act=("hidden_act", "relu2"), gated=False,
                      qkv_bias=True, out_bias=True, mlp_bias=True, heads_split=True, qk_norm=("qk_layernorm", True),
                      share=0.5),
    "phi": Kind("gpt_neox", "layer", eps=("layer_norm_eps", 1e-5), act=("hidden_act", "gelu_new"), gated=False,
                qkv_bias=True, out_bias=True, mlp_bias=True, head_bias=True, qk_norm=("qk_layernorm", False),
                reads="normed", share=0.5),
    "phi3": Kind(eps=("rms_norm_eps", 1e-5), qkv_bias=False, out_bias=False, pattern="every", share=1.0),
    "qwen2": Kind(qkv_bias=True, out_bias=False, pattern="qwen"),
    "qwen3": Kind(head_dim=128, qk_norm=True, pattern="qwen"),
    "seed_oss": Kind(qkv_bias=("attention_bias", True), out_bias=("attention_out_bias", False), mlp_bias=MLP_BIAS,
                     head_dim=128),
    "smollm3": Kind(mlp_bias=MLP_BIAS, tied=True, pattern="listed", bare="smollm3", theta=2e6),
    "stablelm": Kind("gpt_neox", "layer", eps=("layer_norm_eps", 1e-5), qkv_bias=("use_qkv_bias", False), out_bias=False,
                     heads_split=True, share=0.25),
    "starcoder2": Kind("gpt_neox", "layer", eps=("norm_epsilon", 1e-5), act=("hidden_act", "gelu_pytorch_tanh"),
                       gated=False, qkv_bias=("use_bias", True), out_bias=("use_bias", True),
                       mlp_bias=("use_bias", True), tied=True, pattern="every"),
    "vaultgemma": Kind("gemma", "rms_plus_one", act=("hidden_activation", "gelu_pytorch_tanh"), tied=True, head_dim=256,
                       pattern=2),
}
# fmt: on
