"""Text encoders of transformers as records, each from the object of its `config.json`.

None of them has a head_dim of its own: transformers divides the width by the heads and ignores a `head_dim` key, so a key
that says otherwise is refused. The class that `architectures` names decides the head; without one it is the
masked-language head or, for the towers of CLIP and SigLIP, none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from manyheads.arch import families as f
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import (
    Act,
    Attention,
    Classify,
    Features,
    Head,
    Masked,
    Mlp,
    Norm,
    Nystrom,
    Pooler,
    Residual,
    Softmax,
    Stage,
    Token,
)

from .hf_fields import Config, activation, class_count, real, split_head_dim, whole, with_eps_and_act


def of_class(config: Config, ending: str) -> bool:
    """Whether the configuration names a class with this ending."""
    return any(name.endswith(ending) for name in config.get("architectures") or ())


def beside_the_head(config: Config, name: str) -> str:
    """Why BERT's class for pre-training is not read."""
    width = whole(config, "hidden_size")
    count = width * width + width + 2 * width + 2
    return (
        f"{name} has a pooler and a next-sentence head beside the masked-language head, {count:,} parameters that no "
        'record holds; write BertForMaskedLM under "architectures" to read the model without them'
    )


def _head(config: Config, width: int, *, transform: Act, hidden: Act, pooler: bool) -> Head:
    """The masked-language head, whose dense layer has the activation `transform`; for a classifier its hidden layer with
    the activation `hidden`; for a model without a head BERT's pooler, or none."""
    if of_class(config, "ForSequenceClassification"):
        return Classify(class_count(config), "class", None, hidden=width, act=hidden)
    if of_class(config, "Model"):
        return Features(None, Pooler("class", None, width, act="tanh") if pooler else None)
    if not config.get("tie_word_embeddings", True):
        raise UserError(
            f"manyheads builds {config['model_type']} with a tied head only; set tie_word_embeddings to true"
        )
    return Masked(bias=True, transform=True, act=transform)


def _encoder(config: Config, head: Head, **further: Any) -> Arch:
    """BERT, and what has its names for sizes."""
    width, heads = whole(config, "hidden_size"), whole(config, "num_attention_heads")
    positions, eps = whole(config, "max_position_embeddings", default=512), real(config, "layer_norm_eps", 1e-12)
    settings = {"tokens": positions, "types": whole(config, "type_vocab_size", default=2)} | further
    arch = f.bert(
        width,
        whole(config, "num_hidden_layers"),
        heads,
        split_head_dim(config, width, heads),
        whole(config, "intermediate_size"),
        vocab=whole(config, "vocab_size", default=30522),
        positions=positions,
        eps=eps,
        head=head,
        **settings,
    )
    return with_eps_and_act(arch, eps, activation(config, "hidden_act", "gelu"))


def _bert(config: Config) -> Arch:
    act = activation(config, "hidden_act", "gelu")
    return _encoder(config, _head(config, whole(config, "hidden_size"), transform=act, hidden="tanh", pooler=True))


def _roberta(config: Config) -> Arch:
    padding = config.get("pad_token_id", 1)
    if isinstance(padding, bool) or not isinstance(padding, int) or padding < 0:
        raise UserError(
            f"pad_token_id is {padding!r}; write the id of padding, since the positions of a {config['model_type']} begin "
            "after it"
        )
    head = _head(config, whole(config, "hidden_size"), transform="gelu", hidden="tanh", pooler=True)
    first = padding + 1
    positions = whole(config, "max_position_embeddings", default=512)
    if positions <= first:
        raise UserError(
            f"max_position_embeddings is {positions} and the first position has row {first}; write more positions"
        )
    arch = _encoder(config, head, tokens=positions - first)
    assert isinstance(arch.embed, Token)
    return replace(arch, embed=replace(arch.embed, first=first), dialect="roberta")


def _electra(config: Config) -> Arch:
    width = whole(config, "hidden_size")
    narrow = whole(config, "embedding_size", default=128)
    if narrow != width:
        raise UserError(
            f"this electra has embeddings of {narrow} and layers of {width}, with a projection between them that no record "
            "holds; manyheads reads those with embedding_size equal to hidden_size"
        )
    return _encoder(config, _head(config, width, transform="gelu", hidden="gelu", pooler=False))


