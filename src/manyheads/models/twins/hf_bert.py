"""transformers' BertForMaskedLM and BertForSequenceClassification, tensor by tensor."""

from __future__ import annotations

from manyheads.spec.arch import Arch, attentions
from manyheads.spec.parts import Classify, Masked

from .entry import Entry, Stack, same


def entries(arch: Arch) -> list[Entry]:
    """The map between our BERT and transformers': `Masked` is BertForMaskedLM, `Classify` with a tanh layer as wide as
    the model is BertForSequenceClassification."""
    found = [
        Entry("embed.vocab.weight", ("bert.embeddings.word_embeddings.weight",)),
        Entry("embed.positions.weight", ("bert.embeddings.position_embeddings.weight",)),
        Entry("embed.types.weight", ("bert.embeddings.token_type_embeddings.weight",)),
        *same("embed.norm", "bert.embeddings.LayerNorm"),
    ]
    layers = [op for stage in arch.stages for _ in range(stage.depth) for op in attentions(stage)]
    for i, op in enumerate(layers):
        ours, theirs = f"blocks.{i}", f"bert.encoder.layer.{i}"
        rows = Stack((op.inner, op.kv_inner, op.kv_inner))
        for name in ("weight", "bias"):
            parts = tuple(f"{theirs}.attention.self.{part}.{name}" for part in ("query", "key", "value"))
            found.append(Entry(f"{ours}.attention.op.qkv.{name}", parts, rows))
        found += same(f"{ours}.attention.op.out", f"{theirs}.attention.output.dense")
        found += same(f"{ours}.attention.norm", f"{theirs}.attention.output.LayerNorm")
        found += same(f"{ours}.mlp.op.inp", f"{theirs}.intermediate.dense")
        found += same(f"{ours}.mlp.op.out", f"{theirs}.output.dense")
        found += same(f"{ours}.mlp.norm", f"{theirs}.output.LayerNorm")
    if isinstance(arch.head, Masked):
        found += same("head.dense", "cls.predictions.transform.dense")
        found += same("head.dense_norm", "cls.predictions.transform.LayerNorm")
        return [*found, Entry("head.bias", ("cls.predictions.bias",))]
    assert isinstance(arch.head, Classify)
    return found + same("head.hidden", "bert.pooler.dense") + same("head.out", "classifier")


def repeats(arch: Arch) -> dict[str, str]:
    """Names there that show another tensor once more -> the name of that tensor."""
    if not isinstance(arch.head, Masked):
        return {}
    return {
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }
