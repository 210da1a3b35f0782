"""Language models of transformers as records, each from the object of its `config.json`.

GPT-2, BERT and Nyströmformer have no head_dim of their own: transformers divides the width by the heads and ignores a
`head_dim` key, so a key that says otherwise is refused."""

from __future__ import annotations

from collections.abc import Callable

from manyheads.arch import families as f
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Attention, Classify, Head, Masked, Mlp, Norm, Nystrom, Residual, Stage, Token

from .hf_fields import Config, activation, class_count, classifies, real, split_head_dim, whole, with_eps_and_act


def _gpt2(config: Config) -> Arch:
    width, heads = whole(config, "n_embd", "hidden_size"), whole(config, "n_head", "num_attention_heads")
    positions = whole(config, "n_positions", "max_position_embeddings", default=1024)
    arch = f.gpt2(
        width,
        whole(config, "n_layer", "num_hidden_layers"),
        heads,
        split_head_dim(config, width, heads),
        whole(config, "n_inner", default=4 * width),
        vocab=whole(config, "vocab_size", default=50257),
        tokens=positions,
        positions=positions,
        tied=config.get("tie_word_embeddings", True),
    )
    eps = real(config, "layer_norm_epsilon", 1e-5)
    return with_eps_and_act(arch, eps, activation(config, "activation_function", "gelu_new"))


def _bert_head(config: Config, width: int) -> Head | None:
    """BERT's pooler and classifier, or None for masked language modelling."""
    if not classifies(config):
        return None
    return Classify(class_count(config), "class", None, hidden=width, act="tanh")


def beside_the_head(config: Config, name: str) -> str:
    """Why BERT's class for pre-training is not read."""
    width = whole(config, "hidden_size")
    count = width * width + width + 2 * width + 2
    return (
        f"{name} has a pooler and a next-sentence head beside the masked-language head, {count:,} parameters that no "
        'record holds; write BertForMaskedLM under "architectures" to read the model without them'
    )


def _bert(config: Config) -> Arch:
    width, heads = whole(config, "hidden_size"), whole(config, "num_attention_heads")
    positions, eps = whole(config, "max_position_embeddings", default=512), real(config, "layer_norm_eps", 1e-12)
    if not config.get("tie_word_embeddings", True):
        raise UserError("manyheads builds BERT with a tied head only; set tie_word_embeddings to true")
    arch = f.bert(
        width,
        whole(config, "num_hidden_layers"),
        heads,
        split_head_dim(config, width, heads),
        whole(config, "intermediate_size"),
        vocab=whole(config, "vocab_size", default=30522),
        tokens=positions,
        positions=positions,
        types=whole(config, "type_vocab_size", default=2),
        eps=eps,
        head=_bert_head(config, width),
    )
    return with_eps_and_act(arch, eps, activation(config, "hidden_act", "gelu"))


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
    head: Head = Masked(bias=True, transform=True)
    if classifies(config):
        head = Classify(class_count(config), "class", None, hidden=width, act=act)
    # the position table has two more rows than positions, because position ids start at 2, as in RoBERTa
    embed = Token(
        whole(config, "vocab_size", default=30000),
        tokens + 2,
        types=whole(config, "type_vocab_size", default=2),
        norm=norm,
    )
    stage = Stage(width, tokens, whole(config, "num_hidden_layers"), (layer,))
    return Arch("nystromformer", embed, (stage,), head)


CAUSAL, READS = ("ForCausalLM", "LMHeadModel"), ("ForMaskedLM", "ForSequenceClassification")
# model type -> the function that reads it, and the endings of the classes that it reads
# fmt: off
READERS: dict[str, tuple[Callable[[Config], Arch], tuple[str, ...]]] = {
    "gpt2": (_gpt2, CAUSAL), "bert": (_bert, READS), "nystromformer": (_nystromformer, READS),
}
# fmt: on