def _distilbert(config: Config) -> Arch:
    act = activation(config, "activation", "gelu")
    width, heads = whole(config, "dim", "hidden_size"), whole(config, "n_heads", "num_attention_heads")
    positions = whole(config, "max_position_embeddings", default=512)
    arch = f.bert(
        width,
        whole(config, "n_layers", "num_hidden_layers"),
        heads,
        split_head_dim(config, width, heads),
        whole(config, "hidden_dim", "intermediate_size"),
        vocab=whole(config, "vocab_size", default=30522),
        tokens=positions,
        positions=positions,
        types=0,
        head=_head(config, width, transform=act, hidden="relu", pooler=False),
    )
    return with_eps_and_act(arch, 1e-12, act)


def _tower(
    config: Config, dialect: str, act: str, eps: float, *, causal: bool, head: Callable[[Norm], Features]
) -> Arch:
    """The text tower of CLIP or SigLIP."""
    width, heads = whole(config, "hidden_size"), whole(config, "num_attention_heads")
    tokens, norm = whole(config, "max_position_embeddings"), Norm(eps=real(config, "layer_norm_eps", eps))
    attention = Attention(heads, split_head_dim(config, width, heads), mix=Softmax(causal))
    mlp = Mlp(whole(config, "intermediate_size"), activation(config, "hidden_act", act))
    stage = Stage(
        width, tokens, whole(config, "num_hidden_layers"), ((Residual(attention, norm), Residual(mlp, norm)),)
    )
    return Arch("bert", Token(whole(config, "vocab_size"), tokens), (stage,), head(norm), dialect=dialect)


def _clip_text(config: Config) -> Arch:
    vocab, end = whole(config, "vocab_size"), config.get("eos_token_id")
    projected = of_class(config, "WithProjection")
    if projected and end not in (2, vocab - 1):  # 2 says the largest id in transformers' code
        raise UserError(
            f"eos_token_id is {end!r}; manyheads builds the projection of a text tower whose end token is the last of its "
            f"vocabulary, {vocab - 1}"
        )
    size = whole(config, "projection_dim", default=512)
    pooler = Pooler("end", None, size, bias=False) if projected else None
    return _tower(config, "clip", "quick_gelu", 1e-5, causal=True, head=lambda norm: Features(norm, pooler))


def _siglip_text(config: Config) -> Arch:
    size = whole(config, "projection_size", "hidden_size")
    pooler = Pooler("last", None, size)
    return _tower(config, "siglip", "gelu_pytorch_tanh", 1e-6, causal=False, head=lambda norm: Features(norm, pooler))


def _nystromformer(config: Config) -> Arch:
    width, heads = whole(config, "hidden_size"), whole(config, "num_attention_heads")
    tokens, eps = whole(config, "max_position_embeddings", default=510), real(config, "layer_norm_eps", 1e-5)
    norm, act = Norm(eps=eps), activation(config, "hidden_act", "gelu_new")
    conv = 0 if config.get("conv_kernel_size", 65) is None else whole(config, "conv_kernel_size", default=65)
    mix = Nystrom(whole(config, "num_landmarks", default=64), conv=conv)
    layer = (
        Residual(Attention(heads, split_head_dim(config, width, heads), mix=mix), norm, "post"),
        Residual(Mlp(whole(config, "intermediate_size"), act), norm, "post"),
    )
    # the position table has two more rows than positions, because position ids start at 2
    embed = Token(
        whole(config, "vocab_size", default=30000),
        tokens + 2,
        types=whole(config, "type_vocab_size", default=2),
        norm=norm,
        first=2,
    )
    stage = Stage(width, tokens, whole(config, "num_hidden_layers"), (layer,))
    return Arch("nystromformer", embed, (stage,), _head(config, width, transform=act, hidden=act, pooler=False))


READS = ("ForMaskedLM", "ForSequenceClassification")
# model type -> the function that reads it, and the endings of the classes that it reads
# fmt: off
READERS: dict[str, tuple[Callable[[Config], Arch], tuple[str, ...]]] = {
    "bert": (_bert, (*READS, "BertModel")), "roberta": (_roberta, (*READS, "RobertaModel")),
    "xlm-roberta": (_roberta, (*READS, "RobertaModel")), "camembert": (_roberta, (*READS, "CamembertModel")),
    "electra": (_electra, (*READS, "ElectraModel")), "distilbert": (_distilbert, (*READS, "DistilBertModel")),
    "clip_text_model": (_clip_text, ("CLIPTextModel", "CLIPTextModelWithProjection")),
    "siglip_text_model": (_siglip_text, ("SiglipTextModel",)),
    "siglip2_text_model": (_siglip_text, ("Siglip2TextModel",)), "nystromformer": (_nystromformer, READS),
}
# fmt: on
