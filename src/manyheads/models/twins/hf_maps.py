"""transformers' ViT, BERT, GPT-2, Llama, Qwen3 and Nyströmformer, tensor by tensor.

`tied_*` give the names there that show another tensor once more, each with the name of that tensor.
"""

from __future__ import annotations

from collections.abc import Mapping

from manyheads.spec.arch import Arch, attentions
from manyheads.spec.parts import Attention, Classify, Lm, Masked, Nystrom, Patch

from .hf_decoders import LLAMA, decoder, tied
from .tensors import Shape, SkipRows, Transpose, TwinTensor, modules, same, stacked


def vit(arch: Arch) -> list[TwinTensor]:
    """The map between our ViT and transformers' ViTForImageClassification, by the names it has since transformers 5."""
    embed, width, tokens = arch.embed, arch.stages[0].width, arch.stages[0].tokens
    assert isinstance(embed, Patch)
    assert isinstance(arch.head, Classify)
    kernel = (width, embed.channels, embed.patch, embed.patch)
    flat = (width, embed.channels * embed.patch**2)
    patches, positions, class_token = "patch_embeddings.projection", "position_embeddings", "cls_token"
    tensors = [
        TwinTensor("embed.proj.weight", (f"vit.embeddings.{patches}.weight",), Shape(flat, kernel)),
        TwinTensor("embed.proj.bias", (f"vit.embeddings.{patches}.bias",)),
        TwinTensor("embed.positions", (f"vit.embeddings.{positions}",), Shape((tokens, width), (1, tokens, width))),
        TwinTensor("embed.class_tokens", (f"vit.embeddings.{class_token}",), Shape((1, width), (1, 1, width))),
    ]
    names = {"attention.norm": "layernorm_before", "attention.op.out": "attention.o_proj"}
    names |= {"mlp.norm": "layernorm_after", "mlp.op.inp": "mlp.fc1", "mlp.op.out": "mlp.fc2"}
    for i, op in enumerate(_attentions(arch)):
        ours, theirs = f"blocks.{i}", f"vit.layers.{i}"
        tensors += _qkv(ours, [f"{theirs}.attention.{part}_proj" for part in "qkv"], op)
        tensors += modules(ours, theirs, names)
    return tensors + same("head.norm", "vit.layernorm") + same("head.out", "classifier")


def bert(arch: Arch) -> list[TwinTensor]:
    """The map between our BERT and transformers': `Masked` is BertForMaskedLM, `Classify` with a tanh layer as wide as
    the model is BertForSequenceClassification."""
    positions = TwinTensor("embed.positions.weight", ("bert.embeddings.position_embeddings.weight",))
    tensors = [positions, *_encoder(arch, "bert")]
    if isinstance(arch.head, Masked):
        tensors += modules("head", "cls.predictions.transform", {"dense": "dense", "dense_norm": "LayerNorm"})
        return [*tensors, TwinTensor("head.bias", ("cls.predictions.bias",))]
    assert isinstance(arch.head, Classify)
    return tensors + same("head.hidden", "bert.pooler.dense") + same("head.out", "classifier")


def tied_bert(arch: Arch) -> dict[str, str]:
    """The tied names of BertForMaskedLM; the classifier has none."""
    if not isinstance(arch.head, Masked):
        return {}
    return {
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }


def nystromformer(arch: Arch) -> list[TwinTensor]:
    """The map between our post-norm Nyströmformer and transformers' NystromformerForSequenceClassification, whose
    positions start at 2."""
    positions = ("nystromformer.embeddings.position_embeddings.weight",)
    tensors = [TwinTensor("embed.positions.weight", positions, SkipRows(2)), *_encoder(arch, "nystromformer")]
    for i, op in enumerate(_attentions(arch)):
        if isinstance(op.mix, Nystrom) and op.mix.conv:
            taps = Shape((op.heads, op.mix.conv), (op.heads, 1, op.mix.conv, 1))
            theirs = f"nystromformer.encoder.layer.{i}.attention.self.conv.weight"
            tensors.append(TwinTensor(f"blocks.{i}.attention.op.skip", (theirs,), taps))
    return tensors + same("head.hidden", "classifier.dense") + same("head.out", "classifier.out_proj")


