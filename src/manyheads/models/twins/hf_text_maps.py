"""transformers' text encoders beside BERT, tensor by tensor: RoBERTa, DistilBERT, ELECTRA, and the text towers of CLIP and
SigLIP. `tied_*` as in `hf_maps`."""

from __future__ import annotations

from manyheads.spec.arch import Arch
from manyheads.spec.parts import Classify, Features, Masked

from .hf_maps import encoder
from .hf_names import attention_ops, pooler, prefix, qkv
from .hf_vision_maps import tower
from .tensors import TwinTensor, modules, same


def roberta(arch: Arch) -> list[TwinTensor]:
    """The map between our BERT in RoBERTa's dialect and transformers' RobertaModel, RobertaForMaskedLM or
    RobertaForSequenceClassification; XLM-RoBERTa and CamemBERT name their parts alike."""
    tensors = encoder(arch, "roberta")
    match arch.head:
        case Features():
            return tensors + pooler(arch.head)
        case Masked():
            tensors += modules("head", "lm_head", {"dense": "dense", "dense_norm": "layer_norm"})
            return [*tensors, TwinTensor("head.bias", ("lm_head.bias",))]
    return tensors + same("head.hidden", "classifier.dense") + same("head.out", "classifier.out_proj")


def tied_roberta(arch: Arch) -> dict[str, str]:
    """The tied names of RobertaForMaskedLM; the others have none."""
    if not isinstance(arch.head, Masked):
        return {}
    return {
        "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    }


def distilbert(arch: Arch) -> list[TwinTensor]:
    """The map between our BERT without segments and transformers' DistilBertModel, DistilBertForMaskedLM or
    DistilBertForSequenceClassification."""
    body = prefix(arch, "distilbert")
    tensors = [
        TwinTensor("embed.positions.weight", (f"{body}embeddings.position_embeddings.weight",)),
        TwinTensor("embed.vocab.weight", (f"{body}embeddings.word_embeddings.weight",)),
        *same("embed.norm", f"{body}embeddings.LayerNorm"),
    ]
    names = {
        "attention.norm": "sa_layer_norm",
        "attention.op.out": "attention.out_lin",
        "mlp.norm": "output_layer_norm",
    }
    names |= {"mlp.op.inp": "ffn.lin1", "mlp.op.out": "ffn.lin2"}
    for i, op in enumerate(attention_ops(arch)):
        ours, theirs = f"blocks.{i}", f"{body}transformer.layer.{i}"
        tensors += qkv(ours, [f"{theirs}.attention.{part}_lin" for part in "qkv"], op)
        tensors += modules(ours, theirs, names)
    match arch.head:
        case Masked():
            tensors += same("head.dense", "vocab_transform") + same("head.dense_norm", "vocab_layer_norm")
            return [*tensors, TwinTensor("head.bias", ("vocab_projector.bias",))]
        case Classify():
            return tensors + same("head.hidden", "pre_classifier") + same("head.out", "classifier")
    return tensors


def tied_distilbert(arch: Arch) -> dict[str, str]:
    """The tied name of DistilBertForMaskedLM; the others have none."""
    table = "distilbert.embeddings.word_embeddings.weight"
    return {"vocab_projector.weight": table} if isinstance(arch.head, Masked) else {}


def electra(arch: Arch) -> list[TwinTensor]:
    """The map between our BERT and transformers' ElectraModel, ElectraForMaskedLM or
    ElectraForSequenceClassification, with embeddings as wide as the model."""
    tensors = encoder(arch, "electra")
    match arch.head:
        case Masked():
            tensors += modules("head", "generator_predictions", {"dense": "dense", "dense_norm": "LayerNorm"})
            return [*tensors, TwinTensor("head.bias", ("generator_lm_head.bias",))]
        case Classify():
            return tensors + same("head.hidden", "classifier.dense") + same("head.out", "classifier.out_proj")
    return tensors


def tied_electra(arch: Arch) -> dict[str, str]:
    """The tied name of ElectraForMaskedLM; the others have none."""
    table = "electra.embeddings.word_embeddings.weight"
    return {"generator_lm_head.weight": table} if isinstance(arch.head, Masked) else {}


def clip_text(arch: Arch) -> list[TwinTensor]:
    """The map between our BERT in CLIP's dialect and transformers' CLIPTextModel, or the one WithProjection."""
    assert isinstance(arch.head, Features)
    projection = pooler(arch.head, "text_projection")
    return _text(arch, "text_model." if projection else "") + projection


def siglip_text(arch: Arch) -> list[TwinTensor]:
    """The map between our BERT in SigLIP's dialect and transformers' SiglipTextModel, and Siglip2TextModel."""
    assert isinstance(arch.head, Features)
    return _text(arch, "") + pooler(arch.head, "head")


def _text(arch: Arch, body: str) -> list[TwinTensor]:
    """A text tower's tables, layers and last norm."""
    tables = {"embed.vocab": "token_embedding", "embed.positions": "position_embedding"}
    tensors = [TwinTensor(f"{ours}.weight", (f"{body}embeddings.{its}.weight",)) for ours, its in tables.items()]
    return tensors + tower(arch, body) + same("head.norm", f"{body}final_layer_norm")
