"""transformers' LlamaForCausalLM and Qwen3ForCausalLM, tensor by tensor: they name their parts alike."""

from __future__ import annotations

from manyheads.spec.arch import Arch, attentions, mlps
from manyheads.spec.parts import Lm

from .entry import Entry, Stack, same


def entries(arch: Arch) -> list[Entry]:
    """The map between our Llama and transformers': queries, keys and values stand below each other here, and so do a
    gated MLP's gate and value."""
    head = arch.head
    assert isinstance(head, Lm)
    found = [Entry("embed.vocab.weight", ("model.embed_tokens.weight",))]
    stages = [stage for stage in arch.stages for _ in range(stage.depth)]
    layers = [pair for stage in stages for pair in zip(attentions(stage), mlps(stage), strict=True)]
    for i, (op, mlp) in enumerate(layers):
        ours, theirs = f"blocks.{i}", f"model.layers.{i}"
        rows = Stack((op.inner, op.kv_inner, op.kv_inner))
        for name in ("weight", "bias") if op.qkv_bias else ("weight",):
            parts = tuple(f"{theirs}.self_attn.{part}_proj.{name}" for part in "qkv")
            found.append(Entry(f"{ours}.attention.op.qkv.{name}", parts, rows))
        found += same(f"{ours}.attention.op.out", f"{theirs}.self_attn.o_proj", ("weight", "bias")[: 1 + op.out_bias])
        if op.qk_norm is not None:
            found += same(f"{ours}.attention.op.q_norm", f"{theirs}.self_attn.q_norm", ("weight",))
            found += same(f"{ours}.attention.op.k_norm", f"{theirs}.self_attn.k_norm", ("weight",))
        found += same(f"{ours}.attention.norm", f"{theirs}.input_layernorm", ("weight",))
        found += same(f"{ours}.mlp.norm", f"{theirs}.post_attention_layernorm", ("weight",))
        halves = (f"{theirs}.mlp.gate_proj.weight", f"{theirs}.mlp.up_proj.weight")
        found.append(Entry(f"{ours}.mlp.op.inp.weight", halves, Stack((mlp.mlp_dim, mlp.mlp_dim))))
        found += same(f"{ours}.mlp.op.out", f"{theirs}.mlp.down_proj", ("weight",))
    found += same("head.norm", "model.norm", ("weight",))
    if not head.tied:
        found.append(Entry("head.weight", ("lm_head.weight",)))
    return found


def repeats(arch: Arch) -> dict[str, str]:
    """Names there that show another tensor once more -> the name of that tensor."""
    assert isinstance(arch.head, Lm)
    return {"lm_head.weight": "model.embed_tokens.weight"} if arch.head.tied else {}