def _encoder(arch: Arch, name: str) -> list[TwinTensor]:
    """Embeddings but for positions, and layers, as BERT and all that copied its code call them."""
    tensors = [
        TwinTensor("embed.vocab.weight", (f"{name}.embeddings.word_embeddings.weight",)),
        TwinTensor("embed.types.weight", (f"{name}.embeddings.token_type_embeddings.weight",)),
        *same("embed.norm", f"{name}.embeddings.LayerNorm"),
    ]
    names = {"attention.norm": "attention.output.LayerNorm", "attention.op.out": "attention.output.dense"}
    names |= {"mlp.norm": "output.LayerNorm", "mlp.op.inp": "intermediate.dense", "mlp.op.out": "output.dense"}
    for i, op in enumerate(_attentions(arch)):
        ours, theirs = f"blocks.{i}", f"{name}.encoder.layer.{i}"
        tensors += _qkv(ours, [f"{theirs}.attention.self.{part}" for part in ("query", "key", "value")], op)
        tensors += modules(ours, theirs, names)
    return tensors


def gpt2(arch: Arch) -> list[TwinTensor]:
    """The map between our GPT-2 and transformers' GPT2LMHeadModel, which keeps its linear maps as input x output."""
    head = arch.head
    assert isinstance(head, Lm)
    tensors = [
        TwinTensor("embed.vocab.weight", ("transformer.wte.weight",)),
        TwinTensor("embed.positions.weight", ("transformer.wpe.weight",)),
    ]
    maps = {"attention.op.qkv": "attn.c_attn", "attention.op.out": "attn.c_proj"}
    maps |= {"mlp.op.inp": "mlp.c_fc", "mlp.op.out": "mlp.c_proj"}
    for i in range(sum(stage.depth for stage in arch.stages)):
        ours, theirs = f"blocks.{i}", f"transformer.h.{i}"
        tensors += modules(ours, theirs, {"attention.norm": "ln_1", "mlp.norm": "ln_2"})
        for mine, its in maps.items():
            tensors.append(TwinTensor(f"{ours}.{mine}.weight", (f"{theirs}.{its}.weight",), Transpose()))
            tensors += same(f"{ours}.{mine}", f"{theirs}.{its}", ("bias",))
    tensors += same("head.norm", "transformer.ln_f")
    return tensors if head.tied else [*tensors, TwinTensor("head.weight", ("lm_head.weight",))]


def tied_gpt2(arch: Arch) -> dict[str, str]:
    """The tied name of GPT2LMHeadModel, if its head is tied."""
    return _tied_head(arch, "transformer.wte.weight")


def llama(arch: Arch) -> list[TwinTensor]:
    """The map between our Llama and transformers' LlamaForCausalLM and those that name their parts alike, such as
    Qwen3ForCausalLM. Queries, keys and values stand below each other here, and so do a gated MLP's gate and value."""
    return decoder(arch, LLAMA)


def tied_llama(arch: Arch) -> Mapping[str, str]:
    """The tied name of LlamaForCausalLM, if its head is tied."""
    return tied(arch, LLAMA)


def _tied_head(arch: Arch, table: str) -> dict[str, str]:
    assert isinstance(arch.head, Lm)
    return {"lm_head.weight": table} if arch.head.tied else {}


def _attentions(arch: Arch) -> list[Attention]:
    """The attention of every layer, in order."""
    return [op for stage in arch.stages for _ in range(stage.depth) for op in attentions(stage)]


def _qkv(ours: str, theirs: list[str], op: Attention) -> list[TwinTensor]:
    """Queries, keys and values, which are apart there."""
    return stacked(f"{ours}.attention.op.qkv", theirs, (op.inner, op.kv_inner, op.kv_inner), bias=op.qkv_bias)
