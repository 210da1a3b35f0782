"""transformers' decoders, tensor by tensor. They differ in what they call their parts (`Names`), in which parts they
keep in one matrix, and in the order of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from manyheads.spec.arch import Arch, layers
from manyheads.spec.mixing import turned
from manyheads.spec.parts import Attention, Lm, Mlp, Norm, Residual, Softmax, Token

from .tensors import Conversion, Copy, Reordered, Stack, TwinTensor


@dataclass(frozen=True)
class Names:
    """What a decoder of transformers calls its parts: names inside `model`, inside a layer, and outside of both.

    Of `qkv` and `first` (the MLP's first matrix; gate and value of a gated one) there is one name where they are one
    matrix. `by_head`: the rows of that matrix are queries, keys and values of the first head, then of the next.
    `pairs`: rotary positions turn neighbouring channels, and not those that are half a head apart. `after`
    are the norms of what attention and MLP add."""

    model: str = "model"
    vocab: str = "embed_tokens"
    positions: str = "embed_positions"
    layers: str = "layers"
    qkv: tuple[str, ...] = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    out: str = "self_attn.o_proj"
    qk_norms: tuple[str, str] = ("self_attn.q_norm", "self_attn.k_norm")
    norms: tuple[str, str] = ("input_layernorm", "post_attention_layernorm")
    after: tuple[str, str] = ("", "")
    first: tuple[str, ...] = ("mlp.gate_proj", "mlp.up_proj")
    second: str = "mlp.down_proj"
    final: str = "norm"
    head: str = "lm_head"
    by_head: bool = False
    pairs: bool = False


LLAMA = Names()
GEMMA = replace(
    LLAMA,
    norms=("input_layernorm", "pre_feedforward_layernorm"),
    after=("post_attention_layernorm", "post_feedforward_layernorm"),
)
NEOX = Names(
    model="gpt_neox",
    vocab="embed_in",
    qkv=("attention.query_key_value",),
    out="attention.dense",
    first=("mlp.dense_h_to_4h",),
    second="mlp.dense_4h_to_h",
    final="final_layer_norm",
    by_head=True,
)
OPT = Names(
    model="model.decoder",
    out="self_attn.out_proj",
    norms=("self_attn_layer_norm", "final_layer_norm"),
    first=("fc1",),
    second="fc2",
    final="final_layer_norm",
)
_FUSED = replace(LLAMA, qkv=("self_attn.qkv_proj",), first=("mlp.gate_up_proj",))
_POST = replace(LLAMA, norms=("", ""), after=("post_attention_layernorm", "post_feedforward_layernorm"))
_GLM = replace(LLAMA, first=("mlp.gate_up_proj",), pairs=True)
_PLAIN = replace(LLAMA, first=("mlp.up_proj",))
_COHERE = replace(LLAMA, norms=("input_layernorm", ""), pairs=True)
_GPT = Names(
    model="transformer",
    vocab="wte",
    positions="wpe",
    layers="h",
    qkv=("attn.c_attn",),
    out="attn.c_proj",
    norms=("ln_1", "ln_2"),
    first=("mlp.c_fc",),
    second="mlp.c_proj",
    final="ln_f",
)
NAMES: dict[str, Names] = {
    "arcee": _PLAIN,
    "biogpt": replace(OPT, model="biogpt", final="layer_norm", head="output_projection"),
    "cohere": _COHERE,
    "cohere2": _COHERE,
    "cwm": LLAMA,
    "ernie4_5": replace(LLAMA, pairs=True),
    "exaone4": _POST,
    "gemma": LLAMA,
    "gemma2": GEMMA,
    "gemma3_text": GEMMA,
    "glm": _GLM,
    "glm4": replace(_GLM, after=("post_self_attn_layernorm", "post_mlp_layernorm")),
    "gpt_bigcode": _GPT,
    "gpt_neo": replace(_GPT, qkv=tuple(f"attn.attention.{part}_proj" for part in "qkv"), out="attn.attention.out_proj"),
    "gpt_neox": NEOX,
    "gptj": replace(
        _GPT,
        qkv=tuple(f"attn.{part}_proj" for part in "qkv"),
        out="attn.out_proj",
        norms=("ln_1", ""),
        first=("mlp.fc_in",),
        second="mlp.fc_out",
        pairs=True,
    ),
    "granite": LLAMA,
    "helium": replace(LLAMA, pairs=True),
    "hyperclovax": replace(LLAMA, after=("post_norm1", "post_norm2")),
    "jais2": _PLAIN,
    "llama": LLAMA,
    "ministral": LLAMA,
    "mistral": LLAMA,
    "nemotron": _PLAIN,
    "olmo": LLAMA,
    "olmo2": _POST,
    "olmo3": _POST,
    "opt": OPT,
    "persimmon": replace(
        LLAMA,
        qkv=("self_attn.query_key_value",),
        out="self_attn.dense",
        qk_norms=("self_attn.q_layernorm", "self_attn.k_layernorm"),
        first=("mlp.dense_h_to_4h",),
        second="mlp.dense_4h_to_h",
        final="final_layernorm",
        by_head=True,
    ),
    "phi": replace(
        LLAMA,
        out="self_attn.dense",
        qk_norms=("self_attn.q_layernorm", "self_attn.k_layernorm"),
        norms=("input_layernorm", ""),
        first=("mlp.fc1",),
        second="mlp.fc2",
        final="final_layernorm",
    ),
    "phi3": _FUSED,
    "qwen2": LLAMA,
    "qwen3": LLAMA,
    "seed_oss": LLAMA,
    "smollm3": LLAMA,
    "stablelm": LLAMA,
    "starcoder2": replace(LLAMA, first=("mlp.c_fc",), second="mlp.c_proj"),
    "vaultgemma": replace(LLAMA, norms=("input_layernorm", "pre_feedforward_layernorm")),
}


def gemma(arch: Arch) -> list[TwinTensor]:
    """The map between our Gemma and transformers' GemmaForCausalLM or, with norms of what is added, Gemma2ForCausalLM
    and Gemma3ForCausalLM."""
    first = next(layers(arch.stages[0]))[0]
    return decoder(arch, LLAMA if first.after is None else GEMMA)


def gpt_neox(arch: Arch) -> list[TwinTensor]:
    """The map between our GPT-NeoX and transformers' GPTNeoXForCausalLM."""
    return decoder(arch, NEOX)


def opt(arch: Arch) -> list[TwinTensor]:
    """The map between our OPT and transformers' OPTForCausalLM."""
    return decoder(arch, OPT)


def decoder(arch: Arch, names: Names) -> list[TwinTensor]:
    """The map between a decoder of ours and one of transformers with these names."""
    head, embed = arch.head, arch.embed
    assert isinstance(head, Lm)
    assert isinstance(embed, Token)
    model = f"{names.model}." if names.model else ""
    tensors = [TwinTensor("embed.vocab.weight", (f"{model}{names.vocab}.weight",))]
    if embed.positions:
        tensors.append(TwinTensor("embed.positions.weight", (f"{model}{names.positions}.weight",)))
    every = [layer for stage in arch.stages for _ in range(stage.depth) for layer in layers(stage)]
    for i, (attention, mlp) in enumerate(every):
        ours, theirs = f"blocks.{i}", f"{model}{names.layers}.{i}."
        tensors += _attention(f"{ours}.attention.op", theirs, attention.op, names)
        tensors += _mlp(f"{ours}.mlp.op", theirs, mlp.op, names)
        for at, branch in enumerate((attention, mlp)):
            tensors += _norms(f"{ours}.{('attention', 'mlp')[at]}", theirs, branch, names, at)
    tensors += norm("head.norm", f"{model}{names.final}", head.norm)
    if not head.tied:
        tensors.append(TwinTensor("head.weight", (f"{names.head}.weight",)))
    return [*tensors, TwinTensor("head.bias", (f"{names.head}.bias",))] if head.bias else tensors


def tied(arch: Arch, names: Names) -> Mapping[str, str]:
    """The name there that shows the vocabulary once more, if the head is tied."""
    assert isinstance(arch.head, Lm)
    model = f"{names.model}." if names.model else ""
    return {f"{names.head}.weight": f"{model}{names.vocab}.weight"} if arch.head.tied else {}


def norm(ours: str, theirs: str, record: Norm | None) -> list[TwinTensor]:
    """A norm's tensors: as many as its kind has."""
    if record is None or record.kind == "layer_plain":
        return []
    both = record.kind in ("layer", "layer_plus_one")
    return [TwinTensor(f"{ours}.{name}", (f"{theirs}.{name}",)) for name in ("weight", "bias")[: 1 + both]]


def _norms(ours: str, theirs: str, branch: Residual, names: Names, at: int) -> list[TwinTensor]:
    before = norm(f"{ours}.norm", f"{theirs}{names.norms[at]}", branch.norm)
    return before + norm(f"{ours}.after", f"{theirs}{names.after[at]}", branch.after)


def _attention(ours: str, theirs: str, op: object, names: Names) -> list[TwinTensor]:
    assert isinstance(op, Attention)
    qkv: Conversion = Copy() if len(names.qkv) == 1 else Stack((op.inner, op.kv_inner, op.kv_inner))
    order = _order(op, names)
    if order is not None:
        qkv = Reordered(qkv, order)
    matrices = [(f"{ours}.qkv", names.qkv, qkv, op.qkv_bias), (f"{ours}.out", (names.out,), Copy(), op.out_bias)]
    tensors = [entry for matrix in matrices for entry in _linear(*matrix, theirs)]
    for mine, its in zip(("q_norm", "k_norm"), names.qk_norms, strict=True):
        tensors += norm(f"{ours}.{mine}", f"{theirs}{its}", op.qk_norm)
    return tensors


def _mlp(ours: str, theirs: str, op: object, names: Names) -> list[TwinTensor]:
    assert isinstance(op, Mlp)
    first: Conversion = Copy() if len(names.first) == 1 else Stack((op.mlp_dim, op.mlp_dim))
    matrices = [(f"{ours}.inp", names.first, first, op.bias), (f"{ours}.out", (names.second,), Copy(), op.bias)]
    return [entry for matrix in matrices for entry in _linear(*matrix, theirs)]


def _linear(ours: str, parts: tuple[str, ...], how: Conversion, bias: bool, theirs: str) -> list[TwinTensor]:
    kinds = ("weight", "bias")[: 1 + bias]
    return [TwinTensor(f"{ours}.{kind}", tuple(f"{theirs}{part}.{kind}" for part in parts), how) for kind in kinds]


def _order(op: Attention, names: Names) -> tuple[int, ...] | None:
    """Where each of our rows of queries, keys and values stands there; None where the order is the same."""
    assert isinstance(op.mix, Softmax)
    if not names.by_head and not names.pairs:
        return None
    counts = (op.heads, op.kv_heads or op.heads, op.kv_heads or op.heads)
    channels = list(range(op.head_dim))
    if names.pairs and op.mix.rope is not None:
        turns = turned(op.mix.rope, op.head_dim)
        channels[:turns] = [*range(0, turns, 2), *range(1, turns, 2)]
    order: list[int] = []
    for part, count in enumerate(counts):
        for head in range(count):
            start = (3 * head + part) if names.by_head else sum(counts[:part]) + head
            within = channels if part < 2 else range(op.head_dim)
            order += [start * op.head_dim + channel for channel in within]
    return tuple(order)
