"""transformers' ViT, BERT, GPT-2, Llama, Qwen3 and Nyströmformer, tensor by tensor.

`tied_*` give the names there that show another tensor once more, each with the name of that tensor.
"""

from __future__ import annotations

from collections.abc import Mapping

from manyheads.spec.arch import Arch
from manyheads.spec.parts import Classify, Features, Lm, Masked, Nystrom, Token

from . import hf_vision_maps
from .hf_decoders import LLAMA, decoder, tied
from .hf_names import attention_ops, pooler, prefix, qkv
from .tensors import Shape, SkipRows, Transpose, TwinTensor, modules, same


def vit(arch: Arch) -> list[TwinTensor]:
    """The map between our ViT and transformers' ViTModel, or ViTForImageClassification where it classifies, by the names
    they have since transformers 5."""
    return hf_vision_maps.vit_layers(arch, "vit", ("cls_token",)) + hf_vision_maps.vit_head(arch, "vit")


def bert(arch: Arch) -> list[TwinTensor]:
    """The map between our BERT and transformers': `Masked` is BertForMaskedLM, `Classify` with a tanh layer as wide as
    the model is BertForSequenceClassification, `Features` is BertModel."""
    tensors = encoder(arch, "bert")
    if isinstance(arch.head, Features):
        return tensors + pooler(arch.head)
    if isinstance(arch.head, Masked):
        tensors += modules("head", "cls.predictions.transform", {"dense": "dense", "dense_norm": "LayerNorm"})
        return [*tensors, TwinTensor("head.bias", ("cls.predictions.bias",))]
    assert isinstance(arch.head, Classify)
    return tensors + same("head.hidden", "bert.pooler.dense") + same("head.out", "classifier")


def tied_bert(arch: Arch) -> dict[str, str]:
    """The tied names of BertForMaskedLM; the others have none."""
    if not isinstance(arch.head, Masked):
        return {}
    return {
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }


def nystromformer(arch: Arch) -> list[TwinTensor]:
    """The map between our post-norm Nyströmformer and transformers' NystromformerForSequenceClassification, whose
    positions start at 2."""
    assert isinstance(arch.embed, Token)
    tensors = encoder(arch, "nystromformer")
    if not arch.embed.first:  # the record leaves out the two rows that the twin never reads
        table = tensors[0].theirs
        tensors[0] = TwinTensor("embed.positions.weight", table, SkipRows(2))
    for i, op in enumerate(attention_ops(arch)):
        if isinstance(op.mix, Nystrom) and op.mix.conv:
            taps = Shape((op.heads, op.mix.conv), (op.heads, 1, op.mix.conv, 1))
            theirs = f"nystromformer.encoder.layer.{i}.attention.self.conv.weight"
            tensors.append(TwinTensor(f"blocks.{i}.attention.op.skip", (theirs,), taps))
    if isinstance(arch.head, Masked):
        tensors += modules("head", "cls.predictions.transform", {"dense": "dense", "dense_norm": "LayerNorm"})
        return [*tensors, TwinTensor("head.bias", ("cls.predictions.bias",))]
    return tensors + same("head.hidden", "classifier.dense") + same("head.out", "classifier.out_proj")


def tied_nystromformer(arch: Arch) -> dict[str, str]:
    """The tied names of NystromformerForMaskedLM; the classifier has none."""
    if not isinstance(arch.head, Masked):
        return {}
    return {
        "cls.predictions.decoder.weight": "nystromformer.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }


def encoder(arch: Arch, name: str) -> list[TwinTensor]:
    """Embeddings, positions first, and layers, as BERT and all that copied its code call them. In a model without a head
    the names are not preceded by that of the model."""
    assert isinstance(arch.embed, Token)
    name = prefix(arch, name)
    tensors = [
        TwinTensor("embed.positions.weight", (f"{name}embeddings.position_embeddings.weight",)),
        TwinTensor("embed.vocab.weight", (f"{name}embeddings.word_embeddings.weight",)),
        *same("embed.norm", f"{name}embeddings.LayerNorm"),
    ]
    if arch.embed.types:
        tensors += same("embed.types", f"{name}embeddings.token_type_embeddings", ("weight",))
    names = {"attention.norm": "attention.output.LayerNorm", "attention.op.out": "attention.output.dense"}
    names |= {"mlp.norm": "output.LayerNorm", "mlp.op.inp": "intermediate.dense", "mlp.op.out": "output.dense"}
    for i, op in enumerate(attention_ops(arch)):
        ours, theirs = f"blocks.{i}", f"{name}encoder.layer.{i}"
        tensors += qkv(ours, [f"{theirs}.attention.self.{part}" for part in ("query", "key", "value")], op)
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
