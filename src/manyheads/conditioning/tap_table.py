"""The table of taps: for each attention class, the place at which its concatenated heads can be read.

A class is known by its qualified name, so no library is imported to recognise it, and two classes called `Attention`
are told apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["softmax", "cross-covariance", "outlook", "window", "channel", "nystrom", "pixel", "class"]
Values = tuple[str, Literal["all", "first", "last"]]


@dataclass(frozen=True)
class Tap:
    """Where one attention class shows its heads. Names are dotted attributes below the attention module.

    `at`: the module whose input is the concatenated heads, tokens x inner; of several names, the first that exists. An
    empty tuple means that the attention never calls its output projection; its heads are then computed again from its
    own arguments.
    `heads`: the number of heads, or the attribute that holds it.
    `values`: the projection whose output holds the values (what the attention mixes), and which columns they are: all,
    the `first` inner columns, or the `last` half of what follows inner columns of queries."""

    at: str | tuple[str, ...]
    heads: int | str
    kind: Kind = "softmax"
    values: Values | None = None


_QKV: Values = ("qkv", "last")
_TIMM = Tap("proj", "num_heads", values=_QKV)
_TIMM_NORM = replace(_TIMM, at=("norm", "proj"))  # a norm (or an identity) and a gate stand before the projection
_LLAMA = Tap("o_proj", "config.num_attention_heads", values=("v_proj", "all"))
_BERT = Tap("output.dense", "self.num_attention_heads", values=("self.value", "all"))
_OURS = Tap("out", "spec.heads", values=_QKV)
_HF_VIT = replace(_LLAMA, heads="num_attention_heads")

_OTHERS: dict[str, Tap] = {
    "manyheads.nn.attention.SoftmaxAttention": _OURS,
    "manyheads.nn.attention_variants.CrossCovarianceAttention": replace(_OURS, kind="cross-covariance"),
    "manyheads.nn.attention_variants.OutlookAttention": replace(_OURS, kind="outlook", values=("v", "all")),
    "manyheads.nn.attention_variants.WindowAttention": replace(_OURS, kind="window"),
    "manyheads.nn.attention_variants.ChannelAttention": replace(_OURS, kind="channel", values=("qkv", "first")),
    "manyheads.nn.nystrom.NystromAttention": replace(_OURS, kind="nystrom"),
    "manyheads.nn.attention_variants.ClassAttentionBlock": replace(_OURS, kind="class", values=None),
    "timm.layers.attention.Attention": _TIMM_NORM,
    "timm.layers.attention.AttentionRope": _TIMM_NORM,
    "timm.models.vision_transformer.Attention": _TIMM_NORM,  # where timm kept it before 1.0.17
    "timm.models.vision_transformer_relpos.RelPosAttention": _TIMM,
    "timm.models.eva.EvaAttention": _TIMM_NORM,
    "timm.models.beit.Attention": _TIMM,
    "timm.models.xcit.XCA": replace(_TIMM, kind="cross-covariance"),
    "timm.models.cait.TalkingHeadAttn": _TIMM,
    "timm.models.cait.ClassAttn": replace(_TIMM, kind="class", values=None),
    "timm.models.tnt.Attention": replace(_TIMM, values=("v", "all")),
    "timm.models.volo.Attention": _TIMM,
    "timm.models.volo.OutlookAttention": replace(_TIMM, kind="outlook", values=("v", "all")),
    "timm.models.volo.ClassAttention": replace(_TIMM, kind="class", values=None),
    "timm.models.davit.WindowAttention": replace(_TIMM, kind="window"),
    "timm.models.davit.ChannelAttention": replace(_TIMM, kind="channel", values=("qkv", "first")),
    "timm.models.davit.ChannelAttentionV2": Tap("proj", "groups", "channel", _QKV),
    "timm.models.swin_transformer.WindowAttention": replace(_TIMM, kind="window"),
    "x_transformers.x_transformers.Attention": Tap("to_out", "heads", values=("to_v", "all")),
    "torch.nn.modules.activation.MultiheadAttention": Tap((), "num_heads"),
}

# transformers, by "module.CLASS": modeling_module.CLASS + Attention in models/module. Copies of one code stand together.
_DENSE = Tap(
    "dense", "num_heads"
)  # queries, keys and values of a head stand side by side: its values are no block of columns
_OUT = Tap("out_proj", "num_heads", values=("v_proj", "all"))
_FUSED = Tap("out_proj", "num_attention_heads")
# fmt: off
_TRANSFORMERS: dict[str, Tap] = {
    **dict.fromkeys((
        "cohere.Cohere", "exaone4.Exaone4", "gemma.Gemma", "gemma2.Gemma2", "gemma3.Gemma3", "glm.Glm",
        "granite.Granite", "helium.Helium", "llama.Llama", "mistral.Mistral", "mixtral.Mixtral", "nomic_bert.NomicBert",
        "olmo.Olmo", "olmo2.Olmo2", "qwen2.Qwen2", "qwen2_moe.Qwen2Moe", "qwen3.Qwen3", "seed_oss.SeedOss",
        "smollm3.SmolLM3", "stablelm.StableLm", "starcoder2.Starcoder2",
    ), _LLAMA),
    "phi.Phi": replace(_LLAMA, at="dense"), "phi3.Phi3": replace(_LLAMA, values=("qkv_proj", "last")),
    "modernbert.ModernBert": Tap("Wo", "config.num_attention_heads", values=("Wqkv", "last")),
    **dict.fromkeys((
        "bert.Bert", "camembert.Camembert", "electra.Electra", "ernie.Ernie", "esm.Esm", "roberta.Roberta",
        "roformer.RoFormer", "xlm_roberta.XLMRoberta",
    ), _BERT),
    "data2vec_text.Data2VecText": _BERT,
    "longformer.Longformer": replace(_BERT, heads="self.num_heads"),
    "deberta_v2.DebertaV2": replace(_BERT, values=("self.value_proj", "all")),
    "albert.Albert": Tap("dense", "num_attention_heads", values=("value", "all")),
    "mpnet.MPNetSelf": Tap("o", "num_attention_heads", values=("v", "all")),
    "distilbert.DistilBertSelf": Tap("out_lin", "n_heads", values=("v_lin", "all")),
    "nystromformer.Nystromformer": replace(_BERT, kind="nystrom"),
    **dict.fromkeys((
        "bart.Bart", "biogpt.BioGpt", "clip.CLIP", "gpt_neo.GPTNeoSelf", "opt.OPT", "siglip.Siglip", "siglip2.Siglip2",
        "whisper.Whisper", "xglm.XGLM",
    ), _OUT),
    "gptj.GPTJ": replace(_OUT, heads="num_attention_heads"),
    "codegen.CodeGen": _FUSED, "mpt.Mpt": replace(_FUSED, heads="n_heads"),
    "gpt2.GPT2": Tap("c_proj", "num_heads", values=("c_attn", "last")),
    "gpt_bigcode.GPTBigCode": Tap("c_proj", "num_heads"),
    "gpt_neox.GPTNeoX": replace(_DENSE, heads="config.num_attention_heads"),
    **dict.fromkeys(("bloom.Bloom", "falcon.Falcon", "persimmon.Persimmon"), _DENSE),
    "t5.T5": Tap("o", "n_heads", values=("v", "all")),
    **dict.fromkeys((
        "beit.Beit", "deit.DeiT", "dinov2.Dinov2", "dinov2_with_registers.Dinov2WithRegisters", "ijepa.IJepa",
        "segformer.Segformer", "vit.ViT", "vit_mae.ViTMAE",
    ), _HF_VIT),
    "yolos.Yolos": Tap("output.dense", "attention.num_attention_heads", values=("attention.value", "all")),
    "swin.Swin": replace(_HF_VIT, kind="window"),
}
# fmt: on


def _qualified(key: str) -> str:
    module, _, name = key.partition(".")
    folder = {"data2vec_text": "data2vec"}.get(module, module)
    return f"transformers.models.{folder}.modeling_{module}.{name}Attention"


TAPS: Mapping[str, Tap] = _OTHERS | {_qualified(key): tap for key, tap in _TRANSFORMERS.items()}
